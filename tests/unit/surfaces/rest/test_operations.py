"""Submitting and waiting over REST, each answer as the interface describes it."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fixtures.service.server import DeployService
from gateway.store.port import Unavailable
from tests.unit.surfaces.door import WAIT_SECONDS, Door, Home, open_door
from tests.unit.surfaces.rest.answers import MISSING, document, refused

# -- submitting --------------------------------------------------------------------------------------------------------


async def test_success_is_200_and_says_that_it_is_done(door: Door, service: DeployService) -> None:
    answer = await door.submit("deploy", run="run_1", correlation_id="corr")
    made = document(answer)

    assert (made.state, made.outcome, made.executed, made.basis) == ("succeeded", "success", "yes", "answer")
    assert (made.run, made.correlation_id, made.caller) == ("run_1", "corr", "agent-a")
    assert made.authorization.rule == "agents"
    assert made.next_step == "done"
    assert made.links.self == f"/v1/operations/{made.operation_id}"
    assert made.receipt is not None
    assert "x-should-retry" not in answer.headers
    assert "Location" not in answer.headers
    assert len(service.ledger.entries) == 1


async def test_unknown_is_an_answer_with_a_place_to_look_again(door: Door, service: DeployService) -> None:
    service.faults.add("commit_then_drop")
    service.faults.add("lookup_unavailable", times=None)

    answer = await door.submit("deploy", wait=0)
    made = document(answer, 202)
    later = document(await door.call("GET", made.links.self + "?wait=0"))

    assert answer.headers["Location"] == made.links.self
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["x-should-retry"] == "false"
    assert (later.outcome, later.retry_allowed) == ("unknown", False)
    assert later.reconcile is not None
    assert later.reconcile.path == f"/operations/by-id/{made.operation_id}"
    assert "not" in later.guidance


async def test_failure_that_carried_nothing_out_may_be_submitted_again(door: Door, service: DeployService) -> None:
    await service.down()
    body = {"action": "deploy.blind", "args": {"name": "a"}}

    answer = await door.call("POST", "/v1/operations", body=body, headers={"Prefer": "respond-async, wait=15"})
    service.up()
    made = document(answer)

    assert (made.outcome, made.executed, made.retry_allowed, made.next_step) == (
        "error",
        "no",
        True,
        "fix_and_resubmit",
    )
    assert "x-should-retry" not in answer.headers


async def test_same_key_joins_then_replays_and_never_sends_twice(door: Door, service: DeployService) -> None:
    service.faults.add("commit_then_hang")
    first = document(await door.submit("deploy", key=None, wait=0, run="r"), 202)
    joined = document(await door.submit("deploy", wait=0, run="r"), 202)
    await service.wait_for(lambda entry: entry.fault == "commit_then_hang")
    await service.release()
    await door.until(first.operation_id, "succeeded")

    assert joined.operation_id == first.operation_id
    assert joined.joined
    assert not joined.replayed

    body = {"action": "deploy", "args": {"name": "keyed"}}
    keyed = document(await door.call("POST", "/v1/operations", body=body, headers={"Idempotency-Key": "k-1"}))
    again = await door.call("POST", "/v1/operations", body=body | {"key": "k-1"})
    replayed = document(again)

    assert replayed.operation_id == keyed.operation_id
    assert replayed.key == "k-1"
    assert replayed.replayed
    assert again.headers["Idempotent-Replayed"] == "true"
    assert sum(entry.effect == "done" for entry in service.ledger.entries) == 2


async def test_keys_in_header_and_body_must_agree(door: Door, service: DeployService) -> None:
    body = {"action": "deploy", "args": {"name": "a"}, "key": "k-1"}

    refused(
        await door.call("POST", "/v1/operations", body=body, headers={"Idempotency-Key": "k-2"}), 422, "invalid_key"
    )
    refused(
        await door.call(
            "POST", "/v1/operations", body={"action": "deploy", "args": {"name": "a"}}, headers={"Idempotency-Key": ""}
        ),
        422,
        "invalid_key",
    )
    assert not service.ledger.entries
    assert (
        document(await door.call("POST", "/v1/operations", body=body, headers={"Idempotency-Key": "k-1"})).key == "k-1"
    )


async def test_refusals_for_what_was_sent_before_name_it_to_its_own_caller_only(
    door: Door, service: DeployService
) -> None:
    made = document(await door.call("POST", "/v1/operations", body=keyed("a")))
    reused = refused(await door.call("POST", "/v1/operations", body=keyed("b")), 422, "key_reused")
    service.faults.add("commit_then_hang")
    one = document(await door.submit("deploy.alone", wait=0, name="one"), 202)
    own = refused(await door.submit("deploy.alone", name="two"), 409, "predecessor_unsettled")
    foreign = refused(await door.submit("deploy.alone", key=door.foreign_key, name="two"), 409, "predecessor_unsettled")
    await service.release()

    assert reused.operation_id == made.operation_id
    assert own.operation_id == one.operation_id
    assert foreign.operation_id is None
    assert sum(entry.effect == "done" for entry in service.ledger.entries) == 2


def keyed(name: str) -> dict[str, object]:
    return {"action": "deploy", "args": {"name": name}, "key": "k-1"}


async def test_a_repeat_without_key_is_answered_once_if_the_answer_was_lost_and_then_asked_about(
    door: Door, service: DeployService
) -> None:
    # The answer that says how it ended was never written to anybody.
    service.faults.add("commit_then_hang")
    first = document(await door.submit("deploy", wait=0), 202)
    ended = asyncio.ensure_future(door.running.assembly.tasks.settle(10))
    await service.wait_for(lambda entry: entry.fault == "commit_then_hang")
    await service.release()
    await ended

    lost = document(await door.submit("deploy"))
    problem = refused(await door.submit("deploy"), 409, "probable_repeat")

    assert (lost.operation_id, lost.outcome, lost.replayed) == (first.operation_id, "success", True)
    assert problem.operation is not None
    assert problem.operation.operation_id == first.operation_id
    assert sum(entry.effect == "done" for entry in service.ledger.entries) == 1


async def test_actions_that_do_not_exist_for_this_key_are_all_unknown(door: Door, service: DeployService) -> None:
    texts = {
        refused(await door.submit(name), 404, "unknown_action").detail
        for name in ("nothing", "forbidden", "DEPLOY", "deploy ", "../deploy", "deploy\n")
    }
    denied = refused(await door.submit("look", name="production"), 403, "forbidden")
    locked = refused(await door.submit("locked"), 409, "credential_missing")

    assert len(texts) == 1
    assert "production" not in denied.detail
    assert "never-set" in locked.detail
    assert not service.ledger.entries


async def test_callers_cannot_supersede_and_parents_must_be_their_own(door: Door, service: DeployService) -> None:
    mine = document(await door.submit("look"))
    foreign = document(await door.submit("look", key=door.foreign_key))

    refused(await door.submit("deploy", supersedes=mine.operation_id), 403, "forbidden")
    refused(await door.submit("deploy", parent=foreign.operation_id), 404, "not_found")
    refused(await door.submit("deploy", parent=MISSING), 404, "not_found")
    chain = mine.operation_id
    for _ in range(4):
        chain = document(await door.submit("look", parent=chain)).operation_id
    refused(await door.submit("look", parent=chain), 403, "forbidden")


async def test_trace_of_the_caller_goes_along(door: Door) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    body = {"action": "look", "args": {"name": "a"}}
    given = await door.call(
        "POST", "/v1/operations", body=body, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    )
    odd = await door.call("POST", "/v1/operations", body=body, headers={"traceparent": "00-zz"})

    assert document(given).trace_id == trace
    assert document(odd).trace_id is None


async def test_bounds_on_what_is_under_way_refuse_and_say_when_to_come_again(
    home: Home, service: DeployService
) -> None:
    service.faults.add("read_then_hang", times=None)
    async with open_door(home, service, limits={"in_flight_per_caller_max": 2}) as door:
        for name in ("one", "two"):
            document(await door.submit("deploy", wait=0, name=name), 202)
        problem = await door.submit("deploy", wait=0, name="three")
        document(await door.submit("deploy", wait=0, key=door.foreign_key, name="three"), 202)
        await service.release()

    refused(problem, 429, "too_many_requests")


# -- a store that cannot be read ---------------------------------------------------------------------------------------


@contextmanager
def unreadable(door: Door) -> Iterator[None]:
    """For a while the table of operations is not there."""
    connection = sqlite3.connect(door.home.folder / "data" / "gateway.db")
    connection.execute("ALTER TABLE operations RENAME TO elsewhere")
    try:
        yield
    finally:
        connection.execute("ALTER TABLE elsewhere RENAME TO operations")
        connection.close()


async def test_a_store_that_cannot_be_read_is_said_to_be_so_and_not_our_confusion(
    door: Door, service: DeployService
) -> None:
    made = document(await door.submit("look", run="r-1"))
    place = made.links.self
    with unreadable(door):
        reads = [await door.call("GET", path) for path in (place, f"{place}?wait=1", "/v1/operations", "/v1/runs/r-1")]
        deeds = [await door.call("POST", f"{place}/{deed}") for deed in ("reconcile", "cancel")]
    after = document(await door.call("GET", place))

    for answer in reads:
        assert "reading changes nothing" in refused(answer, 503, "store_unavailable").guidance
        assert answer.headers["Retry-After"] == "1"
    for answer in deeds:
        assert "read what is there before" in refused(answer, 503, "store_unavailable").guidance
    assert {answer.document.get("operation_id") for answer in (*reads[:2], *deeds)} == {made.operation_id}
    assert reads[2].document.get("operation_id") is None
    assert after == made
    assert "request_failed" not in door.log.getvalue()


async def test_a_submission_that_was_taken_is_answered_with_its_id_though_the_store_cannot_be_read_any_more(
    door: Door, service: DeployService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unread(*_arguments: object) -> None:
        raise Unavailable("planted")

    with monkeypatch.context() as broken:
        broken.setattr(door.running.assembly.gateway, "wait", unread)
        answer = await door.submit("deploy", wait=10)
    made = document(answer, 202)

    assert answer.headers["Location"] == made.links.self
    assert (await door.until(made.operation_id, "succeeded"))["outcome"] == "success"
    assert len(service.ledger.entries) == 1


# -- waiting -----------------------------------------------------------------------------------------------------------


async def test_waiting_ends_with_the_outcome_or_with_its_time(door: Door, service: DeployService) -> None:
    service.faults.add("commit_then_hang")
    made = document(await door.submit("deploy", wait=0), 202)
    path = made.links.self

    short = document(await door.call("GET", f"{path}?wait=0"))
    waiting = asyncio.ensure_future(door.call("GET", f"{path}?wait=20"))
    await service.wait_for(lambda entry: entry.fault == "commit_then_hang")
    await service.release()
    done = await waiting

    assert short.outcome == "unknown"
    assert document(done).outcome == "success"


async def test_the_longest_wait_is_the_gateways(home: Home, service: DeployService) -> None:
    service.faults.add("read_then_hang", times=None)
    async with open_door(home, service, limits={"wait_seconds_max": 0.1}) as door:
        async with asyncio.timeout(WAIT_SECONDS):
            made = document(await door.submit("deploy", wait=600), 202)
            assert (await door.call("GET", f"{made.links.self}?wait=600")).status == 200
        await service.release()
