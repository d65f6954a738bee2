"""What a store holds for others to see and to wait for: its floor, its list, and its locks."""

import os
import signal
from pathlib import Path

import pytest

from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_command import command_of
from adapters.ssh.runner_wire import Meaning, RemotePhase, meaning
from tests.unit.adapters.remote_host import ISSUED, Host, freeze_at, left_at, wait_until_stopped

# ---------------------------------------------------------------------------------------------------- floor, listing


def test_what_is_collected_can_never_run_again_and_is_absent_without_authority(host: Host) -> None:
    host.ask(Verb.RUN)
    host.ask(Verb.FENCE, "op_2")
    late = host.ask(Verb.RUN, "op_3", issued_ms=ISSUED + 1)

    collected = host.ask(Verb.COLLECT, before_ms=ISSUED)

    assert collected.fields == {"floor": ISSUED, "removed": 2, "kept": 1}
    assert {path.name for path in Path(host.store, "ops").iterdir()} == {"op_3"}
    replayed, asked, fence = (host.ask(verb) for verb in (Verb.RUN, Verb.STATUS, Verb.FENCE))
    assert (replayed.reason, host.executions()) == ("below_gc_floor", 1)
    assert [meaning(answer) for answer in (asked, fence)] == [Meaning.NO_EVIDENCE] * 2
    assert host.ask(Verb.STATUS, "op_3", issued_ms=ISSUED + 1).fields == late.fields
    assert host.ask(Verb.COLLECT, before_ms=1).fields["floor"] == ISSUED


def test_what_is_lost_or_running_is_not_collected(dash: Host) -> None:
    left_at(dash, "begun")
    dash.runner = load_runner()
    os.mkfifo(dash.folder / "go")
    os.mkfifo(dash.folder / "standing")
    call = dash.call(Verb.RUN, "op_2", command=dash.marking("echo >standing; read -r line <go"))
    process = dash.begin(call)
    (dash.folder / "standing").read_text()

    assert dash.ask(Verb.COLLECT, before_ms=ISSUED).fields["kept"] == 2
    (dash.folder / "go").write_text("on\n")
    ended = dash.finish(process, call)
    assert ended is not None
    assert ended.phase is RemotePhase.EXITED


def test_a_floor_that_rises_between_the_first_look_and_the_gate_stops_the_run(dash: Host) -> None:
    dash.runner, said = freeze_at(dash, "before-gate")
    call = dash.call(Verb.RUN)
    process = dash.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    dash.runner = load_runner()
    dash.ask(Verb.COLLECT, before_ms=ISSUED)
    os.kill(supervisor, signal.SIGCONT)
    answer = dash.finish(process, call)

    assert answer is not None
    assert (answer.phase, answer.reason) == (RemotePhase.FENCED, "below_gc_floor")
    assert dash.executions() == 0


def test_one_that_slept_through_its_own_fence_and_collection_does_not_run(dash: Host) -> None:
    dash.runner, said = freeze_at(dash, "before-begin")
    call = dash.call(Verb.RUN)
    process = dash.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    dash.runner = load_runner()
    dash.ask(Verb.FENCE)
    assert dash.ask(Verb.COLLECT, before_ms=ISSUED).fields["removed"] == 1
    os.kill(supervisor, signal.SIGCONT)
    dash.finish(process, call)

    assert dash.executions() == 0


@pytest.mark.parametrize("step", ["floor-raised", "operation-set-aside"])
def test_a_collection_that_was_killed_leaves_nothing_that_could_run_again(dash: Host, step: str) -> None:
    dash.ask(Verb.RUN)
    dash.runner = dash.at_step(step, "kill -9 $$")
    assert dash.try_ask(Verb.COLLECT, before_ms=ISSUED) is None
    dash.runner = load_runner()

    assert dash.ask(Verb.RUN).reason == "below_gc_floor"
    dash.ask(Verb.COLLECT, before_ms=ISSUED)
    assert (list(Path(dash.store, "ops").iterdir()), list(Path(dash.store, "trash").iterdir())) == ([], [])
    assert dash.executions() == 1


def test_secrets_that_a_killed_attempt_left_are_swept_by_fence_and_collection(dash: Host) -> None:
    dash.runner = dash.at_step("command-read", "kill -9 $$")
    for operation in ("op_1", "op_2"):
        dash.try_ask(Verb.RUN, operation, command=command_of(["true"], secrets={"TOKEN": "x"}))
        assert {name[0] for name in dash.files(operation)} == {"p", "s"}
    dash.runner = load_runner()

    dash.ask(Verb.FENCE)
    dash.ask(Verb.COLLECT, before_ms=1)

    assert (dash.files(), dash.files("op_2")) == ({"g.1"}, set())


def test_operations_are_listed_page_by_page(host: Host) -> None:
    for operation in ("op_1", "op_2"):
        host.ask(Verb.FENCE, operation)
    host.ask(Verb.RUN, "op_2", attempt=2)

    first = host.ask(Verb.LIST, None, most=1)
    second = host.ask(Verb.LIST, "op_1", most=5)

    fenced = {"operation": "op_1", "attempt": 1, "phase": "fenced", "issued": ISSUED, "begun": False}
    assert first.fields == {"more": True, "operations": [fenced | {"began": 0, "ended": None, "exit": None}]}
    (ran,) = second.fields["operations"]
    assert (second.fields["more"], ran["operation"], ran["attempt"], ran["phase"]) == (False, "op_2", 2, "exited")
    assert (ran["begun"], ran["exit"], 0 < ran["began"] <= ran["ended"]) == (True, 0, True)


