"""SIGKILL at every named place and at random moments under load, SIGTERM, SIGSTOP: nothing is sent twice or lost."""

import asyncio
import random
import signal
from pathlib import Path
from typing import Final

import psutil
import pytest

from fixtures.service.server import DeployService
from gateway.engine.driver import LEASE_MARGIN_SECONDS
from gateway.engine.ports import POINTS as ENGINE_POINTS
from gateway.store.points import POINTS as STORE_POINTS
from tests.scenario.kit import (
    ACCEPTED,
    FINAL,
    Api,
    Document,
    Home,
    brief_action,
    claims_hold,
    effects,
    sends,
    submit_in_the_dark,
    write_action,
)
from tests.scenario.test_late_delivery import FENCED_LOOKUP

ACTIONS: Final = {
    "plain": brief_action("PUT"),
    "lost": brief_action("PUT"),
    "undone": brief_action("PUT"),
    "again": brief_action("PUT", resend="on_absence"),
    "fenced": brief_action("PUT", reconcile=FENCED_LOOKUP),
    "accepted": brief_action("PUT", accepted=ACCEPTED),
}
"""What is called, by the name under which the service sees it; together these pass every named place."""
FAULTS: Final = {
    "lost": "commit_then_drop",
    "undone": "read_then_reset",
    "again": "read_then_drop",
    "fenced": "read_then_drop",
    "accepted": "commit_then_accepted_head_hang",
}
MET_POINTS: Final = [name for name in ENGINE_POINTS if not name.startswith("rekey.")]
"""Nobody changes the log's keys here; `test_log_key_change` has the places for that."""
CASES: Final = [
    *((name, 1, False) for name in MET_POINTS),
    *((name, nth, False) for name in STORE_POINTS for nth in (1, 4)),
    *((name, 1, True) for name in STORE_POINTS),
    *((name, 1, True) for name in MET_POINTS if name.startswith("export.")),
]
"""Place, at its nth hit, counted from the start of the process or from the moment at which the door opened."""
ANSWERS: Final = ("operation_id", "outcome", "executed", "basis", "result")


def prepare(home: Home, service: DeployService) -> None:
    limits = {"rate_per_key_per_second_max": 5000.0, "burst_per_key_max": 5000, "service_concurrency_max": 64}
    home.configure({"deploys": service.url}, ACTIONS, limits=limits)


def plan(service: DeployService) -> None:
    for name, fault in FAULTS.items():
        service.faults.add(fault, match={"method": "PUT", "path": f"/deployments/{name}"})


async def call_everything(api: Api) -> list[Document]:
    """One call of each, at once; the answers that came."""
    answers = await asyncio.gather(*(submit_in_the_dark(api, name, f"call-{name}", name=name) for name in ACTIONS))
    return [answer.document for answer in answers if answer is not None and not answer.is_problem]


async def run_to_the_end(home: Home, service: DeployService, before: list[Document]) -> None:
    """Start again, call again under the same keys, and hold answers, ledger, store and log against each other."""
    async with home.running() as api:
        for name in ACTIONS:
            await api.submit(name, key=f"call-{name}", name=name)
        everything = [await api.settled(item["operation_id"], seconds=40) for item in await api.everything()]
        again = {item["operation_id"]: item for item in await api.everything()}
    entries = service.ledger.entries
    assert claims_hold(everything, entries) == []
    assert {item["key"] for item in everything} == {f"call-{name}" for name in ACTIONS}
    assert len(everything) == len(ACTIONS)
    for item in everything:
        assert [item[name] for name in ANSWERS] == [again[item["operation_id"]][name] for name in ANSWERS]
        sent = sends(entries, item["operation_id"])
        assert len([entry for entry in sent if "/claims/" not in (entry.path or "")]) <= len(item["attempts"])
    flipped = [item for item in before if item["state"] in FINAL and told(again, item) != told_of(item)]
    assert flipped == []
    agree(home)


def told_of(item: Document) -> tuple[str, str]:
    return item["outcome"], item["executed"]


def told(now: dict[str, Document], item: Document) -> tuple[str, str]:
    return told_of(now[item["operation_id"]])


def agree(home: Home) -> None:
    """The log verifies with key and anchors, holds every operation's whole story, and says what the store says."""
    code, said = home.verify()
    assert code == 0, said
    chains: dict[str, list[Document]] = {}
    for record in home.records():
        if "op" in record:
            chains.setdefault(record["op"], []).append(record)
    stored = {bytes(row[0]).hex(): row for row in home.query("select id, state, op_n from operations")}
    assert len(stored) == len(chains)
    for chain in chains.values():
        assert [record["op_n"] for record in chain] == list(range(len(chain)))
    assert sorted(row[2] for row in stored.values()) == sorted(len(chain) for chain in chains.values())
    assert sorted(row[1] for row in stored.values()) == sorted(chain[-1]["state"] for chain in chains.values())
    assert home.query("select count(*) from audit_tail") == [(0,)]


@pytest.mark.parametrize(("place", "nth", "from_start"), CASES)
async def test_a_gateway_killed_at_a_named_place_goes_on_to_the_true_outcome(
    place: str, nth: int, from_start: bool, home: Home, service: DeployService
) -> None:
    """Invariants I1 to I4, I8 and I10: kill it at any moment, start it again, and it knows what it did."""
    prepare(home, service)
    plan(service)
    options = ("--from-start",) if from_start else ()
    async with home.process("kill", place, "--nth", str(nth), *options) as api:
        answers = await call_everything(api) if api.ready else []
        assert await api.ended() == -signal.SIGKILL
    await run_to_the_end(home, service, answers)


