"""Submitting, waiting, reading and settling over REST, each answer as the interface describes it."""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fixtures.service.server import DeployService
from gateway.store.port import Unavailable
from gateway.surfaces.documents import OperationDocument, OperationPage, ProblemDocument, RunDocument
from tests.unit.surfaces.door import WAIT_SECONDS, Answer, Door, Home, open_door

MISSING = "op_01jd3v6k8n5q7r9s2t4w6x8y0z"


def refused(answer: Answer, status: int, code: str) -> ProblemDocument:
    """The problem, checked against its documented model."""
    assert (answer.status, answer.document.get("code")) == (status, code), answer.document
    assert answer.headers["Content-Type"] == "application/problem+json"
    found = ProblemDocument.model_validate(answer.document, strict=True)
    assert found.status == status
    assert found.guidance
    assert ("Retry-After" in answer.headers) or not found.retryable
    assert answer.headers.get("x-should-retry") == (None if found.retryable else "false")
    return found


def document(answer: Answer, status: int = 200) -> OperationDocument:
    """The operation, checked against its documented model."""
    assert answer.status == status, answer.document
    return OperationDocument.model_validate(answer.document, strict=True)


async def doubtful(door: Door, service: DeployService, action: str = "deploy.blind", **more: str) -> str:
    """An operation whose answer was lost, without any look-up; soon unresolved."""
    service.faults.add("commit_then_drop")
    return document(await door.submit(action, wait=0, **more), 202).operation_id


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


# -- reading -----------------------------------------------------------------------------------------------------------


async def test_foreign_and_missing_operations_look_alike(door: Door) -> None:
    foreign = document(await door.submit("look", key=door.foreign_key)).operation_id
    calls = [("GET", ""), ("POST", "/cancel"), ("POST", "/reconcile")]
    texts = {
        refused(await door.call(method, f"/v1/operations/{name}{rest}"), 404, "not_found").model_dump_json()
        for method, rest in calls
        for name in (foreign, MISSING, "op_x", "%00", "%2e%2e", "a" * 3000)
    }

    assert len(texts) == 1
    assert not (await door.call("GET", "/v1/operations")).document["operations"]
    assert (await door.call("GET", f"/v1/operations/{foreign}", key=door.home.person_key)).status == 200


async def test_lists_are_filtered_and_paged_newest_first(door: Door) -> None:
    made = []
    for number in range(5):
        body = {"action": "look", "args": {"name": "a"}, "key": f"k-{number}", "run": f"run_{number % 2}"}
        made.append(document(await door.call("POST", "/v1/operations", body=body)).operation_id)

    async def listed(query: str, key: str | None = None) -> list[str]:
        answer = await door.call("GET", f"/v1/operations?{query}", key=key)
        page = OperationPage.model_validate(answer.document, strict=True)
        return [item.operation_id for item in page.operations]

    assert await listed("") == made[::-1]
    assert await listed("key=k-3") == [made[3]]
    assert await listed("run=run_1") == [made[3], made[1]]
    assert await listed("state=failed") == []
    assert await listed("outcome=success&action=look&limit=2") == [made[4], made[3]]
    assert await listed("action=deploy") == []
    assert await listed("since=2100-01-01T00:00:00Z") == []
    assert await listed("since=0001-01-01T00:00:00%2b14:00&limit=1") == [made[4]]
    assert await listed("", door.foreign_key) == []
    assert len(await listed("", door.home.person_key)) == 5

    seen: list[str] = []
    query = "limit=2"
    while query:
        page = (await door.call("GET", f"/v1/operations?{query}")).document
        seen += [item["operation_id"] for item in page["operations"]]
        query = f"limit=2&cursor={page['cursor']}" if page["cursor"] else ""
    assert seen == made[::-1]


async def test_a_run_shows_what_it_did_and_what_is_open(door: Door, service: DeployService) -> None:
    document(await door.submit("look", run="run_1"))
    service.faults.add("commit_then_hang")
    document(await door.submit("deploy", wait=0, run="run_1"), 202)

    async def shown(run: str, key: str | None = None) -> RunDocument:
        answer = await door.call("GET", f"/v1/runs/{run}", key=key)
        assert answer.status == 200
        return RunDocument.model_validate(answer.document, strict=True)

    mine, foreign, unused = await shown("run_1"), await shown("run_1", door.foreign_key), await shown("run_2")
    await service.release()

    assert [item.action for item in mine.operations] == ["look", "deploy"]
    assert mine.unsettled == 1
    assert "Do not submit them again" in mine.guidance
    assert foreign.operations == unused.operations == []
    # An agent that misspelt its run must not conclude that its work is done.
    assert foreign.guidance == unused.guidance
    assert "settled" not in unused.guidance
    assert "Nothing was submitted" in unused.guidance
    refused(await door.call("GET", "/v1/runs/a%20b"), 404, "not_found")
    refused(await door.call("GET", "/v1/runs/" + "a" * 256), 404, "not_found")


