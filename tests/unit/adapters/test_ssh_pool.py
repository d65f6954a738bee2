"""Which commands share a connection, and what becomes of one that is in doubt."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Hooks
from adapters.contract_ssh import SshObservation, SshPins, SshRoute, Stage
from adapters.ssh.line import SESSIONS_MAX, way
from adapters.ssh.pool import key_of
from tests.unit.adapters.conftest import CountingClock
from tests.unit.adapters.ssh_stand import (
    LONG_SECONDS,
    SHORT_SECONDS,
    Stand,
    credential_of,
    limited,
    new_key,
    public_text,
)


async def test_one_connection_serves_one_command_after_the_other(stand: Stand) -> None:
    first, second = await stand.attempt(), await stand.attempt()

    assert (first.reused, second.reused) == (False, True)
    assert first.closed_boot_ms is None
    assert stand.service.logins == 1


CHANGES: list[Callable[[SshRoute], SshRoute]] = [
    lambda route: replace(route, name="other"),
    lambda route: replace(route, address="localhost"),
    lambda route: replace(route, port=1),
    lambda route: replace(route, user="other"),
    lambda route: replace(route, credential=credential_of(new_key())),
    lambda route: replace(route, credential=replace(route.credential, certificate="x")),
    lambda route: replace(route, pins=replace(route.pins, revoked=(public_text(new_key()),))),
    lambda route: replace(route, pins=SshPins(authorities=route.pins.keys)),
    lambda route: replace(route, jump=route),
    lambda route: replace(route, allow_private=False),
]


@pytest.mark.parametrize("change", CHANGES)
async def test_whatever_else_is_asked_for_is_another_connection(
    stand: Stand, change: Callable[[SshRoute], SshRoute]
) -> None:
    assert key_of(stand.direct) == key_of(replace(stand.direct))
    assert key_of(change(stand.direct)) != key_of(stand.direct)
    assert stand.direct.credential.private_key not in repr(key_of(stand.direct))


async def test_a_command_with_another_credential_does_not_ride_on_the_first_ones_login(stand: Stand) -> None:
    await stand.attempt()
    seen = await stand.attempt(replace(stand.direct, credential=credential_of(new_key())))

    assert (seen.nothing_left, seen.error_class) == (True, "PermissionDenied")


async def _side_by_side(stand: Stand, count: int) -> list[SshObservation]:
    """As many commands at once, none of which ends before all are under way."""
    stand.service.plan.add("ssh_status_and_hang", times=count)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stand.attempt(limits=limited(grace_seconds=LONG_SECONDS))) for _ in range(count)]
        await stand.service.ledger.wait_for(lambda entry: entry.effect != "none", count=count)
        stand.service.release()
    return [task.result() for task in tasks]


async def test_a_connection_holds_eight_commands_and_the_ninth_gets_another(stand: Stand) -> None:
    seen = await _side_by_side(stand, SESSIONS_MAX + 1)

    assert all(one.exit_status == 0 for one in seen)
    assert stand.service.logins == 2


async def test_many_at_once_log_in_one_after_the_other(stand: Stand) -> None:
    seen = await asyncio.gather(*(stand.attempt() for _ in range(20)))

    assert all(one.answered for one in seen)
    assert stand.service.logins <= 3


async def test_a_fresh_connection_is_nobody_elses(stand: Stand) -> None:
    await stand.attempt()
    probe = await stand.attempt(fresh=True)
    after = await stand.attempt()

    assert (probe.reused, after.reused) == (False, True)
    assert probe.closed_boot_ms is not None
    assert stand.service.logins == 2


async def test_a_pooled_connection_that_died_is_dialled_anew_before_anything_is_asked(
    stand: Stand,
) -> None:
    asked = 0

    def count() -> str | None:
        nonlocal asked
        asked += 1
        return None

    await stand.attempt(stand.proxied)
    for connection in tuple(stand.service._connections):
        connection.abort()
    seen = await stand.attempt(stand.proxied, Hooks(count))

    assert (seen.answered, seen.reused, asked) == (True, False, 1)
    assert stand.effects == 2


async def test_a_pooled_connection_that_dies_in_the_very_step_is_dialled_anew(stand: Stand) -> None:
    await stand.attempt()
    (line,) = stand.adapter._pool._lines
    # Its end is known to the library already, and not yet to anybody who is told of it.
    line.last.abort()
    assert line.alive
    seen = await stand.attempt()

    assert (seen.answered, seen.reused) == (True, False)
    assert stand.effects == 2


async def test_a_pooled_connection_that_dies_while_a_session_opens_is_dialled_anew(stand: Stand) -> None:
    stand.proxy.toxics.add("cut_at", attributes={"stage": "die"}, times=1)
    await stand.attempt(stand.proxied)
    stand.service.plan.add("ssh_hang_open")
    stand.stages.clear()
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(stand.attempt(stand.proxied))
        await stand.reached("opened")
        stand.proxy.announce("die")
    seen = await under_way

    assert (seen.answered, seen.reused) == (True, False)
    assert stand.effects == 2


async def test_a_command_on_a_connection_that_dies_after_the_channel_stood_is_never_asked_again(stand: Stand) -> None:
    stand.proxy.toxics.add("cut_at", attributes={"stage": "ran"}, times=1)
    seen = await stand.attempt(stand.proxied)

    assert (seen.stage, seen.nothing_left, seen.exit_status) == (Stage.ACCEPTED, False, None)
    assert stand.effects == 1
    assert stand.service.logins == 1


async def test_a_connection_that_opens_nothing_is_not_used_again(stand: Stand) -> None:
    await stand.attempt()
    stand.service.plan.add("ssh_hang_open")
    stuck = await stand.attempt(limits=limited(open_seconds=SHORT_SECONDS))
    after = await stand.attempt()

    assert (stuck.stage, stuck.nothing_left, stuck.reused) == (Stage.CONNECTED, True, True)
    assert stuck.closed_boot_ms is not None
    assert (after.answered, after.reused) == (True, False)


async def test_a_connection_in_doubt_is_left_to_those_who_are_on_it(stand: Stand) -> None:
    stand.service.plan.add("ssh_status_and_hang", params={"status": 4})
    stand.service.plan.add("ssh_hang")
    async with asyncio.TaskGroup() as group:
        quiet = group.create_task(stand.attempt(limits=limited(grace_seconds=LONG_SECONDS)))
        await stand.reached("ended")
        stuck = await stand.attempt(limits=limited(reply_seconds=SHORT_SECONDS))
        third = await stand.attempt()
        stand.service.release()

    assert (stuck.stage, stuck.nothing_left, stuck.closed_boot_ms) == (Stage.ASKED, False, None)
    assert not third.reused
    assert quiet.result().exit_status == 4
    assert quiet.result().closed_boot_ms is not None


async def test_a_host_that_refuses_a_session_keeps_its_connection_and_gets_fewer(stand: Stand) -> None:
    stand.service.plan.add("ssh_status_and_hang")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(stand.attempt(limits=limited(grace_seconds=LONG_SECONDS)))
        await stand.reached("ended")
        stand.service.plan.add("ssh_refuse_session")
        refused = await stand.attempt()
        third = await stand.attempt()
        stand.service.release()

    assert (refused.stage, refused.nothing_left, refused.error_code) == (Stage.CONNECTED, True, 2)
    assert refused.closed_boot_ms is None
    assert (third.answered, third.reused) == (True, False)
    assert first.result().answered


async def test_a_connection_whose_channel_does_not_close_takes_no_more_commands(stand: Stand) -> None:
    stand.service.plan.add("ssh_status_and_hang")
    held = await stand.attempt(limits=limited(grace_seconds=SHORT_SECONDS))
    after = await stand.attempt()

    assert (held.exit_status, held.output_complete, held.closed_boot_ms is None) == (0, False, False)
    assert not after.reused


async def test_an_unused_connection_is_closed_in_peace(stand: Stand) -> None:
    stand.adapter = stand.new_adapter(idle_seconds=0.05)
    await stand.attempt(stand.proxied)
    (passed,) = await stand.proxy.wait_for(lambda passed: passed.closed is not None)

    assert passed.ended == "closed"
    assert not (await stand.attempt(stand.proxied)).reused


async def test_an_old_connection_takes_no_more_commands(stand: Stand) -> None:
    stand.adapter = stand.new_adapter(age_seconds=0.0)
    first, second = await stand.attempt(), await stand.attempt()

    assert (first.reused, second.reused) == (False, False)
    assert stand.service.logins == 2


async def test_closing_the_adapter_ends_what_is_under_way_and_refuses_what_comes(stand: Stand) -> None:
    stand.service.plan.add("ssh_accept_run_hang")
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(stand.attempt())
        await stand.reached("ran")
        await stand.adapter.close()
    late = await stand.attempt()

    assert (under_way.result().stage, under_way.result().nothing_left) == (Stage.ACCEPTED, False)
    assert under_way.result().closed_boot_ms is not None
    assert (late.stage, late.nothing_left, late.summary) == (Stage.PREPARED, True, "the adapter is closed")


async def _behind(stack: AsyncExitStack, folder: Path, clock: CountingClock) -> tuple[Stand, Stand]:
    """A host, and another to go through."""
    stands = []
    for name in ("host", "jump"):
        (folder / name).mkdir()
        stands.append(await stack.enter_async_context(Stand(folder / name, clock)))
    return stands[0], stands[1]


async def test_a_host_behind_a_jump_host_is_reached_with_pins_and_keys_of_each(
    tmp_path: Path, clock: CountingClock
) -> None:
    async with AsyncExitStack() as stack:
        host, jump = await _behind(stack, tmp_path, clock)
        route = replace(host.direct, jump=replace(jump.direct, name="jump"))
        first, second = await host.attempt(route), await host.attempt(route)

        assert first.answered
        assert second.reused
        assert first.host_key == host.service.host_keys[0].get_fingerprint()
        assert first.peer == f"127.0.0.1:{jump.service.port}"
        assert [hop.name for hop in way(route)] == ["jump", "host"]
        assert (jump.service.logins, jump.effects, host.effects) == (1, 0, 2)


@pytest.mark.parametrize("which", ["jump", "host"])
async def test_a_changed_key_anywhere_on_the_way_ends_it(tmp_path: Path, clock: CountingClock, which: str) -> None:
    wrong = SshPins((public_text(new_key()),))
    async with AsyncExitStack() as stack:
        host, jump = await _behind(stack, tmp_path, clock)
        route = replace(host.direct, jump=jump.direct)
        route = replace(route, pins=wrong) if which == "host" else replace(route, jump=replace(jump.direct, pins=wrong))
        seen = await host.attempt(route)

        assert (seen.stage, seen.nothing_left, seen.host_key_refused) == (Stage.CONNECTING, True, True)
        assert seen.closed_boot_ms is not None
        shown = {"jump": jump, "host": host}[which].service.host_keys[0].get_fingerprint()
        said = {"jump": "the jump host's key is none", "host": "the host's key is none"}[which]
        assert (seen.host_key, seen.hops_short) == (shown, int(which == "jump"))
        assert seen.summary.startswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda jump: replace(jump, port=1), "the jump host refused the connection"),
        (
            lambda jump: replace(jump, credential=credential_of(new_key())),
            "the jump host did not accept the credential",
        ),
        (lambda jump: replace(jump, pins=SshPins()), "no key is pinned for this host at the jump host"),
    ],
)
async def test_what_fails_at_a_jump_host_is_told_of_that_one(
    tmp_path: Path, clock: CountingClock, change: Callable[[SshRoute], SshRoute], said: str
) -> None:
    async with AsyncExitStack() as stack:
        host, jump = await _behind(stack, tmp_path, clock)
        seen = await host.attempt(replace(host.direct, jump=change(jump.direct)))
        further = await host.attempt(replace(host.direct, jump=replace(jump.direct, jump=change(jump.direct))))

        assert (seen.summary, seen.hops_short, seen.nothing_left) == (said, 1, True)
        assert (further.summary, further.hops_short, further.nothing_left) == (said, 2, True)


async def test_what_fails_at_the_host_behind_is_told_of_the_host(tmp_path: Path, clock: CountingClock) -> None:
    async with AsyncExitStack() as stack:
        host, jump = await _behind(stack, tmp_path, clock)
        seen = await host.attempt(replace(host.direct, credential=credential_of(new_key()), jump=jump.direct))

        assert (seen.summary, seen.hops_short) == ("the host did not accept the credential", 0)


async def test_a_host_that_the_jump_host_cannot_reach_was_never_asked(tmp_path: Path, clock: CountingClock) -> None:
    async with AsyncExitStack() as stack:
        host, jump = await _behind(stack, tmp_path, clock)
        seen = await host.attempt(replace(host.direct, port=1, jump=jump.direct))

        assert (seen.stage, seen.nothing_left, seen.error_code) == (Stage.CONNECTING, True, 2)
        assert seen.summary == "the jump host did not reach the host behind it"


async def test_a_jump_host_lost_in_the_middle_leaves_the_command_unknown(tmp_path: Path, clock: CountingClock) -> None:
    async with AsyncExitStack() as stack:
        host, jump = await _behind(stack, tmp_path, clock)
        host.service.plan.add("ssh_accept_run_hang")
        jump.proxy.toxics.add("cut_at", attributes={"stage": "now"})
        async with asyncio.TaskGroup() as group:
            under_way = group.create_task(host.attempt(replace(host.direct, jump=jump.proxied)))
            await host.reached("ran")
            jump.proxy.announce("now")
        seen = await under_way

        assert (seen.stage, seen.nothing_left, seen.exit_status) == (Stage.ACCEPTED, False, None)
        assert host.effects == 1


METADATA = "169.254.169.254"


@pytest.mark.parametrize(
    "change",
    [
        lambda route: replace(route, allow_private=False),
        lambda route: replace(route, address=METADATA),
        lambda route: replace(route, address=METADATA, jump=route),
    ],
    ids=["loopback", "metadata", "metadata behind a jump host"],
)
async def test_addresses_that_no_action_may_reach_are_not_dialled(
    stand: Stand, change: Callable[[SshRoute], SshRoute]
) -> None:
    seen = await stand.attempt(change(stand.direct))

    assert (seen.nothing_left, seen.error_class) == (True, "AddressRefused")
    assert stand.stages == []


async def test_the_gateways_own_listeners_are_not_dialled(stand: Stand) -> None:
    stand.adapter = stand.new_adapter(denied=lambda _host, port: port == stand.service.port)

    assert (await stand.attempt()).error_class == "AddressRefused"


async def test_the_name_is_looked_up_and_its_addresses_tried_in_order(stand: Stand) -> None:
    async def two(host: str, port: int) -> list[str]:
        assert (host, port) == ("host.example", stand.service.port)
        return ["127.0.0.2", "127.0.0.1"]

    stand.adapter = stand.new_adapter(lookup=two)

    assert (await stand.attempt(replace(stand.direct, address="host.example"))).answered