# ------------------------------------------------------------------------------------------------------------ locks


def _lock(host: Host) -> dict[str, object]:
    return dict(host.ask(Verb.LOCK, lock="web").fields)


def test_a_lock_passes_on_with_numbers_that_are_never_used_twice(host: Host) -> None:
    show = command_of(["sh", "-c", 'echo "$GATEWAY_LOCK_NUMBER"'])
    numbers = [host.ask(Verb.RUN, f"op_{n}", command=show, lock="web", lock_seconds=60).out for n in range(3)]

    assert [out.head for out in numbers if out] == [b"1\n", b"2\n", b"3\n"]
    host.ask(Verb.COLLECT, before_ms=ISSUED)
    assert {path.name for path in Path(host.store, "locks/web").iterdir()} == {"3"}
    again = host.ask(Verb.RUN, "op_9", command=show, issued_ms=ISSUED + 1, lock="web", lock_seconds=60)
    assert again.fields["lock_number"] == 4


def test_a_lock_that_is_held_refuses_a_second_holder_for_good(host: Host) -> None:
    os.mkfifo(host.folder / "go")
    os.mkfifo(host.folder / "standing")
    call = host.call(Verb.RUN, command=host.marking("echo >standing; read -r line <go"), lock="web", lock_seconds=1)
    process = host.begin(call)
    (host.folder / "standing").read_text()

    busy = host.ask(Verb.RUN, "op_2", lock="web", lock_seconds=60)
    held = _lock(host)
    taken = host.ask(Verb.UNLOCK, lock="web", number=1)
    (host.folder / "go").write_text("on\n")
    host.finish(process, call)

    assert (meaning(busy), busy.reason, host.executions("op_2")) == (Meaning.NEVER_RAN, "lock_busy", 0)
    listed = {item["operation"]: item for item in host.ask(Verb.LIST, None).fields["operations"]}
    assert (listed["op_2"]["phase"], listed["op_2"]["began"]) == ("fenced", 0)
    assert (held["state"], held["holder"], held["holder_phase"]) == ("held", "op_1", "running")
    assert taken.reason == "lock_holder_alive"
    assert _lock(host)["state"] == "free"
    assert meaning(host.ask(Verb.RUN, "op_2", attempt=2, lock="web", lock_seconds=60)) is Meaning.EXITED


def _dead_holder(host: Host, seconds: int) -> None:
    host.runner = host.at_step("begun", "kill -9 $$")
    host.try_ask(Verb.RUN, lock="web", lock_seconds=seconds)
    host.runner = load_runner()


def test_the_lock_of_a_dead_holder_is_kept_until_its_term_is_over(dash: Host) -> None:
    _dead_holder(dash, 600)

    assert dash.ask(Verb.RUN, "op_2", lock="web", lock_seconds=60).reason == "lock_busy"
    dash.stub("date", "echo $(($(/bin/date +%s) + 700))")
    assert _lock(dash)["state"] == "stale"
    assert dash.ask(Verb.RUN, "op_3", lock="web", lock_seconds=60).fields["lock_number"] == 2


def test_a_person_may_set_aside_the_lock_that_was_looked_at_and_no_other(dash: Host) -> None:
    _dead_holder(dash, 600)

    assert dash.ask(Verb.UNLOCK, lock="web", number=7).reason == "lock_changed"
    assert dash.ask(Verb.UNLOCK, lock="web", number=1).fields["state"] == "free"
    assert dash.ask(Verb.RUN, "op_2", lock="web", lock_seconds=60).fields["lock_number"] == 2


def test_contenders_for_a_lock_never_hold_it_together(host: Host) -> None:
    critical = command_of(
        ["sh", "-c", "mkdir inside || echo together >>trouble; echo $GATEWAY_LOCK_NUMBER >>numbers; rmdir inside"]
    )
    calls = [host.call(Verb.RUN, f"op_{n}", command=critical, lock="web", lock_seconds=60) for n in range(6)]
    processes = [host.begin(call) for call in calls]
    answers = [host.finish(process, call) for process, call in zip(processes, calls, strict=True)]

    assert {meaning(answer) for answer in answers} <= {Meaning.EXITED, Meaning.NEVER_RAN}
    numbers = [int(line) for line in (host.folder / "numbers").read_text().split()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == [meaning(answer) for answer in answers].count(Meaning.EXITED)
    assert not (host.folder / "trouble").exists()


def test_one_that_slept_while_its_number_came_and_went_does_not_hold_the_lock(dash: Host) -> None:
    dash.runner, said = freeze_at(dash, "lock-seen-free")
    call = dash.call(Verb.RUN, issued_ms=ISSUED + 1, lock="web", lock_seconds=60)
    process = dash.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    dash.runner = load_runner()
    for operation in ("op_2", "op_3"):
        dash.ask(Verb.RUN, operation, lock="web", lock_seconds=60)
    dash.ask(Verb.COLLECT, before_ms=ISSUED)
    assert {path.name for path in Path(dash.store, "locks/web").iterdir()} == {"2"}
    os.kill(supervisor, signal.SIGCONT)
    answer = dash.finish(process, call)

    assert answer is not None
    assert (answer.phase, answer.reason, dash.executions()) == (RemotePhase.FENCED, "lock_busy", 0)
