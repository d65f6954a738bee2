"""One command from end to end: bad input, what a silent host costs, and what the observation says in words."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import asyncssh
import pytest

from adapters.contract import Hooks
from adapters.contract_ssh import HostTransport, Stage
from adapters.http.refusals import Refused
from adapters.ssh import report
from adapters.ssh.client import COMMAND_BYTES_MAX, SshAdapter, check
from adapters.ssh.flight import Flight
from tests.unit.adapters.ssh_stand import LONG_SECONDS, Stand, agreed, limited, run_out


def _as_contract(adapter: SshAdapter) -> HostTransport:
    return adapter


@pytest.mark.parametrize("command", ["", "a\nb", "a\0b", "caf\u00e9", "x" * (COMMAND_BYTES_MAX + 1), "\x1b[31m"])
async def test_a_command_no_login_shell_should_see_is_refused(stand: Stand, command: str) -> None:
    seen = await stand.attempt(command=command)

    assert (seen.stage, seen.nothing_left, seen.error_class) == (Stage.PREPARED, True, "Refused")
    assert stand.stages == []


@pytest.mark.parametrize("bound", ["head_bytes_max", "tail_bytes_max"])
async def test_a_negative_bound_is_refused(stand: Stand, bound: str) -> None:
    changes: dict[str, Any] = {bound: -1}
    with pytest.raises(Refused):
        check(stand.exchange(**changes), closed=False)


async def test_the_longest_command_is_let_through(stand: Stand) -> None:
    assert (await stand.attempt(command="x" * COMMAND_BYTES_MAX)).answered


SILENCES: Mapping[str, tuple[str, str, Stage, dict[str, Any]]] = {
    "no banner": ("proxy", "one_way_drop", Stage.CONNECTING, {"login_seconds": 0.3}),
    "login": ("host", "ssh_hang_login", Stage.CONNECTING, {"login_seconds": 0.3}),
    "open": ("host", "ssh_hang_open", Stage.CONNECTED, {"open_seconds": 0.3}),
    "reply": ("host", "ssh_run_hang", Stage.ASKED, {"reply_seconds": 0.3}),
    "grace": ("host", "ssh_status_and_hang", Stage.ENDED, {"grace_seconds": 0.3}),
}


@pytest.mark.parametrize("where", SILENCES)
async def test_each_stage_has_a_limit_of_its_own(stand: Stand, where: str) -> None:
    side, name, stage, seconds = SILENCES[where]
    if side == "proxy":
        stand.proxy.toxics.add(name)
    else:
        stand.service.plan.add(name)
    loop = asyncio.get_running_loop()
    began = loop.time()
    seen = await stand.attempt(stand.proxied, run_seconds=LONG_SECONDS, limits=limited(**seconds))

    assert seen.stage is stage
    assert 0.3 <= loop.time() - began < LONG_SECONDS
    # The library's own limits, which stand behind ours, would show another class. After the end there is no failure.
    assert seen.error_class == (None if stage is Stage.ENDED else "TimeoutError")
    assert seen.closed_boot_ms is not None


@pytest.mark.parametrize("where", [where for where in SILENCES if where != "grace"])
async def test_the_attempts_own_deadline_ends_every_stage(stand: Stand, where: str) -> None:
    side, name, stage, _ = SILENCES[where]
    if stage is not Stage.CONNECTING:
        await stand.attempt(stand.proxied)  # the login must not eat up what the stage is to be given
    if side == "proxy":
        stand.proxy.toxics.add(name)
    else:
        stand.service.plan.add(name)
    async with asyncio.TaskGroup() as group:
        seeing = group.create_task(stand.attempt(stand.proxied, run_seconds=LONG_SECONDS))
        while not stand.adapter._flights:
            await asyncio.sleep(0)
        await run_out(stand.adapter, stage)
    seen = seeing.result()

    assert (seen.stage, seen.error_class) == (stage, "TimeoutError")


async def test_a_host_that_accepts_no_tcp_connection_costs_the_connect_limit(stand: Stand) -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    stand.adapter = stand.new_adapter(lookup=never)
    seen = await stand.attempt(replace(stand.direct, address="host.example"), limits=limited(connect_seconds=0.2))

    assert (seen.stage, seen.nothing_left, seen.error_class) == (Stage.CONNECTING, True, "ConnectDeadline")


async def test_two_statuses_are_a_contradiction(stand: Stand) -> None:
    stand.service.plan.add("ssh_two_statuses", params={"status": 0})
    seen = await stand.attempt()

    assert (seen.stage, seen.exit_status, seen.error_class) == (Stage.ENDED, 0, "ProtocolError")
    assert seen.contradictions
    assert not seen.answered
    assert seen.closed_boot_ms is not None


async def test_a_forced_command_looks_like_success_and_ran_nothing_of_ours(stand: Stand) -> None:
    stand.service.plan.add("ssh_forced_command")
    seen = await stand.attempt()

    # This is why only an answer with the runner's own nonce is evidence.
    assert (seen.answered, seen.exit_status) == (True, 0)
    assert stand.effects == 0


async def test_a_status_without_acceptance_is_a_contradiction(stand: Stand) -> None:
    flight = Flight(stand.exchange(), Hooks(agreed))
    flight.exit_status = 0
    flight.reach(Stage.ENDED)
    refused = asyncssh.ChannelOpenError(asyncssh.OPEN_REQUEST_SESSION_FAILED, "")
    for error in (None, refused):
        seen = report.observe(flight, error, started_ms=1, ended_ms=2, closed_boot_ms=None)
        assert seen.contradictions
        assert not seen.answered


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENDED])
@pytest.mark.parametrize(
    "error",
    [
        asyncssh.ChannelOpenError(2, "canary"),
        asyncssh.PermissionDenied("canary"),
        asyncssh.ConnectionLost("canary"),
        OSError("canary"),
        TimeoutError("canary"),
        ValueError("canary"),
        None,
    ],
)
async def test_no_words_of_the_host_come_into_an_observation(
    stand: Stand, stage: Stage, error: Exception | None
) -> None:
    flight = Flight(stand.exchange(), Hooks(agreed))
    flight.reach(stage)
    seen = report.observe(flight, error, started_ms=1, ended_ms=2, closed_boot_ms=None)

    assert "canary" not in repr(seen)
    assert seen.summary


async def test_the_adapter_is_what_the_contract_asks_for(stand: Stand) -> None:
    transport = _as_contract(stand.adapter)

    assert (await transport.attempt(stand.exchange(), Hooks(agreed))).answered
    await transport.close()


async def test_what_runs_is_what_was_handed_to_the_shells_stdin(stand: Stand) -> None:
    stand.service.real = True
    seen = await stand.attempt(stdin=b"echo one; echo two >&2; exit 9\n")

    assert (seen.stdout.head, seen.stderr.head) == (b"one\n", b"two\n")
    assert seen.exit_status == 9
    assert seen.answered
