"""Requests that are held up and take effect later than anybody waits: never a second effect, never a lie."""

from collections.abc import AsyncIterator

import pytest

from fixtures.proxy.server import FaultProxy
from fixtures.service.server import DeployService
from tests.scenario.kit import LOOKUP, Document, Home, brief_action, effects, sends

FENCE: Document = {
    "request": {
        "method": "PUT",
        "path": "/claims/{operation_id}",
        "headers": {"If-None-Match": "*"},
        "body": {"kind": "tombstone", "operation": "{operation_id}"},
    },
    "won": 201,
    "lost": 412,
}
FENCED_LOOKUP: Document = {
    **LOOKUP,
    "rules": [{"status": 200, "path": "request.kind", "equals": "tombstone", "finding": "fenced"}, *LOOKUP["rules"]],
    "absence": {"fence": FENCE},
}
NEVER_ABSENT: Document = {name: value for name, value in LOOKUP.items() if name != "absence"}


@pytest.fixture
async def proxy(service: DeployService) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(f"127.0.0.1:{service.port}") as between:
        yield between


async def test_absent_at_the_first_look_and_done_afterwards_is_a_success(home: Home, service: DeployService) -> None:
    """The commit comes after the first "absent": a look that found nothing proves nothing yet."""
    lookup = {**LOOKUP, "absence": {"settle": "5s"}}
    home.configure({"deploys": service.url}, {"deploy": brief_action(reconcile=lookup)})
    service.faults.add("late_after_probe", params={"answer": "drop"})
    async with home.running() as api:
        begun = await api.begin("deploy", name="web")
        absent = await api.until(begun["operation_id"], lambda seen: bool(found(seen, "probe")))
        assert found(absent, "probe")[0] == "absent"
        settled = await api.settled(begun["operation_id"])
    assert found(settled, "probe") == ["absent", "executed_ok"]
    assert (settled["outcome"], settled["executed"]) == ("success", "yes")
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


async def test_what_arrives_after_the_request_deadline_is_found_and_not_sent_again(
    home: Home, service: DeployService, proxy: FaultProxy
) -> None:
    """The bytes left, the deadline passed, and something on the way delivers them afterwards."""
    home.configure({"deploys": proxy.url}, {"deploy": brief_action(reconcile=NEVER_ABSENT, resend="never")})
    proxy.toxics.add("hold_request", times=1)
    async with home.running() as api:
        begun = await api.begin("deploy", name="web")
        doubtful = await api.until(begun["operation_id"], lambda seen: found(seen, "probe") == ["absent"])
        assert (doubtful["state"], doubtful["outcome"]) == ("in_doubt", "unknown")
        assert effects(service.ledger.entries) == 0
        proxy.release()
        settled = await api.settled(begun["operation_id"])
    assert settled["outcome"] == "success"
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


async def test_what_arrives_after_the_recovery_deadline_is_still_taken_as_evidence(
    home: Home, service: DeployService
) -> None:
    """The commit comes after the recovery deadline: unresolved, watched, later evidence accepted."""
    deadlines = {"connect": "500ms", "request": "500ms", "recovery": "1500ms"}
    home.configure({"deploys": service.url}, {"deploy": brief_action(reconcile=NEVER_ABSENT, deadlines=deadlines)})
    service.faults.add("late_on_release")
    async with home.running() as api:
        begun = await api.begin("deploy", name="web", key="call_1")
        operation = begun["operation_id"]
        dead = await api.until_state(operation, "unresolved")
        assert (dead["outcome"], dead["executed"], dead["retry_allowed"]) == ("unknown", "unknown", False)
        # The caller who comes again is told the same and starts nothing.
        again = await api.begin("deploy", name="web", key="call_1")
        assert (again["operation_id"], again["state"]) == (operation, "unresolved")
        other = await api.submit("deploy", name="web", key="call_2")
        assert other.document["code"] == "predecessor_unsettled"

        assert await service.release(operation) == 1

        settled = await api.settled(operation)
    assert (settled["outcome"], settled["basis"]) == ("success", "probe")
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


async def test_an_operation_with_nothing_to_ask_stays_unknown_until_a_person_settles_it(
    home: Home, service: DeployService
) -> None:
    """Late delivery where no look-up is declared: only a person who can see the service's books may settle it."""
    action = brief_action(reconcile=None, unknown_accepted=True, reason="A person compares the books of the service.")
    home.configure({"deploys": service.url}, {"deploy": action})
    service.faults.add("late_on_release", params={"answer": "drop"})
    async with home.running() as api:
        begun = await api.begin("deploy", name="web")
        dead = await api.until_state(begun["operation_id"], "unresolved")
        assert await service.release(begun["operation_id"]) == 1
        assert (await api.get(begun["operation_id"]))["outcome"] == "unknown"
        body = {
            "outcome": "success",
            "executed": "yes",
            "reason": "It is in the books.",
            "digest": dead["attest_digest"],
        }
        path = f"/v1/operations/{begun['operation_id']}/attest"
        answer = await api.person.call("POST", path, body=body)
    assert (answer.document["outcome"], answer.document["basis"]) == ("success", "attestation")
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1


async def test_a_late_copy_meets_the_service_s_memory_of_the_same_key(home: Home, service: DeployService) -> None:
    """The first request is held up, the repeat under the same key is carried out, then the first one arrives."""
    action = brief_action(reconcile=None, resend="same_key", replay_after_5xx="same_outcome")
    home.configure({"deploys": service.url}, {"deploy": action})
    service.faults.add("late_on_release", params={"answer": "drop"})
    async with home.running() as api:
        settled = await api.begin("deploy", name="web", wait=10)
        assert (settled["outcome"], len(settled["attempts"])) == ("success", 2)
        assert await service.release(settled["operation_id"]) == 1
        await service.wait_for(lambda entry: entry.kind == "late")
        assert (await api.get(settled["operation_id"]))["outcome"] == "success"
    assert [entry.key for entry in sends(service.ledger.entries)] == [settled["operation_id"]] * 2
    assert effects(service.ledger.entries) == 1


async def test_a_late_copy_finds_its_place_taken_by_our_fence(home: Home, service: DeployService) -> None:
    """A fence makes "it is not there" final: what arrives afterwards is turned away by the service."""
    home.configure({"deploys": service.url}, {"deploy": brief_action(reconcile=FENCED_LOOKUP)})
    service.faults.add("late_on_release", params={"answer": "drop"})
    async with home.running() as api:
        settled = await api.begin("deploy", name="web", wait=10)
        assert (settled["outcome"], settled["executed"], settled["basis"]) == ("error", "no", "fence")
        assert await service.release(settled["operation_id"]) == 1
        late = await service.wait_for(lambda entry: entry.kind == "late")
    assert late[0].effect == "none"
    assert effects(service.ledger.entries) == 0


def found(document: Document, source: str) -> list[str]:
    """The findings of one source, in order; equal ones in a row are one."""
    return [item["finding"] for item in document["evidence"] if item["source"] == source]
