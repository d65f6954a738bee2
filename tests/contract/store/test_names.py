"""Keys, credentials, people and named values."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import orjson
import pytest

from gateway.model.principal import PrincipalKind
from gateway.model.problem import BrokenInvariantError
from gateway.store.port import (
    StoredCredential,
    StoredKey,
    StoredSubject,
    StoreUnknown,
    Unavailable,
)
from tests.contract.store.places import Place, bodies
from tests.unit.store.kit import (
    START_MS,
    PlainSealer,
    attach,
    record,
)


async def test_keys_are_listed_and_revoked_once(store: Any) -> None:
    one = StoredKey("k1", b"h" * 32, PrincipalKind.CALLER, "agent-a", "ann", START_MS)
    two = StoredKey("k2", b"i" * 32, PrincipalKind.PERSON, "ann", "ann", START_MS + 1, START_MS + 2)
    await store.put_key(two, [record(None, "key created")])
    await store.put_key(one, ())
    assert list(await store.keys()) == [one, two]
    assert await store.revoke_key("k1", START_MS + 9, [record(None, "key revoked")])
    assert not await store.revoke_key("k1", START_MS + 10, [record(None, "not said")])
    assert not await store.revoke_key("none", START_MS + 10, ())
    assert list(await store.keys()) == [replace(one, revoked_ms=START_MS + 9), two]
    assert [body["ev"] for body in await bodies(store)] == ["key created", "key revoked"]


async def test_credentials_are_replaced_and_removed(store: Any) -> None:
    one = StoredCredential("deploy", b"\x01\x02", {"kind": "bearer"}, START_MS)
    await store.put_credential(one, ())
    await store.put_credential(replace(one, ciphertext=b"\x03"), ())
    assert list(await store.credentials()) == [replace(one, ciphertext=b"\x03")]
    assert await store.remove_credential("deploy", ())
    assert not await store.remove_credential("deploy", ())
    assert list(await store.credentials()) == []


async def test_credential_put_again_in_the_batch_of_its_removal_is_there(store: Any) -> None:
    one = StoredCredential("deploy", b"\x01", {}, START_MS)
    await store.put_credential(one, ())
    await asyncio.gather(store.remove_credential("deploy", ()), store.put_credential(one, ()))
    assert list(await store.credentials()) == [one]


def subject(name: str, wrapped: bytes = b"w" * 60) -> StoredSubject:
    return StoredSubject(sha256(name.encode()).digest(), sha256(wrapped).digest(), wrapped)


async def test_a_person_has_one_key_and_its_record_names_it(store: Any) -> None:
    one = subject("ann")
    assert await store.put_subject(one, [record(None, "kept")])
    assert not await store.put_subject(subject("ann", b"x" * 60), [record(None, "not said")])
    assert await store.subject(one.handle) == await store.subject_of_tag(one.tag) == one
    assert await store.subject(b"h" * 32) is None
    assert [body["ev"] for body in await bodies(store)] == ["kept"]


async def test_an_erased_key_is_gone_and_the_log_says_so_under_a_seal_in_the_same_transaction(store: Any) -> None:
    one, two = subject("ann"), subject("bob", b"b" * 60)
    await store.put_subject(one, ())
    await store.put_subject(two, ())
    assert await store.erase_subject(one.handle, "operator", [record(None, "erased")]) == one.tag
    assert await store.erase_subject(one.handle, "operator", [record(None, "not said")]) is None
    assert await store.subject(one.handle) is None
    assert await store.subject(two.handle) == two
    frames = [orjson.loads(item.frame) for item in await store.tail(100)]
    assert [frame["kind"] for frame in frames][-3:] == ["data", "erasure", "seal"]
    assert frames[-2]["body"] == {"tag": one.tag.hex(), "by": "operator"}


async def test_who_comes_back_gets_a_new_key_even_in_the_batch_of_the_erasure(store: Any) -> None:
    old, new = subject("ann"), subject("ann", b"x" * 60)
    await store.put_subject(old, ())
    erased, put = await asyncio.gather(
        store.erase_subject(old.handle, "operator", [record(None, "erased")]), store.put_subject(new, ())
    )
    assert (erased, put) == (old.tag, True)
    assert await store.subject(old.handle) == new
    put, erased = await asyncio.gather(
        store.put_subject(subject("cat", b"c" * 60), ()),
        store.erase_subject(subject("cat").handle, "operator", [record(None, "erased")]),
    )
    assert (erased, put) == (subject("cat", b"c" * 60).tag, True)
    assert await store.subject(subject("cat").handle) is None


async def test_nothing_is_erased_that_the_log_could_not_say(store: Any) -> None:
    one = subject("ann")
    await store.put_subject(one, ())
    for by, said in (("operator", []), ("x" * 256, [record(None, "erased")])):
        with pytest.raises(BrokenInvariantError):
            await store.erase_subject(one.handle, by, said)
    await store.close_log()
    with pytest.raises(Unavailable):
        await store.erase_subject(one.handle, "operator", [record(None, "erased")])
    assert await store.subject(one.handle) == one


async def test_a_change_of_the_log_s_key_and_what_is_kept_of_it_are_one_transaction(place: Place) -> None:
    store, sealer = await place.open(attached=False), PlainSealer()
    await attach(store, sealer)

    def work(now_ms: int) -> tuple[Sequence[Any], dict[str, bytes]]:
        return [*sealer.seal(now_ms), *sealer.start(now_ms)], {"log_keys": b"second"}

    assert await store.rekey(work, [record(None, "changed")])
    assert await store.meta("log_keys") == b"second"
    frames = [orjson.loads(item.frame) for item in await store.tail(100)]
    assert [frame["kind"] for frame in frames] == ["open", "data", "seal", "open"]
    assert [body["ev"] for body in await bodies(store)] == ["changed"]
    # Two that meet in one transaction: the later one is turned away, whole. In two, both are made.
    said, not_said = [record(None, "once more")], [record(None, "and again")]
    first, second = await asyncio.gather(store.rekey(work, said), store.rekey(work, not_said))
    told = [body["ev"] for body in await bodies(store)]
    assert (first, second) == (True, told == ["changed", "once more", "and again"])
    opened = [item for item in await store.tail(100) if b'"open"' in item.frame]
    assert len(opened) == 1 + len(told)
    with pytest.raises(BrokenInvariantError):
        await store.rekey(work, [])
    await store.close_log()
    with pytest.raises(Unavailable):
        await store.rekey(work, not_said)


async def test_a_change_of_the_log_s_key_that_fails_ends_the_store_and_leaves_nothing(place: Place, store: Any) -> None:
    def broken(_now_ms: int) -> tuple[Sequence[Any], dict[str, bytes]]:
        raise ValueError("planted")

    with pytest.raises(StoreUnknown):
        await store.rekey(broken, [record(None, "changed")])
    await place.dead(store)
    assert await bodies(await place.open()) == []


async def test_key_put_and_revoked_in_one_batch_ends_as_the_last_call_says(store: Any) -> None:
    one = StoredKey("k1", b"h" * 32, PrincipalKind.CALLER, "agent-a", "ann", START_MS)
    _, revoked = await asyncio.gather(store.put_key(one, ()), store.revoke_key("k1", START_MS + 9, ()))
    assert revoked
    assert list(await store.keys()) == [replace(one, revoked_ms=START_MS + 9)]
    await store.put_key(one, ())
    await asyncio.gather(store.revoke_key("k1", START_MS + 9, ()), store.put_key(one, ()))
    assert list(await store.keys()) == [one]


async def test_named_values_are_set_and_removed(store: Any) -> None:
    await store.put_meta("quarantine", b"\x00", [record(None, "quarantined")])
    assert await store.meta("quarantine") == b"\x00"
    await store.put_meta("quarantine", None, ())
    assert await store.meta("quarantine") is None
    with pytest.raises(BrokenInvariantError):
        await store.put_meta("audit.head", b"", ())
