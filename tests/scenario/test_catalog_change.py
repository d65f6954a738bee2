"""A catalog may change while operations are open: each keeps the rules under which it was taken (S25)."""

import pytest

from fixtures.service.server import DeployService
from tests.scenario.kit import LOOKUP, Document, Home, effects, sends, taken, write_action

NEW_RULES: Document = {
    **LOOKUP,
    "request": {"method": "GET", "path": "/environments/nowhere"},
    "rules": [{"status": 404, "finding": "executed_failed"}, {"status": 200, "finding": "executed_ok"}],
    "absence": "none",
}


@pytest.mark.parametrize("change", ["other rules", "other address", "removed"])
async def test_an_operation_in_doubt_keeps_its_rules_when_the_catalog_changes_under_it(
    change: str, home: Home, service: DeployService
) -> None:
    """S25: under the new catalog it would be looked for elsewhere, and a 404 would mean that it failed."""
    home.configure({"deploys": service.url}, {"deploy": write_action(), "other": write_action("PUT")})
    service.faults.add("commit_then_drop")
    service.faults.add("lookup_unavailable", times=None)
    async with home.running() as api:
        begun = await api.begin("deploy", name="web", key="call_1")
        operation = begun["operation_id"]
        old = await api.until_state(operation, "in_doubt")

    actions = {"other": write_action("PUT")}
    services = {"deploys": service.url}
    if change == "other rules":
        actions["deploy"] = write_action("PUT", reconcile=NEW_RULES)
    if change == "other address":
        actions["deploy"] = write_action()
        services["deploys"] = "http://127.0.0.1:1"
    home.configure(services, actions)
    async with home.running() as api:
        now = await api.get(operation)
        assert (now["state"], now["outcome"], now["target"]) == ("in_doubt", "unknown", old["target"])
        assert now["reconcile"]["path"] == old["reconcile"]["path"]
        if change == "other rules":
            again = await api.begin("deploy", name="web", key="call_1")
            assert (again["operation_id"], again["joined"]) == (operation, True)
        if change == "removed":
            assert (await api.submit("deploy", name="web", key="call_1")).document["code"] == "unknown_action"
            assert taken(await api.client.call("GET", "/v1/operations", query={"key": "call_1"}))["operations"]
        service.faults.remove()
        settled = await api.settled(operation)
    assert (settled["outcome"], settled["executed"], settled["basis"]) == ("success", "yes", "probe")
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1
    assert len(home.query("select digest from definitions")) == (2 if change == "new" else 1)


async def test_what_comes_after_the_change_is_done_under_the_new_rules(home: Home, service: DeployService) -> None:
    """S25, the other side: only operations that were there keep the old rules."""
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    async with home.running() as api:
        assert (await api.begin("deploy", name="one", wait=10))["outcome"] == "success"
    home.configure({"deploys": service.url}, {"deploy": write_action("PUT")})
    async with home.running() as api:
        assert (await api.begin("deploy", name="two", wait=10))["outcome"] == "success"
    assert [entry.method for entry in sends(service.ledger.entries)] == ["POST", "PUT"]
    assert len(home.query("select digest from definitions")) == 2
