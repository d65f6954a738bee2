"""A store that was put back is found out by what it has forgotten, and then nothing rests on what it lacks."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.contract import HostVerb
from adapters.ssh.canary import FORGOTTEN, UNSEEN
from adapters.ssh.runner_call import Verb
from tests.unit.adapters.remote_host import Host
from tests.unit.adapters.test_ssh_transport import OnHost

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
