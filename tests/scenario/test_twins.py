"""Twins: two faults that nobody at the connection can tell apart, of which one carried the request out.

Before a look both are `unknown` with the same observation; after it each has the outcome that the ledger shows. Every
pair of the fault alphabet is run, or stands below with the reason why it cannot be a question of evidence.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from fixtures.alphabet import ALPHABET
from fixtures.certificates import make_certificates, server_context
from fixtures.proxy.server import FaultProxy
from fixtures.service.options import ServiceOptions
from fixtures.service.server import DeployService
from tests.scenario.kit import ACCEPTED, FINAL, LOOKUP, Document, Home, Inside, effects, write_action

PAIRS: Final = sorted({tuple(sorted((fault.name, fault.twin))) for fault in ALPHABET.values() if fault.twin})

NOT_A_QUESTION_OF_EVIDENCE: Final[Mapping[str, str]] = {
    "early_answer_with_effect": "a whole 201 after every byte of a small request left is the service's own word;"
    " tests/unit/adapters holds the large request, where an early answer is a contradiction",
    "commit_then_body_echoes_credential": "an honest 201 in its status and state; what it echoes is masked (S19)",
    "duplicate_by_intermediary": "the service itself repeats behind a 2xx; invariant I2 leaves that to it",
    "stray_answer_then_commit": "needs a second request on the connection, and no write shares one; see below",
}
"""One name of each pair that is left out. A lie of the look-up is its own twin and no attempt; see `LIES`."""

LIES: Final = "lookup"
"""Family of faults that strike looks. A service whose own record lies cannot be caught by asking it."""

RUN: Final = [
    pair for pair in PAIRS if not (set(pair) & set(NOT_A_QUESTION_OF_EVIDENCE)) and ALPHABET[pair[0]].family != LIES
]
ACKNOWLEDGED: Final = frozenset(f"read_then_accepted_{way}" for way in ("head_hang", "dead_handle", "foreign_handle"))
"""The service said that it took it and named a place or an id, then knows nothing of it. It may be lost as well as done
and cleared away, so it stays unknown, whatever the look-up fails to find."""
QUICK: Final[Mapping[str, Document]] = {
    "body_huge": {"bytes": 300_000},
    "body_bomb": {"bytes": 3_000_000},
    "oversize_header": {"bytes": 100_000},
    "interim_flood": {"count": 30_000},
}
"""Smaller than the defaults, as what is shown does not depend on it, or large enough to pass a bound."""
LATE: Final[Document] = {"answer": "drop"}
DEADLINES: Final[Document] = {"connect": "8s", "request": "8s", "recovery": "2m"}
"""Long enough for a hundred handshakes at once on a busy machine; what never left the gateway would be sent again."""
LIMITS: Final[Document] = {
    "rate_per_key_per_second_max": 50_000.0,
    "burst_per_key_max": 50_000,
    "service_concurrency_max": 256,
    "in_flight_per_caller_max": 1000,
}


@dataclass(frozen=True, slots=True)
class Told:
    """One operation under one fault: its document before any look that answers, at its end, and the ledger's word."""

    before: Document
    after: Document
    effects: int


def name_of(fault: str) -> str:
    """As long for every fault as for its twin, so that their requests are equally long."""
    return f"n{sorted(ALPHABET).index(fault):03d}"


def action_for(fault: str) -> Document:
    """An action under which the fault is a question of evidence."""
    family = ALPHABET[fault].family
    more: Document = {"deadlines": DEADLINES}
    more["reconcile"] = {**LOOKUP, "absence": {"settle": DEADLINES["request"]}}
    # Of the standard 409 and 425 mean "not carried out". A service that answers so after all must be declared.
    more |= {"exists": [{"status": 409}, {"status": 425}], "in_flight": None}
    if family == "accepted":
        more["accepted"] = ACCEPTED
    if family in {"body", "framing", "cut"}:
        more["success"] = {"status": "2xx", "path": "state", "equals": "succeeded"}
    if ALPHABET[fault].where == "proxy":
        more["service"] = fault.replace("_", "-")
    return write_action("PUT", **more)


def plan(service: DeployService, fault: str) -> None:
    params = next((params for part, params in QUICK.items() if fault.endswith(part)), {})
    if ALPHABET[fault].family == "late":
        params = LATE
    service.faults.add(fault, match={"method": "PUT", "path": f"/deployments/{name_of(fault)}"}, params=params)


