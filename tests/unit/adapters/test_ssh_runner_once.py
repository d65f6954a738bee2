"""At most one execution: under kills and freezes at every named step, cut and damaged deliveries."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_wire import Meaning, RemotePhase, meaning
from tests.unit.adapters.remote_host import SHELLS, Host, freeze_at, wait_until_stopped

# Each named step of `run`, and what a kill -9 there leaves behind.
BEFORE_GATE = ("run-before-supervisor", "supervisor-started", "command-read", "before-gate")
BEFORE_BEGIN = ("gate-taken", "lock-seen-free", "before-sync", "synced", "before-begin")
BEGUN = ("begun", "command-ended")
RECORDED = ("record-written", "record-synced", "record-renamed")
IN_THE_COMMAND = ("command-recorded", "command-about-to-run")
IN_FENCE = ("fence-written", "fence-placed")
ELSEWHERE = (
    "fence-before-steps", "cancel-recorded", "floor-raised", "operation-set-aside", "probe-watched", "store-written",
    "time-is-up",
)  # fmt: skip
OF_RUN = (*BEFORE_GATE, *BEFORE_BEGIN, *BEGUN, *RECORDED, *IN_THE_COMMAND)
TURNS = [(step, SHELLS[index % len(SHELLS)]) for index, step in enumerate(OF_RUN)]
OTHER_TURNS = [(step, shell) for step in OF_RUN for shell in SHELLS if (step, shell) not in TURNS]


def _host(folder: Path, shell: str) -> Host:
    host = Host(folder, shell)
    host.init()
    return host


def test_every_step_of_the_runner_has_its_place_in_these_tests() -> None:
    named = re.findall(r"^\s*: step (\S+)$", load_runner().text.decode(), re.MULTILINE)

    assert sorted(named) == sorted([*OF_RUN, *IN_FENCE, *ELSEWHERE])


# ------------------------------------------------------------------------------------------------------------ kills


def _killed_at(host: Host, step: str) -> None:
    host.runner = host.at_step(step, "kill -9 $$")
    lock: dict[str, Any] = {"lock": "web", "lock_seconds": 60} if step == "lock-seen-free" else {}
    host.try_ask(Verb.RUN, **lock)
    host.runner = load_runner()
    found = host.ask(Verb.STATUS)
    if step in BEFORE_GATE:
        assert found.phase is RemotePhase.ABSENT
        assert (host.ask(Verb.RUN).phase, host.executions()) == (RemotePhase.EXITED, 1)
        assert {name.split(".")[0] for name in host.files()} == {"b", "c", "g", "o", "r", "x"}
    elif step in BEFORE_BEGIN:
        assert (found.phase, found.fields["begun"]) == (RemotePhase.LOST, False)
        assert host.ask(Verb.RUN).phase is RemotePhase.LOST
        assert meaning(host.ask(Verb.FENCE)) is Meaning.NEVER_RAN
        assert (meaning(host.ask(Verb.RUN)), host.executions()) == (Meaning.NEVER_RAN, 0)
        assert not [name for name in host.files() if name[0] in "pst"]
        assert (meaning(host.ask(Verb.RUN, attempt=2)), host.executions()) == (Meaning.EXITED, 1)
    elif step in BEGUN:
        done = host.executions()
        assert (found.phase, found.fields["begun"]) == (RemotePhase.LOST, True)
        assert [meaning(host.ask(verb)) for verb in (Verb.RUN, Verb.FENCE, Verb.CANCEL)] == [Meaning.LOST] * 3
        assert host.ask(Verb.RUN, attempt=2).reason == "attempt_not_fenced"
        assert host.executions() == done == (step == "command-ended")
    else:
        assert meaning(found) is Meaning.EXITED
        assert found.fields["exit"] == (128 + signal.SIGKILL if step in IN_THE_COMMAND else 0)
        assert host.ask(Verb.RUN).fields == found.fields
        assert host.executions() == (step in RECORDED)


@pytest.mark.parametrize(("step", "shell"), TURNS)
def test_killed_at_any_step_it_runs_at_most_once_and_tells_the_truth(tmp_path: Path, step: str, shell: str) -> None:
    _killed_at(_host(tmp_path, shell), step)


@pytest.mark.races
@pytest.mark.parametrize(("step", "shell"), OTHER_TURNS)
def test_killed_at_any_step_under_the_other_shells(tmp_path: Path, step: str, shell: str) -> None:
    _killed_at(_host(tmp_path, shell), step)


@pytest.mark.parametrize("step", IN_FENCE)
def test_a_fence_that_was_killed_is_placed_by_the_next(tmp_path: Path, step: str) -> None:
    host = _host(tmp_path, "dash")
    host.runner = host.at_step(step, "kill -9 $$")

    assert host.try_ask(Verb.FENCE) is None
    host.runner = load_runner()

    assert meaning(host.ask(Verb.FENCE)) is Meaning.NEVER_RAN
    assert host.files() == {"g.1"}
    assert (meaning(host.ask(Verb.RUN)), host.executions()) == (Meaning.NEVER_RAN, 0)


def test_a_cancel_that_was_killed_before_its_signal_is_on_record(tmp_path: Path) -> None:
    host = _host(tmp_path, "busybox")
    os.mkfifo(host.folder / "go")
    os.mkfifo(host.folder / "standing")
    call = host.call(Verb.RUN, command=host.marking("echo >standing; read -r line <go"))
    process = host.begin(call)
    (host.folder / "standing").read_text()
    host.runner = host.at_step("cancel-recorded", "kill -9 $$")

    assert host.try_ask(Verb.CANCEL) is None
    (host.folder / "go").write_text("on\n")
    ended = host.finish(process, call)

    assert ended is not None
    assert (ended.fields["exit"], ended.fields["cancel_asked"]) == (0, True)


# ---------------------------------------------------------------------------------------------------------- freezes

FROZEN = ("command-read", "before-gate", "gate-taken", "before-sync", "synced", "before-begin", "begun")


def _frozen_at(host: Host, step: str) -> None:
    """The delivery that was held up and is let go after the verdict."""
    host.runner, said = freeze_at(host, step)
    call = host.call(Verb.RUN)
    process = host.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    host.runner = load_runner()
    before = host.ask(Verb.STATUS)
    fenced = host.ask(Verb.FENCE)
    second = host.ask(Verb.RUN, attempt=2) if step != "begun" else None
    os.kill(supervisor, signal.SIGCONT)
    thawed = host.finish(process, call)

    assert thawed is not None
    if step == "begun":
        assert (meaning(before), meaning(fenced), meaning(thawed)) == (*([Meaning.PENDING] * 2), Meaning.EXITED)
        assert host.ask(Verb.RUN, attempt=2).reason == "attempt_not_fenced"
    else:
        assert meaning(before) is (Meaning.FENCE_FIRST if step in BEFORE_GATE else Meaning.PENDING)
        assert (meaning(fenced), meaning(thawed)) == (Meaning.NEVER_RAN, Meaning.NEVER_RAN)
        assert second is not None
        assert meaning(second) is Meaning.EXITED
    assert host.executions() == 1


@pytest.mark.parametrize(("step", "shell"), [(step, SHELLS[i % 3]) for i, step in enumerate(FROZEN)])
def test_frozen_fenced_and_let_go_it_does_not_run(tmp_path: Path, step: str, shell: str) -> None:
    _frozen_at(_host(tmp_path, shell), step)


@pytest.mark.races
@pytest.mark.parametrize(
    ("step", "shell"), [(step, SHELLS[(i + j) % 3]) for i, step in enumerate(FROZEN) for j in (1, 2)]
)
def test_frozen_fenced_and_let_go_under_the_other_shells(tmp_path: Path, step: str, shell: str) -> None:
    _frozen_at(_host(tmp_path, shell), step)


# ------------------------------------------------------------------------------------------------- damaged deliveries


def _cut_everywhere(host: Host, cuts: int) -> None:
    text = host.text(host.call(Verb.RUN))
    for cut in range(1, cuts):
        process = host.start(text[: len(text) * cut // cuts])
        process.communicate(timeout=40)
    assert (host.executions(), host.files()) == (0, set())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_delivery_cut_anywhere_runs_nothing(tmp_path: Path, shell: str) -> None:
    _cut_everywhere(_host(tmp_path, shell), 60)


@pytest.mark.soak
@pytest.mark.parametrize("shell", SHELLS)
def test_a_delivery_cut_at_any_of_many_places_runs_nothing(tmp_path: Path, shell: str) -> None:
    _cut_everywhere(_host(tmp_path, shell), 2_000)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_arrives_changed_is_refused_before_anything_is_claimed(tmp_path: Path, shell: str) -> None:
    host = _host(tmp_path, shell)
    call = host.call(Verb.RUN)
    text = host.text(call)
    assert text.count(b'GATEWAY_OPERATION" >>') == 1

    answer = host.finish(host.start(text.replace(b'GATEWAY_OPERATION" >>', b'GATEWAY_OPERATION">>')), call)

    assert answer is not None
    assert (answer.reason, meaning(answer)) == ("payload_digest", Meaning.LAUNCHED_NOTHING)
    assert (host.executions(), host.files()) == (0, set())
    assert meaning(host.ask(Verb.RUN)) is Meaning.EXITED


@pytest.mark.parametrize("shell", SHELLS)
def test_a_runner_that_arrives_changed_is_not_used(tmp_path: Path, shell: str) -> None:
    host = _host(tmp_path, shell)
    next(Path(host.store, "bin").iterdir()).unlink()
    call = host.call(Verb.RUN)

    answer = host.finish(host.start(host.text(call).replace(b"# Why nothing", b"# why nothing")), call)

    assert answer is not None
    assert (answer.reason, meaning(answer)) == ("store_write", Meaning.LAUNCHED_NOTHING)
    assert (host.executions(), list(Path(host.store, "bin").iterdir())) == (0, [])


def test_a_runner_that_was_changed_on_the_host_is_replaced(tmp_path: Path) -> None:
    host = _host(tmp_path, "dash")
    placed = next(Path(host.store, "bin").iterdir())
    placed.write_bytes(b"exit 0\n")

    assert meaning(host.ask(Verb.RUN)) is Meaning.EXITED
    assert placed.read_bytes() == load_runner().text
