"""The SSH adapter against OpenSSH: where a connection is cut, what is seen then, and what the host did all the same."""

import asyncio
import os
import select
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from adapters.contract import Hooks
from adapters.contract_ssh import SshCredential, SshExchange, SshObservation, SshPins, SshRoute, Stage
from adapters.http.refusals import Refused
from adapters.ssh.client import SshAdapter
from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import EXEC_LINE, RunnerCall, Verb, stdin_text
from adapters.ssh.runner_wire import RemotePhase, read_answer
from adapters.ssh.trust import identity_of
from fixtures.proxy.server import FaultProxy
from tests.contract.ssh_daemon import MISSING, SECONDS_MAX, Daemon, Pipe, daemon_program, running_daemon
from tests.unit.adapters.ssh_stand import agreed, credential_of, limited, new_key, public_text, run_out

BOTH = ("upstream", "downstream")


class Clock:
    def wall_ms(self) -> int:
        return 1

    def boot_ms(self) -> int:
        return 2


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("sshd")) as daemon:
        yield daemon


@dataclass
class Trial:
    """A command on the host that says when it has begun, waits to be let go on, and says when it is done."""

    daemon: Daemon
    proxy: FaultProxy
    adapter: SshAdapter
    begun: Pipe
    go: Pipe
    done: Pipe
    folder: Path

    def script(self, text: str) -> str:
        """The command that runs these lines; `$begun`, `$go` and `$done` are the pipes."""
        pipes = "".join(f"{pipe.path.name}={pipe.path}\n" for pipe in (self.begun, self.go, self.done))
        (self.folder / "script").write_text(pipes + text)
        return f"exec sh {self.folder / 'script'}"

    async def attempt(
        self, text: str, *, route: SshRoute | None = None, hooks: Hooks | None = None, **changes: Any
    ) -> SshObservation:
        plain = SshExchange(
            route or self.proxied, self.script(text), b"input\n", run_seconds=SECONDS_MAX, limits=limited()
        )
        return await self.adapter.attempt(replace(plain, **changes), hooks or Hooks(agreed))

    @property
    def proxied(self) -> SshRoute:
        return replace(self._route, port=int(self.proxy.address.rpartition(":")[2]))

    def __post_init__(self) -> None:
        self._route = self.daemon.route()

    def strike(self, kind: str, stage: str, *streams: str, **attributes: Any) -> None:
        """Plan a toxic for the next connection."""
        for stream in streams or ("downstream",):
            self.proxy.toxics.add(kind, stream=stream, attributes={"stage": stage, **attributes}, times=1)

    def when_asked(self) -> Hooks:
        """Announces the last moment before the command is written."""

        def announce() -> str | None:
            self.proxy.announce("asked")
            return None

        return Hooks(announce)

    async def went_on_to_the_end(self) -> None:
        self.go.say()
        await self.done.listen()


# The input arrives only after the client has seen the command accepted.
QUIET = "read line; echo x >$begun; read word <$go; echo x >$done\n"
DEAF = "echo x >$begun; read word <$go; echo x >$done\n"


@pytest.fixture
async def trial(daemon: Daemon, tmp_path: Path) -> AsyncIterator[Trial]:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(daemon.address))
        adapter = SshAdapter(Clock())
        stack.push_async_callback(adapter.close)
        begun, go, done = (stack.enter_context(Pipe(tmp_path / name)) for name in ("begun", "go", "done"))
        yield Trial(daemon, proxy, adapter, begun, go, done, tmp_path)


def test_without_the_server_the_tests_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_named: None)
    with pytest.raises(AssertionError, match="apt-get install openssh-server"):
        daemon_program()
    assert "need" in MISSING


@pytest.mark.parametrize("close", ["reset", "fin"])
async def test_cut_before_the_login_nothing_ran(trial: Trial, close: str) -> None:
    trial.proxy.toxics.add("cut_at", stream="upstream", attributes={"bytes": 600, "close": close})
    seen = await trial.attempt(QUIET)

    assert (seen.stage, seen.nothing_left) == (Stage.CONNECTING, True)
    assert not trial.begun.heard()


@pytest.mark.parametrize(("stream", "size"), [("upstream", 600), ("downstream", 0)])
async def test_a_black_hole_before_the_login_costs_the_limit_and_nothing_ran(
    trial: Trial, stream: str, size: int
) -> None:
    trial.proxy.toxics.add("drop_at", stream=stream, attributes={"bytes": size})
    seen = await trial.attempt(QUIET, limits=limited(login_seconds=0.5))

    assert (seen.stage, seen.nothing_left, seen.error_class) == (Stage.CONNECTING, True, "TimeoutError")
    assert not trial.begun.heard()


