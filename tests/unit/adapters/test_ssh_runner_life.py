"""One attempt on a host, under each shell: what runs, what is captured, what is reported."""

import os
import signal
import time
from pathlib import Path

import pytest

from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_command import SecretVariable, command_of
from adapters.ssh.runner_wire import Meaning, Output, RemotePhase, meaning
from tests.processes import ends
from tests.unit.adapters.remote_host import SECONDS_MAX, Host


def test_a_command_runs_once_and_its_record_answers_every_later_question(host: Host) -> None:
    command = host.marking("echo out; echo err >&2; exit 3")
    before = int(time.time())

    first = host.ask(Verb.RUN, command=command)
    again = host.ask(Verb.RUN, command=command)
    asked = host.ask(Verb.STATUS)

    assert (first.phase, meaning(first)) == (RemotePhase.EXITED, Meaning.EXITED)
    assert before <= first.fields["began"] <= first.fields["ended"] <= int(time.time())
    assert (first.fields["exit"], first.fields["digest"]) == (3, command.digest)
    assert (first.out, first.err) == (Output(4, b"out\n", b""), Output(4, b"err\n", b""))
    assert first.fields["output_complete"] is True
    assert (again.fields, again.out) == (asked.fields, asked.out) == (first.fields, first.out)
    assert host.executions() == 1


def test_a_clock_that_is_set_back_meanwhile_lets_nothing_end_before_it_began(host: Host) -> None:
    host.stub("date", f"[ -e {host.folder}/set ] && echo 1000 || {{ : >{host.folder}/set; echo 2000; }}")

    answer = host.ask(Verb.RUN)

    assert answer.fields["began"] == 2000
    assert 2000 <= answer.fields["ended"] < 2000 + SECONDS_MAX


def test_nothing_of_command_or_secret_stays_and_the_runner_travels_once(host: Host) -> None:
    host.ask(Verb.RUN, command=command_of(["true"], secrets={"TOKEN": "a"}))

    assert {name.split(".")[0] for name in host.files()} == {"b", "c", "g", "o", "r", "x"}
    assert [path.name for path in Path(host.store, "bin").iterdir()] == [f"gw-{host.runner.digest}"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path(host.store).rglob("*"))


def test_status_of_an_unknown_attempt_is_absent_and_no_verdict(host: Host) -> None:
    answer = host.ask(Verb.STATUS)

    assert (answer.phase, meaning(answer)) == (RemotePhase.ABSENT, Meaning.FENCE_FIRST)
    assert host.files() == set()


def test_a_fence_is_for_ever_and_settles_one_attempt_only(host: Host) -> None:
    fenced = host.ask(Verb.FENCE)
    late = host.ask(Verb.RUN)
    second = host.ask(Verb.RUN, attempt=2)

    assert [meaning(answer) for answer in (fenced, late, second)] == [
        Meaning.NEVER_RAN,
        Meaning.NEVER_RAN,
        Meaning.EXITED,
    ]
    assert host.executions() == 1


def test_a_fence_that_comes_after_the_command_changes_nothing(host: Host) -> None:
    ran = host.ask(Verb.RUN)

    assert host.ask(Verb.FENCE).fields == ran.fields
    assert host.ask(Verb.RUN, attempt=2).reason == "attempt_not_fenced"
    assert host.executions() == 1


@pytest.mark.parametrize("attempt", [3])
def test_a_later_attempt_fences_the_earlier_ones_that_left_nothing(host: Host, attempt: int) -> None:
    assert host.ask(Verb.RUN, attempt=attempt).phase is RemotePhase.EXITED
    assert [host.ask(Verb.STATUS, attempt=n).phase for n in range(1, attempt)] == [RemotePhase.FENCED] * (attempt - 1)


def test_another_command_under_the_same_attempt_is_a_conflict(host: Host) -> None:
    host.ask(Verb.RUN)
    other = host.ask(Verb.RUN, command=command_of(["true"]))

    assert (other.reason, meaning(other)) == ("digest_conflict", Meaning.CONFLICT)


HOSTILE = [
    "plain",
    "",
    " ",
    "'",
    "''\"",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "\\",
    "\\'",
    "!x",
    "a\nb",
    "\r\n",
    "--",
    "-rf",
    "*",
    "~",
    "${PATH}",
    "%s%n",
    "\x01\x7f\x1b[31m",
    "ā\u0081\u0088é\U0001f600",
    "EndOfPart7",
    "x" * 30_000,
]


