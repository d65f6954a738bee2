"""A store kept in order by commands that have a record of their own: what each does, refuses, and says."""

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_command import command_of
from adapters.ssh.runner_wire import Answer, RemotePhase
from adapters.ssh.upkeep import upkeep_words
from tests.unit.adapters.remote_host import ISSUED, SHELLS, Host

LATE = ISSUED + 1_000


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path, "dash")
    made.init()
    return made


def kept(host: Host, verb: str, nth: int = 1, **values: Any) -> Answer:
    """Run one as the operation `up_NTH`, issued later than everything else."""
    name = f"up_{nth}"
    assert host.store_id is not None
    words = [
        word.format(operation_id=name, **values) if "{" in word else word
        for word in upkeep_words(verb, host.store, host.store_id)
    ]
    return host.ask(Verb.RUN, name, command=command_of(words), issued_ms=LATE)


def said(answer: Answer) -> list[dict[str, Any]]:
    assert answer.out is not None
    assert answer.out.gap == 0
    lines = (answer.out.head + answer.out.tail).decode().splitlines()
    return [json.loads(line.partition("{")[1] + line.partition("{")[2]) for line in lines if line.startswith("@gw1")]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_fence_closes_every_attempt_of_an_operation(tmp_path: Path, shell: str) -> None:
    host = Host(tmp_path, shell)
    host.init()
    done = kept(host, "fence", target="op_1", issued_ms=ISSUED, attempts=3)

    assert (done.phase, done.fields["exit"]) == (RemotePhase.EXITED, 0)
    assert [(item["attempt"], item["phase"]) for item in said(done)] == [(1, "fenced"), (2, "fenced"), (3, "fenced")]
    for attempt in (1, 2, 3):
        assert host.ask(Verb.RUN, attempt=attempt).phase is RemotePhase.FENCED
    assert host.executions() == 0


def test_what_ran_is_not_fenced_and_says_so(host: Host) -> None:
    host.ask(Verb.RUN)
    done = kept(host, "fence", target="op_1", issued_ms=ISSUED, attempts=3)

    assert done.fields["exit"] == 3
    assert [(item["attempt"], item["phase"], item["exit"]) for item in said(done)] == [(1, "exited", 0)]
    assert host.executions() == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_a_fence_on_a_job_that_has_begun_names_its_steps_and_lets_no_further_one_begin(
    tmp_path: Path, shell: str
) -> None:
    host = Host(tmp_path, shell)
    host.init()
    host.ask(Verb.RUN, "op_1.prepare")
    done = kept(host, "fence", target="op_1", issued_ms=ISSUED, attempts=3)

    assert done.fields["exit"] == 3
    assert [(item["phase"], item["reason"], item["steps"]) for item in said(done)] == [
        ("refused", "has_steps", ["op_1.prepare"])
    ]
    late = host.ask(Verb.RUN, "op_1.restart")
    assert (late.phase, late.reason) == (RemotePhase.FENCED, "fence")
    assert (host.executions("op_1.prepare"), host.executions("op_1.restart")) == (1, 0)
    assert host.ask(Verb.RUN, "op_12.restart").phase is RemotePhase.EXITED


def test_a_job_that_is_fenced_before_anything_of_it_came_never_begins(host: Host) -> None:
    done = kept(host, "fence", target="op_1", issued_ms=ISSUED, attempts=1)

    assert done.fields["exit"] == 0
    assert host.ask(Verb.RUN, "op_1.prepare", attempt=2).phase is RemotePhase.FENCED
    assert host.executions("op_1.prepare") == 0


def test_of_a_job_and_a_step_that_come_at_once_either_the_step_does_not_run_or_the_fence_sees_it(host: Host) -> None:
    """The step has its gate and has not looked for the fence; the fence stands and has not looked for steps."""
    shipped = host.runner
    inner = f"sh {host.folder}/meanwhile >/dev/null 2>&1"
    step = host.call(Verb.RUN, "op_1.restart")
    (host.folder / "meanwhile").write_bytes(host.text(step))
    host.runner = host.at_step("fence-before-steps", inner)
    fence = host.try_ask(Verb.FENCE)
    assert fence is None
    host.runner = shipped
    assert host.ask(Verb.STATUS, "op_1.restart").phase is RemotePhase.FENCED

    call = host.call(Verb.FENCE, "op_2")
    (host.folder / "meanwhile").write_bytes(host.text(call))
    host.runner = host.at_step("gate-taken", inner)
    assert host.ask(Verb.RUN, "op_2.restart").phase is RemotePhase.FENCED
    assert host.executions("op_1.restart") + host.executions("op_2.restart") == 0


def test_the_same_operation_again_does_nothing_again(host: Host) -> None:
    first = kept(host, "fence", target="op_1", issued_ms=ISSUED, attempts=1)
    again = kept(host, "fence", target="op_1", issued_ms=ISSUED, attempts=1)

    assert (again.phase, again.fields["began"], again.out) == (RemotePhase.EXITED, first.fields["began"], first.out)


def test_a_lock_left_by_the_dead_is_set_aside_and_that_of_the_living_is_not(host: Host) -> None:
    host.runner = host.at_step("begun", "kill -KILL $$")
    host.ask(Verb.RUN, "op_dead", lock="web", lock_seconds=600)
    host.runner = Host.changed(host, {})
    assert host.ask(Verb.LOCK, lock="web").fields["state"] == "held"

    stale = kept(host, "unlock", 1, lock="web", number=2)
    assert (stale.fields["exit"], [item["reason"] for item in said(stale)]) == (3, ["lock_changed"])
    done = kept(host, "unlock", 2, lock="web", number=1)
    assert (done.fields["exit"], said(done)[0]["state"]) == (0, "free")

    waits = command_of(["sh", "-c", f"until [ -e {host.folder}/go ]; do sleep 0.05; done"])
    running = host.call(Verb.RUN, "op_alive", command=waits, lock="web", lock_seconds=600, follow_seconds=1)
    assert host.finish(host.begin(running), running) is not None
    alive = kept(host, "unlock", 3, lock="web", number=2)
    assert (alive.fields["exit"], [item["reason"] for item in said(alive)]) == (3, ["lock_holder_alive"])
    (host.folder / "go").touch()


def test_what_is_settled_below_the_floor_is_forgotten_and_a_late_copy_refused(host: Host) -> None:
    host.ask(Verb.RUN)
    done = kept(host, "collect", before_ms=ISSUED)

    assert (done.fields["exit"], said(done)[0]["removed"], said(done)[0]["floor"]) == (0, 1, ISSUED)
    assert host.ask(Verb.STATUS).fields["authoritative"] is False
    assert host.ask(Verb.RUN).reason == "below_gc_floor"
    assert host.executions() == 1
    # Its own record outlives it: it was issued later.
    assert host.ask(Verb.STATUS, "up_1", issued_ms=LATE).phase is RemotePhase.EXITED


def test_a_host_whose_runner_is_gone_says_so(host: Host) -> None:
    assert host.store_id is not None
    words = [*upkeep_words("collect", host.store, host.store_id)]
    words = [word.format(operation_id="up_1", before_ms=5) if "{" in word else word for word in words]
    words[6] = f"{host.store}/bin/gone"
    done = host.ask(Verb.RUN, "up_1", command=command_of(words), issued_ms=LATE)

    assert (done.phase, done.fields["exit"]) == (RemotePhase.EXITED, 4)