@pytest.mark.parametrize("close", ["reset", "fin"])
async def test_cut_after_the_login_the_command_is_asked_once_on_a_new_connection(trial: Trial, close: str) -> None:
    trial.strike("cut_at", "now", close=close)
    await trial.attempt("exit 0\n")
    trial.proxy.announce("now")
    await trial.proxy.wait_for(lambda passed: passed.closed is not None)
    seen = await trial.attempt("echo x >>$done; exit 4\n")

    assert (seen.exit_status, seen.reused) == (4, False)
    assert os.read(trial.done._file, 100) == b"x\n"


async def test_a_black_hole_after_the_login_opens_nothing_and_nothing_ran(trial: Trial) -> None:
    trial.strike("drop_at", "now", *BOTH)
    await trial.attempt("exit 0\n")
    trial.proxy.announce("now")
    seen = await trial.attempt(QUIET, limits=limited(open_seconds=0.3))

    assert (seen.stage, seen.nothing_left, seen.reused) == (Stage.CONNECTED, True, True)
    assert seen.closed_boot_ms is not None
    assert not trial.begun.heard()


@pytest.mark.parametrize("how", ["cut", "hang"])
async def test_a_command_lost_on_its_way_is_unknown_and_did_not_run(trial: Trial, how: str) -> None:
    trial.strike("drop_at", "asked", "upstream")
    if how == "cut":
        trial.strike("cut_at", "asked")
    seen = await trial.attempt(DEAF, hooks=trial.when_asked(), limits=limited(reply_seconds=0.4))

    assert (seen.stage, seen.nothing_left, seen.exit_status) == (Stage.ASKED, False, None)
    assert not trial.begun.heard()


@pytest.mark.parametrize("close", ["reset", "fin", "hang"])
async def test_a_command_whose_acceptance_is_lost_is_unknown_and_runs_to_its_end(trial: Trial, close: str) -> None:
    trial.strike("drop_at", "asked", "downstream")
    if close != "hang":
        trial.strike("cut_at", "begun", close=close)
    limits = limited(reply_seconds=SECONDS_MAX)
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(trial.attempt(DEAF, hooks=trial.when_asked(), limits=limits))
        await trial.begun.listen()
        trial.proxy.announce("begun")
        if close == "hang":
            await run_out(trial.adapter, Stage.ASKED)
    seen = under_way.result()

    assert (seen.stage, seen.nothing_left, seen.exit_status) == (Stage.ASKED, False, None)
    await trial.went_on_to_the_end()


@pytest.mark.parametrize("how", ["reset", "fin", "hang", "keepalive"])
async def test_a_quiet_command_that_is_cut_off_is_unknown_and_runs_to_its_end(trial: Trial, how: str) -> None:
    if how in {"reset", "fin"}:
        trial.strike("cut_at", "begun", close=how)
    else:
        trial.strike("drop_at", "begun", *BOTH)
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(trial.attempt(QUIET))
        await trial.begun.listen()
        trial.proxy.announce("begun")
        if how == "hang":
            await run_out(trial.adapter, Stage.ACCEPTED)
        elif how == "keepalive":
            (flight,) = trial.adapter._flights
            assert flight.line is not None
            flight.line.last.set_keepalive(0.2)
    seen = under_way.result()

    assert (seen.stage, seen.nothing_left, seen.exit_status, seen.exit_signal) == (Stage.ACCEPTED, False, None, None)
    assert seen.closed_boot_ms is not None
    await trial.went_on_to_the_end()


@pytest.mark.parametrize("close", ["reset", "fin"])
async def test_a_printing_command_that_is_cut_off_is_unknown_and_dies_of_its_output(trial: Trial, close: str) -> None:
    trial.strike("cut_at", "begun", close=close)
    text = "read line; echo $$ >$begun.pid; echo x >$begun; while :; do echo noise; done; echo x >$done\n"
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(trial.attempt(text))
        await trial.begun.listen()
        process = os.pidfd_open(int(trial.begun.path.with_suffix(".pid").read_text()))
        trial.proxy.announce("begun")
    seen = under_way.result()

    assert (seen.stage, seen.nothing_left, seen.exit_status) == (Stage.ACCEPTED, False, None)
    assert await asyncio.to_thread(select.select, [process], [], [], SECONDS_MAX) == ([process], [], [])
    os.close(process)
    assert not trial.done.heard()


