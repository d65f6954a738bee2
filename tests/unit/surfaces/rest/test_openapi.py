"""The served OpenAPI document is valid, says what the door does, and is attacked by a tool that believes it."""

import asyncio
import copy
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from adapters.contract import Hooks, HostExchange, HostPlace, Observation, Presented
from fixtures.service.server import DeployService
from gateway.hosting import HostWays
from gateway.model.problem import CODES
from gateway.surfaces.rest import openapi
from gateway.surfaces.rest.routes import ROUTES
from tests.unit.surfaces.door import Door, Home, open_door

ATTACK_SECONDS = 300
MISSING = "op_01jd3v6k8n5q7r9s2t4w6x8y0z"

# Not every rule can be written into a schema: that a caller does not answer for itself, that `basic` is a pair.
ATTACK = """
[[operations]]
include-operation-id = ["createKey", "setCredential"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 422, 429]

# Nor whether a host is declared, and what its answer is.
[[operations]]
include-operation-id = ["fetchHostKeys", "enrollHost"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 422, 429, 502]
[operations.checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 502]
"""


class Nowhere:
    """The way to hosts: there is none, and none is looked for."""

    async def presented(self, place: HostPlace, *, connect_seconds: float, seconds: float) -> Presented:
        return Presented((), "the host refused the connection")

    async def attempt(self, exchange: HostExchange, hooks: Hooks) -> Observation:
        raise AssertionError("no host is declared here")

    async def close(self) -> None:
        """Nothing is open."""


NOWHERE = Nowhere()


def document() -> dict[str, Any]:
    return copy.deepcopy(openapi.document())


def test_every_route_and_status_is_in_the_document() -> None:
    paths = document()["paths"]

    assert {(path, method.upper()) for path, item in paths.items() for method in item} == {
        (route.path, route.method) for route in ROUTES
    }
    names = [item["operationId"] for path in paths.values() for item in path.values()]
    assert len(names) == len(set(names))
    for route in ROUTES:
        item = paths[route.path][route.method.lower()]
        assert set(item["responses"]) == {str(status) for status in (*route.answers, *route.statuses)}
        assert ("security" in item) == route.open


def test_every_schema_of_the_document_is_one_and_leads_somewhere() -> None:
    made = document()
    components = made["components"]
    for name, schema in components["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        jsonschema_rs.Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components})
    for path in made["paths"].values():
        for item in path.values():
            for parameter in item["parameters"]:
                jsonschema_rs.meta.validate(parameter["schema"])


async def test_what_is_served_is_the_document_and_the_page_names_every_code(door: Door) -> None:
    served = await door.call("GET", "/openapi.json", key="")
    page = (await door.call("GET", "/docs", key="")).content.decode()

    assert served.headers["Content-Type"] == "application/json"
    assert served.document == document()
    assert all(f"<code>{code.value}</code>" in page for code in CODES)
    assert all(route.path in page for route in ROUTES)


async def test_answers_have_the_documented_form(door: Door) -> None:
    components = document()["components"]

    def check(name: str, value: object) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": components}
        jsonschema_rs.Draft202012Validator(schema).validate(value)

    made = (await door.submit("deploy")).document
    check("OperationDocument", made)
    check("OperationPage", (await door.call("GET", "/v1/operations")).document)
    check("RunDocument", (await door.call("GET", "/v1/runs/r")).document)
    check("ActionList", (await door.call("GET", "/v1/actions")).document)
    check("ProblemDocument", (await door.submit("deploy")).document)
    check("ProblemDocument", (await door.submit("nothing")).document)
    check("ProblemDocument", (await door.submit("deploy", name="A")).document)
    check("KeyList", (await door.call("GET", "/v1/keys", key=door.home.person_key)).document)
    with pytest.raises(jsonschema_rs.ValidationError):
        check("OperationDocument", made | {"more": 1})


def narrowed(made: dict[str, Any], operation_ids: list[str]) -> dict[str, Any]:
    """The document with the names of this gateway, so that the attack gets behind the first refusal.

    Keys are left out: one key with two requests is refused, which no schema can say.
    """
    submission = made["components"]["schemas"]["Submission"]
    submission["properties"]["action"]["enum"] = ["look", "deploy", "deploy.blind", "nothing"]
    submission["properties"]["args"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "pattern": "^[a-z0-9]{1,8}$"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    submission["required"].append("args")
    del submission["properties"]["key"]
    submit = made["paths"]["/v1/operations"]["post"]
    submit["parameters"] = [item for item in submit["parameters"] if item["name"] != "Idempotency-Key"]
    for path, item in made["paths"].items():
        for operation in item.values():
            for parameter in operation["parameters"]:
                if parameter["name"] == "id" and "operations" in path:
                    parameter["schema"] = {"enum": operation_ids}
                if parameter["name"] == "name" and "actions" in path:
                    parameter["schema"] = {"enum": ["look", "deploy", "nothing"]}
    return made


async def attack(door: Door, file: Path, key: str, examples: int, *left_out: str) -> tuple[int | None, str]:
    """Exit code and report of schemathesis: every check, valid and invalid input, and walks along the links."""
    config = file.with_name("attack.toml")
    config.write_text(ATTACK)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", str(file)),
        *("--url", door.address, "--header", f"Authorization: Bearer {key}", "--checks", "all", "--no-color"),
        *("--max-examples", str(examples), "--seed", "1", "--generation-database", "none", "--no-shrink"),
        *("--request-timeout", "10", "--exclude-operation-id", "streamEvents"),
        *(word for name in left_out for word in ("--exclude-operation-id", name)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=file.parent,
    )
    try:
        async with asyncio.timeout(ATTACK_SECONDS):
            report, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    door.home.heard.append(report)
    return process.returncode, report.decode()


@pytest.mark.timeout(ATTACK_SECONDS + 60)
async def test_an_attack_on_the_documented_interface_finds_nothing(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    ways = HostWays(commands=NOWHERE, keys=NOWHERE)
    async with open_door(home, service, host_ways=ways, limits={"wait_seconds_max": 0.05}) as door:
        service.faults.add("commit_then_drop")
        unresolved = (await door.submit("deploy.blind", wait=0)).document["operation_id"]
        await door.until(unresolved, "unresolved")
        known = [MISSING, unresolved, (await door.submit("look", wait=1)).document["operation_id"]]
        served = (await door.call("GET", "/openapi.json", key="")).document
        file = tmp_path / "openapi.json"
        file.write_text(json.dumps(narrowed(served, known)))

        # Not revokeKey for the person: along the links it revokes the very key that is attacking.
        (caller, told), (person, said) = await asyncio.gather(
            attack(door, file, home.caller_key, 18),
            attack(door, file, home.person_key, 8, "revokeKey"),
        )
        metrics = (await door.call("GET", "/metrics")).content.decode()

    assert caller == 0, told[-5000:]
    assert person == 0, said[-5000:]
    for report in (told, said):
        found = re.search(r"([\d,]+) generated", report)
        assert found is not None
        assert int(found[1].replace(",", "")) > 500
        assert "Stateful" in report
    assert 'gateway_problems_total{code="internal"}' not in metrics
    assert sum(entry.effect == "dup" for entry in service.ledger.entries) == 0
