"""What can be seen of a store's file while somebody writes it, and what is said where there is none."""

from hashlib import sha256
from pathlib import Path

import pytest

from gateway.store.peek import Peek
from gateway.store.port import Refused, StoredSubject
from gateway.store.threaded import Limits, Ports, SqlStore
from tests.unit.store.kit import START_MS, attach, cipher, record

ANN = StoredSubject(sha256(b"ann").digest(), sha256(b"tag").digest(), b"w" * 60)


async def test_a_look_sees_what_is_committed_and_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "gateway.db"
    ports = Ports(cipher(), lambda: START_MS, lambda: 0.0)
    store = await SqlStore.open(f"sqlite:///{path}", ports, Limits(ballast_bytes=4096, reserve_bytes=8192))
    try:
        await attach(store)
        await store.put_subject(ANN, ())
        with Peek.open(path) as peek:
            assert peek.subject_of_tag(ANN.tag) == ANN
            assert (peek.meta("name"), peek.subject_of_tag(b"x" * 32)) == (None, None)
            await store.put_meta("name", b"value", ())
            await store.erase_subject(ANN.handle, "dpo", [record(None, "erased")])
            assert (peek.meta("name"), peek.subject_of_tag(ANN.tag)) == (b"value", None)
    finally:
        await store.close()
    with Peek.open(path) as peek:
        assert peek.meta("name") == b"value"


def test_no_store_is_refused_and_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(Refused), Peek.open(tmp_path / "gateway.db") as peek:
        peek.meta("name")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "gateway.db").write_bytes(b"no database" * 1000)
    with pytest.raises(Refused), Peek.open(tmp_path / "gateway.db") as peek:
        peek.meta("name")