async def test_a_printing_command_in_a_black_hole_goes_on_to_its_end(trial: Trial) -> None:
    trial.strike("drop_at", "begun", *BOTH)
    text = "read line; echo x >$begun; read word <$go; for i in 1 2 3 4 5; do echo noise; done; echo x >$done\n"
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(trial.attempt(text))
        await trial.begun.listen()
        trial.proxy.announce("begun")
        await trial.went_on_to_the_end()
        await run_out(trial.adapter, Stage.ACCEPTED)

    assert (under_way.result().stage, under_way.result().nothing_left) == (Stage.ACCEPTED, False)


@pytest.mark.parametrize("how", ["reset", "fin", "hang"])
async def test_after_the_status_a_loss_changes_nothing(trial: Trial, how: str) -> None:
    if how == "hang":
        trial.strike("drop_at", "ended", *BOTH)
    else:
        trial.strike("cut_at", "ended", close=how)
    # A child in the background keeps the output open, so that the status comes long before the end of the channel.
    text = "(read word <$go; echo x >$done) & exit 7\n"
    async with asyncio.TaskGroup() as group:
        limits = limited(grace_seconds=0.5 if how == "hang" else SECONDS_MAX)
        under_way = group.create_task(trial.attempt(text, limits=limits))
        while not trial.adapter._flights:
            await asyncio.sleep(0)
        (flight,) = trial.adapter._flights
        await flight.over.wait()
        trial.proxy.announce("ended")
    seen = under_way.result()

    assert (seen.stage, seen.exit_status, seen.output_complete) == (Stage.ENDED, 7, False)
    await trial.went_on_to_the_end()


async def test_a_command_held_on_its_way_runs_after_the_verdict(trial: Trial) -> None:
    trial.strike("hold_at", "asked", "upstream")
    seen = await trial.attempt(DEAF, hooks=trial.when_asked(), limits=limited(reply_seconds=0.4))

    assert (seen.stage, seen.nothing_left) == (Stage.ASKED, False)
    assert not trial.begun.heard()
    trial.proxy.release()
    await trial.begun.listen()
    await trial.went_on_to_the_end()


@pytest.mark.parametrize(
    ("command", "status", "signal"),
    [("exit 0", 0, None), ("exit 255", 255, None), ("exit 300", 44, None), ("kill -TERM $$", None, "TERM")],
)
async def test_the_end_of_a_command_is_reported_as_the_host_says(
    trial: Trial, command: str, status: int | None, signal: str | None
) -> None:
    seen = await trial.attempt("", command=command)

    assert (seen.exit_status, seen.exit_signal, seen.answered) == (status, signal, True)


async def test_output_of_any_kind_and_length_is_drained(trial: Trial) -> None:
    seen = await trial.attempt("printf '\\377\\376'; head -c 20000000 /dev/zero; printf end; echo no >&2\n")

    assert seen.answered
    assert (seen.stdout.count, seen.stdout.head[:3], seen.stdout.tail[-4:]) == (
        20_000_005,
        b"\xff\xfe\0",
        b"\0end",
    )
    assert seen.stderr.head == b"no\n"


async def test_a_long_command_passes(trial: Trial) -> None:
    assert (await trial.attempt("", command=f"exit 3 # {'x' * 99_000}")).exit_status == 3


async def test_the_runner_goes_through_stdin_and_answers_in_its_frame(trial: Trial) -> None:
    call = RunnerCall(verb=Verb.INIT, store=str(trial.folder / "store"), nonce="nonce12345")
    text = stdin_text(call, load_runner(), "boundary12345")
    seen = await trial.attempt("", command=EXEC_LINE, stdin=text, tail_bytes_max=2_000_000)

    assert seen.answered
    assert seen.input_complete
    answer = read_answer(seen.stdout.head + seen.stdout.tail, call)
    assert answer is not None
    assert answer.phase is RemotePhase.OK


async def test_a_changed_host_key_is_refused(trial: Trial) -> None:
    seen = await trial.attempt(QUIET, route=replace(trial.proxied, pins=SshPins((public_text(new_key()),))))

    assert (seen.nothing_left, seen.host_key_refused) == (True, True)


async def test_another_key_is_not_let_in(trial: Trial) -> None:
    seen = await trial.attempt(QUIET, route=replace(trial.proxied, credential=credential_of(new_key())))

    assert (seen.nothing_left, seen.error_class) == (True, "PermissionDenied")


def test_a_key_locked_by_openssh_is_refused_with_a_plain_sentence(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "some phrase", "-f", key], check=True)
    with pytest.raises(Refused, match="passphrase"):
        identity_of(SshCredential(key.read_text()))


