"""Blobs: written and read in bounded memory, and whatever is done to their files is noticed."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from audit.blobs import (
    BLOBS,
    CHUNK_BYTES,
    SEALED_CHUNK_BYTES,
    BadReference,
    BlobDamaged,
    BlobMissing,
    BlobRef,
    BlobWriter,
    blob_names,
    drop_blobs,
    hash_fits,
    read_blob,
    sweep_partial,
    write_blob,
)
from audit.disk import DiskDirectory
from audit.memory import MemoryDirectory
from tests.unit.audit.logs import entropy

SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 7]


def content(size: int) -> bytes:
    return bytes(index * index % 251 for index in range(min(size, 9973))).ljust(size, b"\xa5")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("piece", [1000, CHUNK_BYTES, 10 * CHUNK_BYTES])
def test_what_is_written_is_read_back(size: int, piece: int) -> None:
    directory = MemoryDirectory()
    data = content(size)
    ref = write_blob(directory, (data[at : at + piece] for at in range(0, size, piece)), entropy("blob"))
    assert b"".join(read_blob(directory, ref)) == data
    assert directory.size(ref.path) == ref.sealed_size
    assert blob_names(directory) == [ref.name]
    assert hash_fits(directory, ref.name)
    assert BlobRef.from_json(ref.to_json()) == ref


def test_equal_contents_have_different_names_and_keys() -> None:
    directory, draw = MemoryDirectory(), entropy("blob")
    first, second = (write_blob(directory, [b"the same"], draw) for _ in range(2))
    assert first.name != second.name
    assert first.key != second.key
    assert repr(first.key) not in repr(first)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "cut at a chunk border": lambda data: data[:SEALED_CHUNK_BYTES],
    "cut by two chunks": lambda data: data[: 2 * SEALED_CHUNK_BYTES],
    "cut inside": lambda data: data[:-1],
    "emptied": lambda data: b"",
    "longer": lambda data: data + b"x",
    "one bit": lambda data: data[:70_000] + bytes([data[70_000] ^ 1]) + data[70_001:],
    "chunks swapped": lambda data: (
        data[SEALED_CHUNK_BYTES : 2 * SEALED_CHUNK_BYTES] + data[:SEALED_CHUNK_BYTES] + data[2 * SEALED_CHUNK_BYTES :]
    ),
    "a chunk doubled": lambda data: data[:SEALED_CHUNK_BYTES] + data,
    "a chunk left out": lambda data: data[:SEALED_CHUNK_BYTES] + data[2 * SEALED_CHUNK_BYTES :],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_file_is_refused_even_under_a_fitting_name(change: Callable[[bytes], bytes]) -> None:
    directory = MemoryDirectory()
    ref = write_blob(directory, [content(3 * CHUNK_BYTES + 7)], entropy("blob"))
    directory.put(ref.path, change(directory.files()[ref.path]))
    assert not hash_fits(directory, ref.name)
    with pytest.raises(BlobDamaged):
        list(read_blob(directory, ref))


def test_chunks_that_only_pretend_to_be_the_end_are_refused() -> None:
    """The reference may be lied about as well: a shorter one must not make a border look like the end."""
    directory = MemoryDirectory()
    ref = write_blob(directory, [content(2 * CHUNK_BYTES)], entropy("blob"))
    cut = directory.files()[ref.path][:SEALED_CHUNK_BYTES]
    lie = BlobRef(sha256(cut).hexdigest(), ref.key, CHUNK_BYTES)
    directory.put(lie.path, cut)
    assert hash_fits(directory, lie.name)
    with pytest.raises(BlobDamaged, match="chunk 0"):
        list(read_blob(directory, lie))


def test_another_text_under_the_same_key_is_refused_by_its_name() -> None:
    directory = MemoryDirectory()
    ref = write_blob(directory, [b"the truth"], entropy("blob"))
    keys = iter([ref.key, bytes(16)])
    other = write_blob(directory, [b"the lie!!"], lambda _length: next(keys))
    directory.put(ref.path, directory.files()[other.path])
    with pytest.raises(BlobDamaged, match="another file"):
        list(read_blob(directory, ref))


def test_a_missing_or_swapped_blob_is_told() -> None:
    directory, draw = MemoryDirectory(), entropy("blob")
    first, second = (write_blob(directory, [text], draw) for text in (b"a", b"b"))
    directory.put(first.path, directory.files()[second.path])
    with pytest.raises(BlobDamaged):
        list(read_blob(directory, first))
    directory.remove(first.path)
    with pytest.raises(BlobMissing):
        list(read_blob(directory, first))


def test_memory_stays_small_whatever_the_size(tmp_path: Path) -> None:
    directory = DiskDirectory(tmp_path)
    piece, count = bytes(range(256)) * 4096, 20

    def pieces() -> Iterator[bytes]:
        for _ in range(count):
            yield piece

    tracemalloc.start()
    ref = write_blob(directory, pieces(), entropy("large"))
    read = sum(len(chunk) for chunk in read_blob(directory, ref))
    fits = hash_fits(directory, ref.name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (read, fits) == (count * len(piece), True)
    assert read == 20 * 1024 * 1024
    assert peak < 6 * 1024 * 1024
    assert (tmp_path / ref.path).stat().st_mode & 0o777 == 0o600


def test_a_crash_at_any_step_leaves_no_blob_or_a_whole_one() -> None:
    for step in range(30):
        directory = MemoryDirectory()
        left = step

        def crash(_operation: str, _name: str, _length: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

        directory.hook = crash
        ref = None
        with suppress(KeyboardInterrupt):
            ref = write_blob(directory, [content(3 * CHUNK_BYTES)], entropy("blob"))
        after = directory.after_kill() if ref is None else directory.after_power_loss(lambda _most: 0)
        assert all(hash_fits(after, name) for name in blob_names(after))
        assert ref is None or b"".join(read_blob(after, ref)) == content(3 * CHUNK_BYTES)
        sweep_partial(after)
        assert [name for name in after.files() if name.endswith(".tmp")] == []


def test_a_full_disk_leaves_nothing_behind() -> None:
    directory = MemoryDirectory()
    room = 2 * CHUNK_BYTES

    def full(operation: str, _name: str, length: int) -> int | None:
        nonlocal room
        if operation != "append":
            return None
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        room -= min(room, length)
        return max(1, min(room, length))

    directory.hook = full
    with pytest.raises(OSError, match="No space"):
        write_blob(directory, [content(4 * CHUNK_BYTES)], entropy("blob"))
    assert directory.files() == {}


def test_a_writer_that_is_left_without_a_finish_leaves_nothing() -> None:
    directory = MemoryDirectory()
    with BlobWriter(directory, entropy("blob")) as writer:
        writer.write(b"half")
    assert directory.files() == {}
    with pytest.raises(ValueError, match="finished"):
        writer.finish()


def test_blobs_are_dropped_by_name_and_twice_is_once() -> None:
    directory, draw = MemoryDirectory(), entropy("blob")
    first, second = (write_blob(directory, [text], draw) for text in (b"a", b"b"))
    assert drop_blobs(directory, [first.name]) == 1
    assert drop_blobs(directory, [first.name]) == 0
    assert blob_names(directory) == [second.name]
    assert blob_names(directory.after_power_loss(lambda _most: 0)) == [second.name]
    with pytest.raises(BadReference):
        drop_blobs(directory, ["../segments/0000000000000000.agl"])
    assert list(directory.files()) == [f"{BLOBS}/{second.name}"]


def test_only_references_are_taken_for_references() -> None:
    good = write_blob(MemoryDirectory(), [b"x"], entropy("blob")).to_json()
    for change in ({"sha256": "A" * 64}, {"sha256": 1}, {"key": "%"}, {"key": "AA=="}, {"size": -1}, {"size": True}):
        with pytest.raises(BadReference):
            BlobRef.from_json(good | change)
    with pytest.raises(BadReference):
        BlobRef.from_json([good])
    assert BlobRef.from_json(good | {"name": "output"}).to_json() == good
