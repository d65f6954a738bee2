"""Reading operations over REST, and settling them: by a look, a cancel, or a person."""

import re

from fixtures.service.server import DeployService
from gateway.surfaces.documents import OperationPage, RunDocument
from tests.unit.surfaces.door import Door
from tests.unit.surfaces.rest.answers import MISSING, document, doubtful, refused

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
    assert "waits for a person" in named.guidance

    answer = await door.submit("deploy.blind", key=door.home.person_key, supersedes=made)

    assert document(answer).supersedes == made
    refused(await door.submit("deploy.blind", key=door.home.person_key, supersedes=made), 409, "wrong_state")