def test_every_named_place_is_killed_at() -> None:
    assert {place for place, _, _ in CASES} == {*MET_POINTS, *STORE_POINTS}


LOAD_FAULTS: Final = (
    "commit_then_drop", "read_then_drop", "commit_then_hang", "500_with_effect", "500_without_effect",
    "commit_then_cut_body", "late_after_client_gone", "lost_after_client_gone",
)  # fmt: skip
CALLS: Final = 20


async def killed_under_load(home: Home, service: DeployService, chance: random.Random, kills: int) -> None:
    """Twenty calls at once, a third of them under faults, and a kill at some moment; all that several times."""
    prepare(home, service)
    names = [f"load-{number}" for number in range(CALLS)]
    for name in chance.sample(names, CALLS // 2):
        fault = chance.choice(LOAD_FAULTS)
        service.faults.add(fault, match={"method": "PUT", "path": f"/deployments/{name}"})
    actions = {name: chance.choice(["plain", "again", "fenced"]) for name in names}
    final: dict[str, tuple[str, str]] = {}
    for _ in range(kills):
        async with home.process() as api:
            calls = [
                asyncio.create_task(submit_in_the_dark(api, action, f"key-{name}", name=name))
                for name, action in actions.items()
            ]
            await asyncio.sleep(chance.uniform(0.0, 1.5))
            await api.kill()
            for answer in await asyncio.gather(*calls):
                if answer is not None and not answer.is_problem and answer.document["state"] in FINAL:
                    known = final.setdefault(answer.document["operation_id"], told_of(answer.document))
                    assert known == told_of(answer.document)
    async with home.running() as api:
        for name, action in actions.items():
            await api.submit(action, key=f"key-{name}", name=name)
        everything = [await api.settled(item["operation_id"], seconds=60) for item in await api.everything()]
    assert claims_hold(everything, service.ledger.entries) == []
    assert len(everything) == CALLS
    now = {item["operation_id"]: told_of(item) for item in everything}
    assert {name: now[name] for name in final} == final
    agree(home)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_gateway_killed_at_random_moments_under_load_loses_and_repeats_nothing(
    seed: int, home: Home, service: DeployService
) -> None:
    """I10: the moments that no list names."""
    await killed_under_load(home, service, random.Random(seed), kills=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
async def test_a_gateway_killed_again_and_again_loses_and_repeats_nothing(
    seed: int, home: Home, service: DeployService
) -> None:
    await killed_under_load(home, service, random.Random(seed), kills=8)


async def test_sigterm_in_mid_flight_lets_the_attempt_end_and_its_caller_know(
    home: Home, service: DeployService
) -> None:
    """Drained, not cut; the log is closed and complete."""
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    service.faults.add("commit_then_slow_bytes", params={"interval_seconds": 0.004})
    async with home.process() as api:
        call = asyncio.create_task(api.submit("deploy", name="web", wait=10))
        await service.wait_for(lambda entry: entry.effect == "done")
        api.send(signal.SIGTERM)
        answer = await call
        assert await api.ended() == 0
    assert (answer.status, answer.document["outcome"]) == (200, "success")
    assert len(sends(service.ledger.entries)) == effects(service.ledger.entries) == 1
    agree(home)


async def test_an_attempt_whose_lease_ran_out_while_the_process_stood_still_sends_nothing(
    home: Home, service: DeployService
) -> None:
    """S22: a stale worker can neither send nor write a verdict; here it stands still just before its first byte."""
    deadlines = {"connect": "1s", "request": "1s", "recovery": "2m"}
    home.configure({"deploys": service.url}, {"deploy": write_action(deadlines=deadlines)})
    async with home.process("stop", "send.before_first_byte") as api:
        call = asyncio.create_task(submit_in_the_dark(api, "deploy", "call_1", name="web"))
        process = psutil.Process(api.process.pid)
        async with asyncio.timeout(40):
            while process.status() != psutil.STATUS_STOPPED:
                await asyncio.sleep(0.02)
        # Its lease must really run out, and does so by the machine's clock: nothing else in the world tells when.
        await asyncio.sleep(1.0 + 1.0 + LEASE_MARGIN_SECONDS + 0.2)
        assert sends(service.ledger.entries) == []
        api.send(signal.SIGCONT)
        await call
        found = await api.by_key("call_1")
        assert found is not None
        settled = await api.settled(found["operation_id"])
        api.send(signal.SIGTERM)
        assert await api.ended() == 0
    first, second = settled["attempts"]
    assert (first["standing"], second["standing"]) == ("unsent", "settled")
    assert "lease" in first["observation"]
    assert settled["outcome"] == "success"
    assert len(sends(service.ledger.entries)) == 1
    assert claims_hold([settled], service.ledger.entries) == []
    agree(home)


def test_the_start_script_of_these_tests_is_no_part_of_the_product() -> None:
    """Nothing that ships may be told by its environment to kill itself."""
    shipped = [path for folder in ("gateway", "adapters", "audit") for path in Path(folder).rglob("*.py")]
    assert len(shipped) > 50
    assert [path for path in shipped if "SIGKILL" in path.read_text() and "demo" not in path.parts] == []
