"""Credentials are encrypted at rest, sent to their own origin only, and found in nothing that comes out."""

from dataclasses import replace

import pytest

from gateway.engine.vault import Vault
from gateway.model.problem import Code, Problem
from gateway.store.port import Refused, StoredCredential, Unavailable
from tests.canary import Canaries
from tests.unit.engine.keeping import CountedChance, DictStore, HandClock

ORIGIN = "https://api.example.com"
KEY = bytes(range(32))


class Bank:
    def __init__(self, key: bytes = KEY, store: DictStore | None = None) -> None:
        self.store = store or DictStore()
        self.clock = HandClock()
        self.vault = Vault(self.store, key, self.clock, CountedChance())

    async def put(self, value: str, name: str = "deploys", kind: str = "bearer", origin: str = ORIGIN) -> None:
        await self.vault.set(name, kind, value, origin=origin, by="ann", header_name=None if kind == "bearer" else "k")

    def refusal(self, name: str, origin: str = ORIGIN) -> Problem:
        with pytest.raises(Problem) as refused:
            self.vault.secret_for(name, origin)
        assert refused.value.code is Code.CREDENTIAL_MISSING
        return refused.value


@pytest.fixture
def bank() -> Bank:
    return Bank()


async def reopened(bank: Bank, key: bytes = KEY) -> Bank:
    again = Bank(key, bank.store)
    await again.vault.load()
    return again


async def test_a_credential_comes_back_for_its_origin_also_after_a_restart(bank: Bank, canary_secret: str) -> None:
    await bank.put(canary_secret)

    for vault in (bank.vault, (await reopened(bank)).vault):
        secret = vault.secret_for("deploys", ORIGIN)
        assert (secret.kind, secret.name, secret.value) == ("bearer", "Authorization", f"Bearer {canary_secret}")
        assert vault.secret_for("deploys", "HTTPS://api.example.com:443") == secret


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://api.example.com", "https://api.example.com:8443", "https://api.example.com.evil.example",
     "https://sub.api.example.com", "https://api.example.com.", "https://api.example.com@evil.example", "", "nonsense"],
)  # fmt: skip
async def test_no_other_origin_gets_it_whatever_the_catalog_says(bank: Bank, origin: str, canaries: Canaries) -> None:
    await bank.put(canaries.mint())

    problem = bank.refusal("deploys", origin)
    canaries.watch_text(f"{problem!r} {problem}")


async def test_there_is_no_second_choice(bank: Bank) -> None:
    await bank.put("token-1")

    assert "billing" in bank.refusal("billing").detail
    bank.refusal("")
    bank.refusal("DEPLOYS")


async def test_nothing_stored_or_shown_holds_the_value(bank: Bank, canaries: Canaries) -> None:
    for kind in ("bearer", "header", "query"):
        await bank.put(canaries.mint(), name=kind, kind=kind)
    pair = f"ann:{canaries.mint(awkward=True)}"
    await bank.vault.set("basic", "basic", pair, origin=ORIGIN, by="ann")

    canaries.watch_text(repr(bank.store.stored_credentials), "rows")
    canaries.watch_text(b"".join(row.ciphertext for row in bank.store.stored_credentials.values()), "ciphertext")
    canaries.watch_text(repr(bank.store.records), "records")
    canaries.watch_text(repr(bank.vault.list()) + repr(bank.vault) + repr(bank.vault._entries), "lists")
    assert [(line.name, line.kind) for line in bank.vault.list()] == [
        (kind, kind) for kind in ("basic", "bearer", "header", "query")
    ]
    assert {record.event for record in bank.store.records} == {"credential_set"}
    assert all(canaries_value in bank.vault.values() for canaries_value in (pair.encode(),))


async def test_the_mask_knows_each_value_before_it_is_stored_and_after_it_was_replaced(bank: Bank) -> None:
    await bank.put("old-token-value")
    bank.store.full = True
    with pytest.raises(Unavailable):
        await bank.put("new-token-value")
    assert bank.vault.mask.apply(b"new-token-value old-token-value") == b"[masked] [masked]"
    assert bank.vault.secret_for("deploys", ORIGIN).value == "Bearer old-token-value"

    bank.store.full = False
    await bank.put("new-token-value")
    assert await bank.vault.remove("deploys", by="ann")
    assert bank.vault.mask.apply(b"new-token-value old-token-value") == b"[masked] [masked]"
    assert bank.vault.mask.apply(KEY.hex().encode()) == b"[masked]"
    bank.refusal("deploys")


async def test_removing_is_durable_and_says_whether_there_was_one(bank: Bank) -> None:
    await bank.put("token-1")
    bank.store.full = True
    with pytest.raises(Unavailable):
        await bank.vault.remove("deploys", by="ann")
    assert bank.vault.secret_for("deploys", ORIGIN).value == "Bearer token-1"

    bank.store.full = False
    assert await bank.vault.remove("deploys", by="ann")
    assert not await bank.vault.remove("deploys", by="ann")
    assert (await reopened(bank)).vault.list() == ()
    assert bank.store.records[-1].event == "credential_removed"


async def test_another_key_is_refused_in_plain_words(bank: Bank, canaries: Canaries) -> None:
    await bank.put(canaries.mint())

    with pytest.raises(Refused, match="under another vault key") as refused:
        await reopened(bank, bytes(32))
    canaries.watch_text(str(refused.value))


def _moved(row: StoredCredential) -> StoredCredential:
    return replace(row, describes={**row.describes, "origin": "https://evil.example"})


@pytest.mark.parametrize(
    "change",
    [
        _moved,
        lambda row: replace(row, name="billing"),
        lambda row: replace(row, describes={**row.describes, "kind": "header"}),
        lambda row: replace(row, describes={**row.describes, "carrier": "X-Other"}),
        lambda row: replace(row, describes={}),
        lambda row: replace(row, ciphertext=row.ciphertext[:-1] + bytes((row.ciphertext[-1] ^ 1,))),
        lambda row: replace(row, ciphertext=row.ciphertext[:12]),
    ],
)
async def test_an_entry_that_somebody_edited_is_never_sent(bank: Bank, change: object) -> None:
    await bank.put("token-1")
    await bank.put("token-2", name="other")
    assert callable(change)
    row = change(bank.store.stored_credentials.pop("deploys"))
    bank.store.stored_credentials[row.name] = row

    again = await reopened(bank)

    for origin in (ORIGIN, "https://evil.example"):
        again.refusal(row.name, origin)
    assert [line.readable for line in again.vault.list() if line.name == row.name] == [False]
    assert again.vault.secret_for("other", ORIGIN).value == "Bearer token-2"


async def test_the_same_value_is_never_encrypted_to_the_same_bytes(bank: Bank) -> None:
    await bank.put("token-1")
    first = bank.store.stored_credentials["deploys"].ciphertext
    await bank.put("token-1")

    assert bank.store.stored_credentials["deploys"].ciphertext != first