async def test_actions_are_those_of_the_key_with_hints_derived_from_the_effect(door: Door) -> None:
    listed = (await door.call("GET", "/v1/actions")).document["actions"]
    by_name = {item["name"]: item for item in listed}

    assert "forbidden" not in by_name
    assert by_name["look"]["hints"]["readOnlyHint"] is True
    assert by_name["deploy"]["hints"]["destructiveHint"] is True
    assert by_name["deploy"]["input_schema"]["required"] == ["name"]
    refused(await door.call("GET", "/v1/actions/forbidden"), 404, "unknown_action")
    refused(await door.call("GET", "/v1/actions/none"), 404, "unknown_action")
    assert (await door.call("GET", "/v1/actions/deploy")).document == by_name["deploy"]


# -- settling ----------------------------------------------------------------------------------------------------------


async def test_reconcile_looks_now_and_sends_nothing(door: Door, service: DeployService) -> None:
    service.faults.add("commit_then_drop")
    service.faults.add("lookup_unavailable", times=2)
    made = document(await door.submit("deploy", wait=0), 202)
    await door.until(made.operation_id, "in_doubt", "succeeded")

    document(await door.call("POST", f"/v1/operations/{made.operation_id}/reconcile"))
    settled = await door.until(made.operation_id, "succeeded")

    assert settled["basis"] == "probe"
    assert sum(entry.effect == "done" for entry in service.ledger.entries) == 1


async def test_a_settled_operation_is_reconciled_and_cancelled_without_change(door: Door) -> None:
    made = document(await door.submit("deploy"))
    place = f"/v1/operations/{made.operation_id}"
    told = f"It had already ended: nothing was cancelled. {made.guidance}"

    assert document(await door.call("POST", f"{place}/reconcile")) == made
    cancelled = document(await door.call("POST", f"{place}/cancel"))
    assert cancelled == made.model_copy(update={"already_ended": True, "guidance": told})
    assert document(await door.call("GET", place)) == made


async def test_what_may_have_left_cannot_be_cancelled_or_looked_up_without_a_record(
    door: Door, service: DeployService
) -> None:
    made = await doubtful(door, service)

    await door.until(made, "unresolved", "in_doubt")
    refused(await door.call("POST", f"/v1/operations/{made}/cancel"), 409, "wrong_state")
    refused(await door.call("POST", f"/v1/operations/{made}/reconcile"), 409, "wrong_state")


async def test_a_person_settles_what_stays_unresolved_and_only_what_they_saw(
    door: Door, service: DeployService
) -> None:
    made = await doubtful(door, service)
    shown = await door.until(made, "unresolved")
    answer = await door.call("GET", f"/v1/operations/{made}")
    path, person = f"/v1/operations/{made}/attest", door.home.person_key
    word = {
        "outcome": "success",
        "executed": "yes",
        "reason": "seen in their console",
        "digest": shown["attest_digest"],
    }

    assert answer.headers["x-should-retry"] == "false"
    assert re.fullmatch("[0-9a-f]{64}", shown["attest_digest"])
    refused(await door.call("POST", path, body=word), 403, "forbidden")
    stale = refused(await door.call("POST", path, key=person, body=word | {"digest": "0" * 64}), 409, "stale_digest")
    assert stale.digest == shown["attest_digest"]
    assert stale.operation is not None
    refused(await door.call("POST", path, key=person, body=word | {"reason": ""}), 422, "invalid_input")
    refused(await door.call("POST", path, key=person, body=word | {"executed": "maybe"}), 422, "invalid_input")
    refused(await door.call("POST", f"/v1/operations/{MISSING}/attest", key=person, body=word), 404, "not_found")
    settled = document(await door.call("POST", path, key=person, body=word))
    assert (settled.state, settled.outcome, settled.basis) == ("succeeded", "success", "attestation")
    assert settled.attestation is not None
    assert (settled.attestation.person, settled.attestation.reason) == ("operator", "seen in their console")


async def test_contradicting_words_are_no_attestation(door: Door, service: DeployService) -> None:
    made = await doubtful(door, service)
    shown = await door.until(made, "unresolved")
    word = {"outcome": "success", "executed": "no", "reason": "r", "digest": shown["attest_digest"]}

    answer = await door.call("POST", f"/v1/operations/{made}/attest", key=door.home.person_key, body=word)

    assert answer.status in {409, 422}, answer.document
    assert (await door.call("GET", f"/v1/operations/{made}")).document["state"] == "unresolved"


async def test_a_person_supersedes_what_stays_unresolved(door: Door, service: DeployService) -> None:
    made = await doubtful(door, service)
    await door.until(made, "unresolved")
    again = {"action": "deploy.blind", "args": {"name": "a"}, "key": "another"}
    named = refused(await door.call("POST", "/v1/operations", body=again), 409, "predecessor_unsettled")
    assert named.operation_id == made

    answer = await door.submit("deploy.blind", key=door.home.person_key, supersedes=made)

    assert document(answer).supersedes == made
    refused(await door.submit("deploy.blind", key=door.home.person_key, supersedes=made), 409, "wrong_state")