def test_arguments_arrive_byte_for_byte_and_are_never_read_as_shell(host: Host) -> None:
    # Busybox's and dash's own marks are among these bytes: a shell that mistook them would change the argument.
    show = ["sh", "-c", 'for word; do printf "%s\\0" "$word"; done', "sh"]

    answer = host.ask(Verb.RUN, command=command_of([*show, *HOSTILE]), keep_bytes=65_536)

    assert answer.out is not None
    assert answer.out.head.split(b"\0")[:-1] == [word.encode() for word in HOSTILE]
    assert not (host.folder / "pwned").exists()


def test_a_secret_reaches_the_command_and_nothing_that_others_can_read(host: Host) -> None:
    secret = "it's-7Q"
    script = (
        'cat "/proc/$PPID/cmdline" /proc/$$/cmdline; echo; '
        f'find {host.store} -type f -exec cat {{}} + >{host.folder}/seen; printf %s "$TOKEN"'
    )
    command = command_of(["sh", "-c", script], secrets={"TOKEN": secret}, exported=["TOKEN"])

    answer = host.ask(Verb.RUN, command=command)

    assert answer.out is not None
    shown, _, value = answer.out.head.rpartition(b"\n")
    assert value == secret.encode()
    assert b"7Q" not in shown + command.text + (host.folder / "seen").read_bytes().replace(b"EndOfPart7Q", b"")


def test_a_secret_may_stand_in_the_argument_list(host: Host) -> None:
    command = command_of(["printf", "%s", SecretVariable("KEY")], secrets={"KEY": "a b'$c"})

    answer = host.ask(Verb.RUN, command=command)

    assert answer.out == Output(6, b"a b'$c", b"")


def test_the_command_gets_its_identity_and_the_surroundings_of_the_login(host: Host) -> None:
    host.environment |= {"GREETING": "hello"}
    script = (
        'umask; pwd; echo "$GREETING $GATEWAY_OPERATION $GATEWAY_ATTEMPT $GATEWAY_LOCK_NUMBER"; cat; ls /proc/$$/fd'
    )
    before = os.umask(0o027)
    try:
        answer = host.ask(Verb.RUN, command=command_of(["sh", "-c", script]))
    finally:
        os.umask(before)

    assert answer.out is not None
    lines = answer.out.head.decode().splitlines()
    assert lines[:3] == ["0027", str(host.folder), "hello op_1 1 0"]
    # 9 is the witness; whatever stands above 9 is the shell's own.
    assert {int(line) for line in lines[3:] if int(line) < 10} <= {0, 1, 2, 3, 9}


@pytest.mark.parametrize("code", [126, 137, 255])
def test_an_exit_status_is_passed_on_as_it_is(host: Host, code: int) -> None:
    assert host.ask(Verb.RUN, command=command_of(["sh", "-c", f"exit {code}"])).fields["exit"] == code


def test_a_program_that_does_not_exist_is_an_exit_status(host: Host) -> None:
    answer = host.ask(Verb.RUN, command=command_of(["no-such-program"]))

    assert (answer.phase, answer.fields["exit"]) == (RemotePhase.EXITED, 127)


def test_output_that_is_no_text_arrives_as_it_is(host: Host) -> None:
    everything = "".join(f"\\{byte:03o}" for byte in range(256))
    answer = host.ask(Verb.RUN, command=command_of(["sh", "-c", f"printf '{everything}'"]))

    assert answer.out == Output(256, bytes(range(256)), b"")


