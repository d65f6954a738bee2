"""A hundred thousand stored operations, ten thousand of them open: a start does bounded work and answers soon."""

import sqlite3
from collections import Counter
from dataclasses import replace
from typing import Final

import orjson
import pytest

from fixtures.service.server import DeployService
from gateway.core.ids import format_id
from gateway.model.operation import Operation, State
from gateway.office import Paths
from gateway.store import statements
from gateway.store.cipher import DataKeyCipher, load_key
from gateway.store.codec import CHAIN_COLUMNS, ENCODED_COLUMNS, OPERATION_COLUMNS, decode, encode
from gateway.store.effects import payload_context
from gateway.store.port import PayloadKind
from gateway.store.sqlite import link_to
from gateway.store.writer import COUNTS
from tests.scenario.kit import Home, effects, write_action
from tests.scenario.test_late_delivery import NEVER_ABSENT

SETTLED: Final = 90_000
OPEN: Final = 10_000
FAR_MS: Final = 10_000_000
COMMIT_SHARE_MIN: Final = 8
"""At least so many take-overs share a transaction. How many gather depends on what else the machine does (about
a hundred on a quiet one, twenty on a busy one); what must never be is a transaction for each."""


class Counting:
    """Counts the transactions of a run."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()

    def hit(self, name: str) -> None:
        self.hits[name] += 1


def named(template: Operation, number: int) -> Operation:
    """One more like it, with names of its own."""
    moment = template.created_ms.to_bytes(6, "big")
    raw = moment + b"\x70\x00" + b"\x80\x00" + number.to_bytes(6, "big")
    name = f"{number:064x}"
    return replace(template, id=format_id(raw), fingerprint=name, next_ms=template.created_ms + FAR_MS)


def fill(home: Home, operation_id: str) -> int:
    """Copy one unresolved operation into the stopped gateway's database, as if there had been so many; its version."""
    cipher = DataKeyCipher(load_key(Paths(home.data).data_key, None, "unused"), bytes)
    driver = sqlite3.connect(home.data / "gateway.db", isolation_level=None)
    columns = ", ".join(column.name for column in OPERATION_COLUMNS)
    stored = driver.execute(f"select {columns} from operations").fetchone()
    template, chain = decode(stored), stored[-len(CHAIN_COLUMNS) :]
    payloads = {
        PayloadKind(kind): cipher.decrypt(body, payload_context(operation_id, PayloadKind(kind)))
        for kind, body in driver.execute("select kind, body from payloads")
    }
    link, rows, bodies = link_to(driver), [], []
    ended = replace(template, state=State.SUCCEEDED, final_ms=template.created_ms, next_ms=None, key=None)
    over = dict(zip(ENCODED_COLUMNS, encode(ended), strict=True))
    for number in range(1, SETTLED + OPEN + 1):
        if number > OPEN:
            # Their documents are never read here, so that their columns alone need names of their own.
            row = over | {"id": number.to_bytes(16, "big"), "fingerprint_hash": number.to_bytes(16, "big")}
            rows.append((*row.values(), *chain))
            continue
        one = named(template, number)
        rows.append((*encode(one), *chain))
        for kind, body in payloads.items():
            bodies.append((rows[-1][0], kind.value, cipher.encrypt(body, payload_context(one.id, kind))))
    link.begin()
    link.write(statements.INSERT_OPERATION, rows)
    link.write(statements.UPSERT_PAYLOAD, bodies)
    counts = orjson.dumps({"unresolved": OPEN + 1, "succeeded": SETTLED})
    driver.execute("update meta set value = ? where name = ?", (counts, COUNTS))
    link.commit()
    link.close()
    return template.version


@pytest.mark.timeout(180)
async def test_a_start_with_ten_thousand_open_among_a_hundred_thousand_does_bounded_work(
    home: Home, service: DeployService
) -> None:
    """L5: what is settled costs nothing at a start, and taking over what is open shares its transactions."""
    deadlines = {"connect": "300ms", "request": "300ms", "recovery": "900ms"}
    limits = {"in_flight_per_caller_max": 20_000, "in_flight_max": 20_000}
    actions = {"deploy": write_action(reconcile=NEVER_ABSENT, deadlines=deadlines)}
    home.configure({"deploys": service.url}, actions, limits=limits)
    service.faults.add("read_then_drop")
    async with home.running() as api:
        begun = await api.begin("deploy", name="web")
        await api.until_state(begun["operation_id"], "unresolved")
    version = fill(home, begun["operation_id"])
    counting = Counting()

    async with home.running(points=counting) as api:
        commits = counting.hits["store.committed"]
        assert len(api.running.assembly.recovery) == OPEN + 1
        new = await api.begin("deploy", name="new", wait=10)
        readiness = await api.client.call("GET", "/readyz")

    assert commits <= OPEN / COMMIT_SHARE_MIN
    assert readiness.status == 200
    assert new["outcome"] == "success"
    assert effects(service.ledger.entries) == 1
    # Each of them once. The one that was copied is due at once, so it may have gone on.
    taken_over = home.query("select count(*) from operations where version = ? and state = 'unresolved'", version + 1)
    assert taken_over[0][0] >= OPEN