async def test_a_host_with_two_sessions_refuses_the_third_and_keeps_the_connection(tmp_path: Path) -> None:
    (tmp_path / "sshd").mkdir()
    with running_daemon(tmp_path / "sshd", {"MaxSessions": "2"}) as daemon:
        async with AsyncExitStack() as stack:
            adapter = SshAdapter(Clock())
            stack.push_async_callback(adapter.close)
            begun, go = (stack.enter_context(Pipe(tmp_path / name)) for name in ("begun", "go"))
            exchange = SshExchange(
                daemon.route(), f"echo x >{begun.path}; read w <{go.path}", run_seconds=SECONDS_MAX, limits=limited()
            )
            async with asyncio.TaskGroup() as group:
                held = []
                for _ in range(2):
                    held.append(group.create_task(adapter.attempt(exchange, Hooks(agreed))))
                    await begun.listen()
                refused = await adapter.attempt(exchange, Hooks(agreed))
                another = await adapter.attempt(replace(exchange, command="exit 5"), Hooks(agreed))
                go.say()
                go.say()

    assert (refused.stage, refused.nothing_left, refused.error_code) == (Stage.CONNECTED, True, 2)
    assert (another.exit_status, another.reused) == (5, False)
    assert [one.result().answered for one in held] == [True, True]


async def test_a_host_that_takes_no_more_logins_was_never_asked(tmp_path: Path) -> None:
    with running_daemon(tmp_path, {"MaxStartups": "1:100:1"}) as daemon:
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=SECONDS_MAX) as waiting:
            assert await loop.run_in_executor(None, waiting.recv, 4)
            adapter = SshAdapter(Clock())
            exchange = SshExchange(daemon.route(), "exit 0", limits=limited(), run_seconds=SECONDS_MAX)
            seen = await adapter.attempt(exchange, Hooks(agreed))
            await adapter.close()

    assert (seen.stage, seen.nothing_left) == (Stage.CONNECTING, True)


async def test_certificates_serve_both_ways_and_a_forced_command_runs_its_own(tmp_path: Path) -> None:
    authority = new_key()
    (tmp_path / "authority.pub").write_bytes(authority.export_public_key())
    with running_daemon(tmp_path, {"TrustedUserCAKeys": str(tmp_path / "authority.pub")}) as daemon:
        key = new_key()
        plain = authority.generate_user_certificate(key, "x", principals=[daemon.user])
        forced = authority.generate_user_certificate(
            key, "x", principals=[daemon.user], force_command='echo "$SSH_ORIGINAL_COMMAND"'
        )
        other = authority.generate_user_certificate(key, "x", principals=["somebody"])
        adapter = SshAdapter(Clock())
        seen = []
        for certificate in (plain, forced, other):
            route = replace(daemon.route(), credential=credential_of(key, certificate))
            exchange = SshExchange(route, "exit 6", limits=limited(), run_seconds=SECONDS_MAX)
            seen.append(await adapter.attempt(exchange, Hooks(agreed)))
        await adapter.close()

    assert seen[0].exit_status == 6
    # Success is reported, and nothing of ours ran.
    assert (seen[1].exit_status, seen[1].stdout.head) == (0, b"exit 6\n")
    assert (seen[2].nothing_left, seen[2].error_class) == (True, "PermissionDenied")


async def test_a_host_certificate_is_believed_by_its_authority(tmp_path: Path) -> None:
    authority = new_key()
    with running_daemon(tmp_path) as first:
        certificate = authority.generate_host_certificate(first.host_key, "x", principals=["real-host"])
    (tmp_path / "again").mkdir()
    (tmp_path / "certified").write_bytes(first.host_key.export_private_key())
    (tmp_path / "certified").chmod(0o600)
    (tmp_path / "certified-cert.pub").write_bytes(certificate.export_certificate())
    options = {"HostKey": str(tmp_path / "certified"), "HostCertificate": str(tmp_path / "certified-cert.pub")}
    with running_daemon(tmp_path / "again", options) as daemon:
        pins = SshPins(authorities=(public_text(authority),))
        adapter = SshAdapter(Clock())
        seen = []
        for name in ("real-host", "another-host"):
            route = replace(daemon.route(), pins=pins, name=name)
            exchange = SshExchange(route, "exit 0", limits=limited(), run_seconds=SECONDS_MAX)
            seen.append(await adapter.attempt(exchange, Hooks(agreed)))
        await adapter.close()

    assert seen[0].answered
    assert (seen[1].nothing_left, seen[1].host_key_refused) == (True, True)
    assert asyncssh.import_public_key(public_text(first.host_key)).get_fingerprint() == seen[0].host_key
