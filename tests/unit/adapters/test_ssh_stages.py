"""What a stage proves, row by row: first the table itself, then a host that brings each row about."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace

import asyncssh
import pytest

from adapters.contract import Hooks
from adapters.contract_ssh import SshPins, SshRoute, Stage
from adapters.ssh.flight import Flight
from adapters.ssh.stages import TABLE, Proof, Signs, is_refusal, proof_of
from tests.unit.adapters.conftest import Owner
from tests.unit.adapters.ssh_stand import (
    LONG_SECONDS,
    SHORT_SECONDS,
    Stand,
    agreed,
    credential_of,
    limited,
    new_key,
    public_text,
    run_out,
)

BEFORE_THE_COMMAND = (Stage.PREPARED, Stage.CONNECTING, Stage.CONNECTED, Stage.OPENED)
EVERY_SIGN = [Signs(*signs) for signs in itertools.product((False, True), repeat=3)]


@pytest.mark.parametrize("stage", BEFORE_THE_COMMAND)
@pytest.mark.parametrize("signs", EVERY_SIGN)
def test_before_the_command_is_written_nothing_can_have_been_executed(stage: Stage, signs: Signs) -> None:
    assert proof_of(stage, signs) is Proof.NEVER_EXECUTED


def test_a_refusal_while_the_channel_stands_is_proof() -> None:
    assert proof_of(Stage.ASKED, Signs(refused=True)) is Proof.NEVER_EXECUTED


@pytest.mark.parametrize("signs", [Signs(refused=True, channel_lost=True), Signs(), Signs(channel_lost=True)])
def test_a_command_without_an_answer_is_unknown(signs: Signs) -> None:
    assert proof_of(Stage.ASKED, signs) is Proof.UNKNOWN


@pytest.mark.parametrize("signs", EVERY_SIGN)
def test_acceptance_proves_nothing(signs: Signs) -> None:
    assert proof_of(Stage.ACCEPTED, signs) is Proof.UNKNOWN


@pytest.mark.parametrize("lost", [False, True])
def test_after_a_status_the_loss_of_the_connection_changes_nothing(lost: bool) -> None:
    assert proof_of(Stage.ENDED, Signs(channel_lost=lost)) is Proof.EXITED
    assert proof_of(Stage.ENDED, Signs(channel_lost=lost, signalled=True)) is Proof.SIGNALLED


@pytest.mark.parametrize("row", TABLE)
def test_every_row_of_the_table_decides_something(row: object) -> None:
    deciding = {next(found for found in TABLE if found.holds(stage, signs)) for stage in Stage for signs in EVERY_SIGN}
    assert row in deciding


def test_only_one_code_of_the_library_means_refused() -> None:
    assert is_refusal(asyncssh.ChannelOpenError(asyncssh.OPEN_REQUEST_SESSION_FAILED, ""))
    assert not is_refusal(asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, ""))
    assert not is_refusal(None)


def _nobody_listens(stand: Stand) -> SshRoute:
    return replace(stand.direct, port=1)


def _no_such_name(stand: Stand) -> SshRoute:
    return replace(stand.direct, address="nobody.localhost.invalid")


def _reset(stand: Stand) -> SshRoute:
    stand.proxy.toxics.add("reset_peer")
    return stand.proxied


def _ended(stand: Stand) -> SshRoute:
    stand.proxy.toxics.add("limit_data", attributes={"bytes": 100})
    return stand.proxied


def _cut_before_the_login(stand: Stand) -> SshRoute:
    stand.proxy.toxics.add("cut_at", attributes={"stage": "connected", "close": "fin"})
    return stand.proxied


def _other_user(stand: Stand) -> SshRoute:
    return replace(stand.direct, user="somebody")


def _other_key(stand: Stand) -> SshRoute:
    return replace(stand.direct, credential=credential_of(new_key()))


def _host_key_changed(stand: Stand) -> SshRoute:
    return replace(stand.direct, pins=SshPins((public_text(new_key()),)))


def _no_algorithm_in_common(stand: Stand) -> SshRoute:
    pinned = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    return replace(stand.direct, pins=SshPins((public_text(pinned),)))


def _login_hangs(stand: Stand) -> SshRoute:
    stand.service.plan.add("ssh_hang_login")
    return stand.direct


def _no_banner(stand: Stand) -> SshRoute:
    stand.proxy.toxics.add("one_way_drop")
    return stand.proxied


async def _unknown_name(host: str, port: int) -> list[str]:
    raise OSError("no such name")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (_nobody_listens, "ConnectionRefusedError"),
        (_no_such_name, "OSError"),
        (_reset, None),
        (_ended, None),
        (_cut_before_the_login, None),
        (_other_user, "PermissionDenied"),
        (_other_key, "PermissionDenied"),
        (_host_key_changed, "HostKeyNotVerifiable"),
        (_no_algorithm_in_common, "KeyExchangeFailed"),
        (_login_hangs, "TimeoutError"),
        (_no_banner, "TimeoutError"),
    ],
)
async def test_without_a_login_nothing_was_executed(
    stand: Stand, owner: Owner, make: Callable[[Stand], SshRoute], error: str | None
) -> None:
    stand.adapter = stand.new_adapter(lookup=_unknown_name)
    seen = await stand.attempt(
        make(stand), owner.hooks, limits=limited(login_seconds=SHORT_SECONDS if error == "TimeoutError" else 40.0)
    )

    assert seen.stage is Stage.CONNECTING
    assert seen.nothing_left
    assert error in {None, seen.error_class}
    assert seen.closed_boot_ms is not None
    assert seen.host_key_refused is (error == "HostKeyNotVerifiable")
    assert owner.asked == 0
    assert stand.effects == 0


@pytest.mark.parametrize("fault", ["ssh_refuse_session", "ssh_hang_open"])
async def test_without_a_channel_nothing_was_executed(stand: Stand, owner: Owner, fault: str) -> None:
    stand.service.plan.add(fault)
    seen = await stand.attempt(hooks=owner.hooks, limits=limited(open_seconds=SHORT_SECONDS))

    assert seen.stage is Stage.CONNECTED
    assert seen.nothing_left
    assert owner.asked == 0
    assert "asked" not in stand.stages


async def test_cancelling_before_the_channel_stands_asks_for_nothing_afterwards(stand: Stand, owner: Owner) -> None:
    stand.service.plan.add("ssh_hang_open")
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(stand.attempt(hooks=owner.hooks))
        await stand.reached("opened")
        under_way.cancel()
    stand.service.release()
    await stand.attempt()

    assert owner.asked == 0
    assert stand.effects == 1


async def test_a_refused_check_writes_no_command_and_leaves_the_connection_usable(stand: Stand, owner: Owner) -> None:
    owner.refuse = "the lease is over"
    seen = await stand.attempt(hooks=owner.hooks)

    assert (seen.stage, seen.nothing_left, seen.summary) == (Stage.OPENED, True, "the lease is over")
    assert "asked" not in stand.stages
    assert (await stand.attempt()).reused


async def test_a_check_that_breaks_refuses(stand: Stand) -> None:
    def broken() -> str | None:
        raise LookupError("secret detail")

    seen = await stand.attempt(hooks=Hooks(broken))

    assert (seen.stage, seen.nothing_left) == (Stage.OPENED, True)
    assert "secret" not in repr(seen)
    assert "asked" not in stand.stages


async def test_the_check_is_asked_once_when_the_channel_stands_and_before_the_command_is_written(stand: Stand) -> None:
    stages: list[str] = []

    def look() -> str | None:
        stages.extend(stand.stages)
        return None

    await stand.attempt(hooks=Hooks(look))

    assert stages == ["connected", "login", "opened"]
    assert stand.stages[3] == "asked"


async def test_a_refused_command_was_never_executed(stand: Stand) -> None:
    stand.service.plan.add("ssh_refuse_command")
    seen = await stand.attempt()

    assert (seen.stage, seen.nothing_left) == (Stage.ASKED, True)
    assert (await stand.attempt()).reused


ASKED = ["disconnect", "protocol_error", "close", "abort", "hang"]
ACCEPTED = ["close", "disconnect", "abort", "hang", "eof"]


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("way", ASKED)
async def test_a_command_that_nobody_answered_is_unknown_whether_it_ran_or_not(
    stand: Stand, way: str, ran: bool
) -> None:
    stand.service.plan.add(f"ssh_run_{way}" if ran else f"ssh_{way}")
    seen = await stand.attempt(limits=limited(reply_seconds=SHORT_SECONDS))

    assert (seen.stage, seen.nothing_left, seen.exit_status) == (Stage.ASKED, False, None)
    assert seen.closed_boot_ms is not None
    await stand.service.ledger.wait_for(lambda entry: (entry.effect != "none") is ran)


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("way", ACCEPTED)
async def test_an_accepted_command_without_a_status_is_unknown_whether_it_ran_or_not(
    stand: Stand, way: str, ran: bool
) -> None:
    stand.service.plan.add(f"ssh_accept_run_{way}" if ran else f"ssh_accept_{way}")
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(stand.attempt())
        await stand.reached("ran" if ran else "accepted")
        if way in {"hang", "eof"}:
            await run_out(stand.adapter, Stage.ACCEPTED)
    seen = under_way.result()

    assert (seen.stage, seen.nothing_left, seen.exit_status, seen.exit_signal) == (Stage.ACCEPTED, False, None, None)
    assert not seen.output_complete
    assert not seen.answered
    await stand.service.ledger.wait_for(lambda entry: (entry.effect != "none") is ran)


async def test_a_cancelled_attempt_gives_its_connection_up(stand: Stand) -> None:
    stand.service.plan.add("ssh_accept_run_hang")
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(stand.attempt())
        await stand.reached("ran")
        under_way.cancel()

    assert under_way.cancelled()
    assert not (await stand.attempt()).reused


@pytest.mark.parametrize("status", [0, 1, 127, 255])
async def test_a_status_is_reported_as_it_came(stand: Stand, status: int) -> None:
    stand.service.plan.add("ssh_answer", params={"status": status})
    seen = await stand.attempt()

    assert (seen.stage, seen.nothing_left, seen.exit_status) == (Stage.ENDED, False, status)
    assert seen.answered


async def test_a_signal_is_an_end_without_a_status(stand: Stand) -> None:
    stand.service.plan.add("ssh_signal", params={"signal": "KILL"})
    seen = await stand.attempt()

    assert (seen.stage, seen.exit_status, seen.exit_signal) == (Stage.ENDED, None, "KILL")
    assert seen.answered


@pytest.mark.parametrize("close", ["reset", "fin"])
async def test_a_connection_lost_after_the_status_changes_nothing(stand: Stand, close: str) -> None:
    stand.service.plan.add("ssh_status_and_hang", params={"status": 7})
    stand.proxy.toxics.add("cut_at", attributes={"stage": "cut", "close": close})

    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(stand.attempt(stand.proxied, limits=limited(grace_seconds=LONG_SECONDS)))
        await stand.reached("ended")
        (flight,) = stand.adapter._flights
        await flight.over.wait()
        stand.proxy.announce("cut")
    seen = await under_way

    assert (seen.stage, seen.exit_status, seen.nothing_left) == (Stage.ENDED, 7, False)
    assert not seen.output_complete


async def test_an_attempt_whose_channel_stood_cannot_be_begun_again(stand: Stand) -> None:
    flight = Flight(stand.exchange(), Hooks(agreed))
    flight.reach(Stage.CONNECTED)
    flight.start_over()
    flight.reach(Stage.OPENED)

    with pytest.raises(RuntimeError):
        flight.start_over()


async def test_stages_never_go_back(stand: Stand) -> None:
    flight = Flight(stand.exchange(), Hooks(agreed))
    flight.reach(Stage.ENDED)
    flight.reach(Stage.ACCEPTED)

    assert flight.stage is Stage.ENDED