@pytest.mark.parametrize("size", [1000, 1001, 2001, 700_000, 3_000_001])
def test_of_long_output_the_head_and_the_tail_are_kept_and_all_of_it_is_counted(host: Host, size: int) -> None:
    program = f"yes 0123456789 | head -c {size}"
    whole = (b"0123456789\n" * (size // 11 + 1))[:size]

    answer = host.ask(Verb.RUN, command=command_of(["sh", "-c", program]), keep_bytes=1000)

    tail = max(0, min(1000, size - 1000))
    assert answer.out == Output(size, whole[:1000], whole[size - tail :])
    assert answer.fields["output_complete"] is True
    kept = sum(path.stat().st_size for path in Path(host.store, "ops/op_1").iterdir())
    assert kept < 1_700_000


def test_a_child_left_behind_with_the_output_open_delays_nothing_and_may_go_on_printing(host: Host) -> None:
    (host.folder / "go").touch()
    os.mkfifo(host.folder / "release")
    script = "(read -r line <release; echo late; echo $? >done) & echo early"

    answer = host.ask(Verb.RUN, command=command_of(["sh", "-c", script]))

    assert answer.out == Output(6, b"early\n", b"")
    assert answer.fields["output_complete"] is False
    os.mkfifo(host.folder / "done")
    (host.folder / "release").write_text("go\n")
    assert (host.folder / "done").read_text() == "0\n"


class Running:
    """A command that says when it stands and goes on when it is told to."""

    def __init__(self, host: Host, script: str = "") -> None:
        self.host = host
        os.mkfifo(host.folder / "standing")
        os.mkfifo(host.folder / "go")
        self.command = host.marking(f"echo $$ >standing; {script} read -r line <go; echo $line; exit 5")
        self.call = host.call(Verb.RUN, command=self.command, follow_seconds=60)
        self.process = host.begin(self.call)
        self.pid = int((host.folder / "standing").read_text())

    def go(self) -> None:
        (self.host.folder / "go").write_text("on\n")


def test_a_running_command_is_pending_whoever_asks(host: Host) -> None:
    running = Running(host)

    asked = host.ask(Verb.STATUS)
    joined = host.ask(Verb.RUN, command=running.command, follow_seconds=1)
    fenced = host.ask(Verb.FENCE)
    running.go()
    ended = host.finish(running.process, running.call)

    assert {meaning(answer) for answer in (asked, joined, fenced)} == {Meaning.PENDING}
    assert asked.fields["begun"] is asked.fields["supervised"] is True
    assert ended is not None
    assert (ended.fields["exit"], ended.out) == (5, Output(3, b"on\n", b""))
    assert host.executions() == 1


def test_the_death_of_whoever_follows_stops_nothing(host: Host) -> None:
    running = Running(host)
    os.killpg(running.process.pid, signal.SIGKILL)
    running.process.communicate()

    running.go()
    answer = host.ask(Verb.RUN, command=running.command, follow_seconds=60)

    assert (answer.phase, answer.fields["exit"]) == (RemotePhase.EXITED, 5)
    assert host.executions() == 1


def test_cancel_of_what_has_not_begun_is_a_fence(host: Host) -> None:
    assert meaning(host.ask(Verb.CANCEL)) is Meaning.NEVER_RAN
    assert meaning(host.ask(Verb.RUN)) is Meaning.NEVER_RAN


def test_cancel_is_recorded_and_what_came_of_it_is_told_by_the_exit(host: Host) -> None:
    running = Running(host)

    cancelled = host.ask(Verb.CANCEL)
    ended = host.finish(running.process, running.call)

    assert cancelled.fields["cancel_asked"] is True
    assert ended is not None
    assert (ended.fields["cancel_asked"], ended.fields["exit"]) == (True, 128 + signal.SIGTERM)


def test_a_command_that_shrugs_off_a_cancel_is_reported_as_running_until_it_is_killed(host: Host) -> None:
    running = Running(host, "trap '' TERM;")

    assert host.ask(Verb.CANCEL).phase is RemotePhase.RUNNING
    host.ask(Verb.CANCEL, signal="KILL")
    ended = host.finish(running.process, running.call)

    assert ended is not None
    assert ended.fields["exit"] == 128 + signal.SIGKILL


def test_a_command_that_outlives_its_supervisor_is_running_and_then_lost(host: Host) -> None:
    running = Running(host)
    supervisor = _parent(running.pid)
    os.kill(supervisor, signal.SIGKILL)
    assert ends(supervisor)

    asked = host.ask(Verb.STATUS)
    running.go()
    followed = host.finish(running.process, running.call)
    after = host.ask(Verb.RUN, command=running.command)

    assert (asked.phase, asked.fields["supervised"]) == (RemotePhase.RUNNING, False)
    assert followed is not None
    assert followed.phase is RemotePhase.LOST
    assert (after.phase, meaning(after), after.fields["begun"]) == (RemotePhase.LOST, Meaning.LOST, True)
    assert after.out == Output(3, b"on\n", b"")
    assert host.ask(Verb.RUN, attempt=2, command=running.command).reason == "attempt_not_fenced"
    assert host.executions() == 1


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[1])


def test_a_probe_runs_now_claims_nothing_and_frames_what_it_prints(host: Host) -> None:
    noise = command_of(["sh", "-c", 'echo "@gw1 n10000001 {}"; echo warn >&2; exit 4'])

    answer = host.ask(Verb.PROBE, command=noise, limit_seconds=60)
    again = host.ask(Verb.PROBE, command=noise, limit_seconds=60)

    assert (answer.phase, answer.fields["exit"], answer.err) == (RemotePhase.OK, 4, Output(5, b"warn\n", b""))
    assert again.fields == answer.fields == {"exit": 4, "timed_out": False, "output_complete": True}
    assert list(Path(host.store, "tmp").iterdir()) == []


def test_a_probe_that_hangs_is_stopped(host: Host) -> None:
    answer = host.ask(Verb.PROBE, command=command_of(["sleep", "40"]), limit_seconds=1)

    assert answer.fields["timed_out"] is True