@contextlib.asynccontextmanager
async def staged(home: Home, folder: Path, faults: Sequence[str], *, tls: bool) -> AsyncIterator["Rehearsal"]:
    """Service, proxies and a gateway with one action for each fault."""
    files = make_certificates(folder / "certificates") if tls else None
    context = server_context(files.server) if files is not None else None
    options = ServiceOptions(hang_seconds_max=60.0)
    async with contextlib.AsyncExitStack() as stack:
        service = await stack.enter_async_context(DeployService(folder / "ledger", options=options, tls=context))

        def at(port: int) -> Document:
            if files is None:
                return {"base_url": f"http://127.0.0.1:{port}", "allow_private": True}
            return {"base_url": f"https://localhost:{port}", "allow_private": True, "ca_file": str(files.ca)}

        services, proxies = {"deploys": at(service.port)}, []
        for fault in faults:
            if ALPHABET[fault].where == "proxy":
                proxy = await stack.enter_async_context(FaultProxy(f"127.0.0.1:{service.port}"))
                proxy.toxics.add(fault.removeprefix("proxy_"), times=1)
                services[fault.replace("_", "-")] = at(int(proxy.address.rpartition(":")[2]))
                proxies.append(proxy)
            else:
                plan(service, fault)
        home.configure(services, {f"deploy.{fault}": action_for(fault) for fault in faults}, limits=LIMITS)
        api = await stack.enter_async_context(home.running())
        yield Rehearsal(api, service, proxies)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Runs every fault at once and keeps what was told of each."""

    api: Inside
    service: DeployService
    proxies: Sequence[FaultProxy]

    async def run(self, faults: Sequence[str]) -> dict[str, Told]:
        self.service.faults.add("lookup_unavailable", times=None)
        befores = await asyncio.gather(*(self._begin(fault) for fault in faults))
        self.service.faults.remove()
        # What is held up on its way arrives now, or is lost.
        await self.service.release()
        for proxy in self.proxies:
            proxy.release()
        # Whoever backed off while nothing could be seen looks now.
        looks = (f"/v1/operations/{document['operation_id']}/reconcile" for document in befores)
        await asyncio.gather(*(self.api.client.call("POST", path, wait_seconds=120) for path in looks))
        afters = await asyncio.gather(*(self._end(fault, item) for fault, item in zip(faults, befores, strict=True)))
        entries = self.service.ledger.entries
        return {
            fault: Told(before, after, effects(entries, after["operation_id"]))
            for fault, before, after in zip(faults, befores, afters, strict=True)
        }

    async def _begin(self, fault: str) -> Document:
        begun = await self.api.begin(f"deploy.{fault}", name=name_of(fault))
        return await self.api.until_state(begun["operation_id"], "in_doubt", "accepted", *FINAL, seconds=45)

    async def _end(self, fault: str, before: Document) -> Document:
        if fault in ACKNOWLEDGED:
            return await self.api.until(before["operation_id"], is_sought_in_vain, seconds=45)
        return await self.api.settled(before["operation_id"], seconds=45)


def is_sought_in_vain(document: Document) -> bool:
    return any(item["source"] == "probe" and item["finding"] == "absent" for item in document["evidence"])


def observation(told: Told, fault: str) -> list[Any]:
    """What the gateway says it saw of the attempt, with nothing in it that names this very operation."""
    document = told.before
    attempts = [
        {name: value for name, value in attempt.items() if not name.endswith("_at")} for attempt in document["attempts"]
    ]
    evidence = [(item["finding"], item["detail"]) for item in document["evidence"] if item["source"] == "attempt"]
    seen = [document["outcome"], document["executed"], document["transport_observation"], attempts, evidence]
    return [re.sub(rf"{document['operation_id']}|{name_of(fault)}|{fault.replace('_', '-')}|\d{{4,5}}", "*", str(seen))]


def wrong_of(one: str, other: str, told: Mapping[str, Told]) -> list[str]:
    """Everything about a pair that is not as it must be."""
    wrong = []
    if observation(told[one], one) != observation(told[other], other):
        wrong.append(f"told apart: {observation(told[one], one)} {observation(told[other], other)}")
    for fault in (one, other):
        seen, did = told[fault], ALPHABET[fault].effect in {"done", "later"}
        if (seen.before["outcome"], seen.before["executed"]) != ("unknown", "unknown"):
            wrong.append(f"{fault} was {seen.before['outcome']} before any look")
        if seen.effects != did:
            wrong.append(f"{fault} had {seen.effects} effects")
        expected = ("success", "yes") if did else ("error", "no")
        if fault in ACKNOWLEDGED:
            expected = ("unknown", "unknown")
        if (seen.after["outcome"], seen.after["executed"]) != expected:
            wrong.append(f"{fault} ended as {seen.after['outcome']}, executed {seen.after['executed']}")
        if len(seen.after["attempts"]) != 1:
            wrong.append(f"{fault} was sent {len(seen.after['attempts'])} times")
    return wrong


@pytest.mark.timeout(400)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_twins_are_unknown_and_alike_before_a_look_and_differ_as_the_ledger_does_after_it(
    tls: bool, home: Home, tmp_path: Path
) -> None:
    """Invariant I5: one observation and `unknown` for both of a pair, then different outcomes after the look."""
    # The proxy's twins act when a whole request has passed, which nobody between the ends of TLS can see.
    pairs = [pair for pair in RUN if not tls or ALPHABET[pair[0]].where == "service"]
    faults = [fault for pair in pairs for fault in pair]
    async with staged(home, tmp_path, faults, tls=tls) as rehearsal:
        told = await rehearsal.run(faults)

    wrong = {f"{one} / {other}": found for one, other in pairs if (found := wrong_of(one, other, told))}
    assert wrong == {}


def test_every_pair_of_the_alphabet_is_run_or_left_out_for_a_reason() -> None:
    run = {fault for pair in RUN for fault in pair}
    for one, other in PAIRS:
        reasons = [NOT_A_QUESTION_OF_EVIDENCE.get(fault) for fault in (one, other)]
        is_lie = ALPHABET[one].family == LIES
        assert (one in run) + any(reasons) + is_lie == 1, (one, other)
    assert set(NOT_A_QUESTION_OF_EVIDENCE) <= set(ALPHABET)
    assert len(RUN) > 40


async def test_a_stray_answer_is_never_taken_for_that_of_the_next_call(home: Home, service: DeployService) -> None:
    """The pair `stray_answer_*`: on a kept connection the next call would be "answered" without being carried out."""
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    service.faults.add("stray_answer_then_deaf", times=None)
    async with home.running() as api:
        first = await api.begin("deploy", name="one", wait=10)
        second = await api.begin("deploy", name="two", wait=10)
    for document in (first, second):
        assert document["outcome"] == "success"
        assert effects(service.ledger.entries, document["operation_id"]) == 1
