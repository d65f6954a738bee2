"""What watches an attempt: the time limit, the patience of whoever follows it, a cancel. None may miss its moment."""

import os
import signal
from pathlib import Path

from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_command import command_of
from adapters.ssh.runner_wire import Meaning, Output, RemotePhase, meaning
from tests.processes import ends, processes_of
from tests.unit.adapters.remote_host import Host, freeze_at, wait_until_stopped

STUBBORN = "trap 'echo asked; exit 9' TERM; echo on; echo >standing; while :; do sleep 1; done"


def _nothing_stays(host: Host) -> bool:
    return all(ends(process) for process in processes_of(host.folder))


def test_a_time_limit_stops_the_command_and_is_reported(host: Host) -> None:
    os.mkfifo(host.folder / "standing")
    host.runner = host.at_step("time-is-up", f"read -r line <{host.folder}/standing")

    answer = host.ask(Verb.RUN, command=command_of(["sh", "-c", STUBBORN]), limit_seconds=1)

    assert (answer.fields["timed_out"], answer.fields["exit"]) == (True, 9)
    assert answer.out == Output(9, b"on\nasked\n", b"")


def test_a_command_that_outlives_its_supervisor_is_stopped_at_its_time_all_the_same(host: Host) -> None:
    os.mkfifo(host.folder / "standing")
    host.runner = host.at_step("time-is-up", f"read -r line <{host.folder}/standing")
    script = "kill -9 $PPID; echo >standing; while :; do sleep 1; done"

    answer = host.ask(Verb.RUN, command=command_of(["sh", "-c", script]), limit_seconds=1)

    assert (answer.phase, answer.fields["timed_out"]) == (RemotePhase.LOST, True)
    assert _nothing_stays(host)


def test_a_time_limit_that_is_not_reached_leaves_no_process_behind(host: Host) -> None:
    answer = host.ask(Verb.RUN, limit_seconds=3_600, follow_seconds=3_600)

    assert answer.fields["timed_out"] is False
    assert _nothing_stays(host)


def test_watches_whose_signal_is_lost_end_by_themselves_and_strike_at_nothing(host: Host) -> None:
    host.runner = host.changed(
        {'|| kill "$watchdog" 2>/dev/null\n    load_command': "\n    load_command", 'kill "$alarm" 2>/dev/null': ":"}
    )

    ran = host.ask(Verb.RUN, limit_seconds=3_600, follow_seconds=3_600)

    assert ran.fields["timed_out"] is False
    assert _nothing_stays(host)


def test_a_watch_that_is_ended_before_it_has_begun_clears_away_nothing(host: Host) -> None:
    # Just forked, it is a copy of the shell that started it, with that shell's traps: five rounds, to meet it so.
    host.runner = host.at_step("probe-watched", 'kill "$watchdog"; wait "$watchdog"')
    question = command_of(["sh", "-c", "echo warn >&2"])

    answers = [host.ask(Verb.PROBE, command=question, limit_seconds=3_600) for _ in range(5)]

    assert [answer.err for answer in answers] == [Output(5, b"warn\n", b"")] * 5
    assert [answer.fields["output_complete"] for answer in answers] == [True] * 5
    assert list(Path(host.store, "tmp").iterdir()) == []


def test_whoever_follows_answers_in_time_also_when_the_first_call_passed_unheard(host: Host) -> None:
    os.mkfifo(host.folder / "go")
    os.mkfifo(host.folder / "standing")
    host.runner = host.changed(
        {
            "trap 'late=1' USR1": """trap 'trap "late=1" USR1' USR1""",
            "\nwake() {": f"\nwake() {{ read -r line <{host.folder}/standing; call; }}\ncall() {{",
        }
    )
    call = host.call(Verb.RUN, command=host.marking("echo >standing; read -r line <go"), follow_seconds=1)
    answer = host.finish(host.begin(call), call)
    (host.folder / "go").write_text("on\n")

    assert meaning(answer) is Meaning.PENDING
    assert host.ask(Verb.RUN, follow_seconds=60, command=call.command).phase is RemotePhase.EXITED


def test_a_cancel_between_begin_and_the_command_is_not_lost(host: Host) -> None:
    host.runner, said = freeze_at(host, "begun")
    call = host.call(Verb.RUN)
    process = host.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    host.runner = load_runner()

    cancelled = host.ask(Verb.CANCEL)
    os.kill(supervisor, signal.SIGCONT)
    ended = host.finish(process, call)

    assert (cancelled.phase, cancelled.fields["cancel_asked"]) == (RemotePhase.RUNNING, True)
    assert ended is not None
    assert (ended.fields["exit"], ended.fields["cancel_asked"]) == (128 + signal.SIGKILL, True)
    assert host.executions() == 0


def test_two_who_look_across_namespaces_do_not_take_each_other_for_a_holder(tmp_path: Path) -> None:
    host = Host(tmp_path, "dash")
    host.init()
    host.runner = host.at_step("begun", "kill -9 $$")
    host.try_ask(Verb.RUN)
    gate = Path(host.store, "ops/op_1/g.1")
    elsewhere = {"readlink /proc/self/ns/pid": "echo 'pid:[77]'"}
    # The second one looks while the first one holds the lock.
    host.runner = host.changed({**elsewhere, 'flock -s -n "$1" true': 'flock -s -n "$1" flock -s -n "$1" true'})

    assert gate.exists()
    assert host.ask(Verb.STATUS).phase is RemotePhase.LOST
