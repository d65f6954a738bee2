"""A store that was put back is found out by what it has forgotten, and then nothing rests on what it lacks."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.contract import HostEnd, HostVerb
from adapters.ssh.canary import FORGOTTEN, UNSEEN
from adapters.ssh.runner_call import Verb
from tests.unit.adapters.remote_host import Host
from tests.unit.adapters.transporting import TARGET, OnHost

DOING = ("sh", "-c", "true")


@pytest.fixture
def place(tmp_path: Path) -> OnHost:
    host = Host(tmp_path, "dash")
    host.init()
    return OnHost(host)


def snapshot(host: Host) -> Callable[[], None]:
    """The disk as it is now, and how to put it back."""
    kept = host.folder / "snapshot"
    shutil.copytree(host.store, kept)

    def restore() -> None:
        shutil.rmtree(host.store)
        shutil.copytree(kept, host.store)

    return restore


async def test_what_a_restored_store_lacks_is_no_evidence_and_no_fence_in_it_is_either(place: OnHost) -> None:
    restore = snapshot(place.host)
    await place.ask(HostVerb.RUN, *DOING, operation="op_before")
    restore()

    for verb in (HostVerb.STATUS, HostVerb.FENCE, HostVerb.STATUS, HostVerb.CANCEL):
        seen = await place.ask(verb, *DOING, operation="op_doubt")
        assert not seen.answered, verb
        assert not seen.nothing_left
        assert (seen.header("Phase"), seen.body, seen.summary) == (None, b"", FORGOTTEN)


async def test_a_store_that_still_knows_is_believed_about_what_it_lacks(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_before")

    absent = await place.ask(HostVerb.STATUS, *DOING, operation="op_doubt")
    fenced = await place.ask(HostVerb.FENCE, *DOING, operation="op_doubt", attempts_max=3)

    assert [(seen.answered, seen.header("Phase")) for seen in (absent, fenced)] == [(True, "absent"), (True, "fenced")]


async def test_what_it_holds_needs_no_such_proof(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_before")
    restore = snapshot(place.host)
    await place.ask(HostVerb.RUN, *DOING, operation="op_after")
    restore()

    assert (await place.ask(HostVerb.STATUS, *DOING, operation="op_before")).header("Phase") == "exited"


async def test_new_operations_after_the_restore_do_not_hide_it(place: OnHost) -> None:
    restore = snapshot(place.host)
    await place.ask(HostVerb.RUN, *DOING, operation="op_before", issued_ms=1_000)
    doubt_ms = place.watch.now_ms + 1
    restore()
    place.watch.now_ms += 10
    await place.ask(HostVerb.RUN, *DOING, operation="op_after", issued_ms=doubt_ms + 1)

    for verb in (HostVerb.STATUS, HostVerb.FENCE):
        seen = await place.ask(verb, *DOING, operation="op_doubt", issued_ms=doubt_ms)
        assert (seen.answered, seen.summary) == (False, FORGOTTEN)
    # Begun when the store was what it is now.
    place.watch.now_ms += 10
    fresh = await place.ask(HostVerb.STATUS, *DOING, operation="op_new", issued_ms=place.watch.now_ms)
    assert (fresh.answered, fresh.header("Phase")) == (True, "absent")


async def test_one_that_ended_after_the_operation_was_begun_shows_it_too(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_before", issued_ms=1_000)
    restore = snapshot(place.host)
    doubt_ms = place.watch.now_ms + 1
    place.watch.now_ms += 10
    await place.ask(HostVerb.RUN, *DOING, operation="op_beside", issued_ms=doubt_ms + 1)
    restore()

    seen = await place.ask(HostVerb.STATUS, *DOING, operation="op_doubt", issued_ms=doubt_ms)
    assert (seen.answered, seen.summary) == (False, FORGOTTEN)


async def test_one_that_was_collected_since_shows_nothing(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_before", issued_ms=5)
    place.host.ask(Verb.COLLECT, before_ms=6)

    for _ in range(2):
        seen = await place.ask(HostVerb.STATUS, *DOING, operation="op_doubt", issued_ms=7)
        assert (seen.answered, seen.header("Phase")) == (True, "absent")


async def test_where_it_cannot_be_seen_there_is_no_evidence(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_before")
    answered = place._run
    calls = iter(range(10))
    torn = lambda sent: answered(sent) if next(calls) == 0 else answered(type(sent)(sent.route, sent.command))  # noqa: E731 - a stand-in of one line
    place.transport._sessions.reply = torn  # type: ignore[attr-defined]  # the stand-in for sessions has it

    seen = await place.ask(HostVerb.STATUS, *DOING, operation="op_doubt")

    assert (seen.answered, seen.summary) == (False, UNSEEN)


# -- after a restart ---------------------------------------------------------------------------------------------------


def remembered(place: OnHost, *ends: tuple[str, int]) -> None:
    """What the process before this one wrote down: operations, and when it saw each end."""
    store_id = place.host.store_id
    assert store_id is not None
    place.transport.remember(
        HostEnd(TARGET.address, TARGET.port, store_id, operation, 1, seen_ms - 1, seen_ms)
        for operation, seen_ms in ends
    )


async def test_what_an_earlier_process_saw_shows_that_a_store_was_put_back(place: OnHost) -> None:
    restore = snapshot(place.host)
    await place.ask(HostVerb.RUN, *DOING, operation="op_before")
    restore()
    anew = OnHost(place.host)
    remembered(anew, ("op_before", 5_000))

    for verb in (HostVerb.STATUS, HostVerb.FENCE, HostVerb.STATUS):
        for issued_ms in (1_000, 9_000):
            seen = await anew.ask(verb, *DOING, operation="op_doubt", issued_ms=issued_ms)
            assert (seen.answered, seen.body, seen.summary) == (False, b"", FORGOTTEN), (verb, issued_ms)


async def test_a_store_that_knows_what_an_earlier_process_saw_is_believed(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_before")
    anew = OnHost(place.host)
    remembered(anew, ("op_before", 5_000))

    assert (await anew.ask(HostVerb.STATUS, *DOING, operation="op_doubt")).header("Phase") == "absent"
    assert (await anew.ask(HostVerb.FENCE, *DOING, operation="op_doubt")).header("Phase") == "fenced"


async def test_the_newest_that_an_earlier_process_saw_is_asked_about_as_well(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_first", issued_ms=2_000)
    restore = snapshot(place.host)
    await place.ask(HostVerb.RUN, *DOING, operation="op_newest", issued_ms=3_000)
    restore()
    anew = OnHost(place.host)
    remembered(anew, ("op_newest", 3_001), ("op_first", 2_001))

    for issued_ms in (1_000, 9_000):
        seen = await anew.ask(HostVerb.STATUS, *DOING, operation="op_doubt", issued_ms=issued_ms)
        assert (seen.answered, seen.summary) == (False, FORGOTTEN)


async def test_what_an_earlier_process_saw_takes_the_place_of_nothing_that_this_one_saw(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_earlier", issued_ms=2_000)
    restore = snapshot(place.host)
    anew = OnHost(place.host)
    anew.watch.now_ms = 6_000
    await anew.ask(HostVerb.RUN, *DOING, operation="op_here", issued_ms=3_000)
    restore()
    remembered(anew, ("op_earlier", 2_001))

    # Both ended after it was begun. The store still knows the earlier one.
    seen = await anew.ask(HostVerb.STATUS, *DOING, operation="op_doubt", issued_ms=1_000)
    assert (seen.answered, seen.summary) == (False, FORGOTTEN)


async def test_what_ran_here_since_is_enough_for_what_is_begun_after_it(place: OnHost) -> None:
    remembered(place, ("op_lost", 2_000))
    place.watch.now_ms = 6_000
    await place.ask(HostVerb.RUN, *DOING, operation="op_since", issued_ms=5_000)

    fresh = await place.ask(HostVerb.STATUS, *DOING, operation="op_new", issued_ms=7_000)
    assert (fresh.answered, fresh.header("Phase")) == (True, "absent")


async def test_of_what_an_earlier_process_saw_one_that_was_collected_shows_nothing(place: OnHost) -> None:
    await place.ask(HostVerb.RUN, *DOING, operation="op_before", issued_ms=4_999)
    anew = OnHost(place.host)
    remembered(anew, ("op_before", 5_000))
    place.host.ask(Verb.COLLECT, before_ms=5_000)

    for _ in range(2):
        seen = await anew.ask(HostVerb.STATUS, *DOING, operation="op_doubt", issued_ms=7_000)
        assert (seen.answered, seen.header("Phase")) == (True, "absent")
