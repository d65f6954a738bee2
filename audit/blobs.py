"""Blobs: data too large for an entry, in encrypted files beside the segments; the record that names one has its key."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from audit.disk import AppendFile, Directory, LogError, append_all
from audit.keyring import Entropy, KeyProblem, decode_key, encode_key
from audit.record import TAG_BYTES

BLOBS = "blobs"
MEMBER = "blobs"
"""The member of a record, at its top, that lists the blobs it names."""
CHUNK_BYTES = 64 * 1024
SEALED_CHUNK_BYTES = CHUNK_BYTES + TAG_BYTES
MAX_BLOB_BYTES = 1 << 30
"""Bytes of a file at most: a sparse file without end must not keep a reader for ever."""
KEY_BYTES = 32
_CONTEXT = b"agw/blob/1"
_NAME = re.compile(r"[0-9a-f]{64}")
_PARTIAL = re.compile(r"[0-9a-f]{32}\.tmp")


class BlobMissing(LogError):
    """The file of a blob is not there."""


class BlobDamaged(LogError):
    """The file is not what the record names: cut, reordered, replaced or changed."""


class BadReference(ValueError):
    """Something in the place of a reference that does not name a blob."""


@dataclass(frozen=True, slots=True)
class BlobRef:
    """What a record says of a blob. `name`: SHA-256 of the file in hex; `size`: bytes of the plaintext."""

    name: str
    key: bytes = field(repr=False)
    size: int

    @property
    def path(self) -> str:
        return f"{BLOBS}/{self.name}"

    @property
    def sealed_size(self) -> int:
        """Bytes of the file."""
        return self.size + TAG_BYTES * max(1, -(-self.size // CHUNK_BYTES))

    def to_json(self) -> dict[str, Any]:
        """The reference for the `blobs` member of a record; where its content is personal, box that member."""
        return {"sha256": self.name, "key": encode_key(self.key), "size": self.size}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read what `to_json` made; other members are passed over. Raises BadReference."""
        if not isinstance(value, dict):
            raise BadReference("a reference to a blob must be an object")
        name, key, size = value.get("sha256"), value.get("key"), value.get("size")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(key, str):
            raise BadReference("a reference needs the SHA-256 of a file and its key")
        if type(size) is not int or size < 0:
            raise BadReference("a reference needs the size of what it names")
        try:
            raw = decode_key(key)
        except KeyProblem as error:
            raise BadReference(str(error)) from error
        if len(raw) != KEY_BYTES:
            raise BadReference("the key of a blob has 32 bytes")
        ref = cls(name, raw, size)
        if ref.sealed_size > MAX_BLOB_BYTES:
            raise BadReference(
                f"a reference to a file of {ref.sealed_size} bytes: no blob has more than {MAX_BLOB_BYTES}"
            )
        return ref


class BlobWriter:
    """Writes one blob piece by piece, holding no more than a chunk; as a context it leaves nothing without `finish`."""

    def __init__(self, directory: Directory, entropy: Entropy) -> None:
        self._directory = directory
        self._key = entropy(KEY_BYTES)
        self._cipher = AESGCM(self._key)
        self._partial = f"{BLOBS}/{entropy(16).hex()}.tmp"
        self._digest = sha256()
        self._held = bytearray()
        self._count = self._size = 0
        self._placed = False
        self._file: AppendFile | None = directory.open(self._partial, fresh=True)

    def write(self, data: bytes) -> None:
        """Add data of any length. Raises OSError if the disk refuses, or the file would become larger than any may."""
        self._held += data
        self._size += len(data)
        # The last chunk carries a flag, so a full one waits until it is known that more follows.
        while len(self._held) > CHUNK_BYTES:
            self._put(bytes(self._held[:CHUNK_BYTES]), last=False)
            del self._held[:CHUNK_BYTES]

    def finish(self) -> BlobRef:
        """Put the file in its place; the reference may be recorded once this has returned."""
        file = self._opened()
        self._put(bytes(self._held), last=True)
        file.sync()
        self._close()
        ref = BlobRef(self._digest.hexdigest(), self._key, self._size)
        self._directory.rename(self._partial, ref.path)
        self._placed = True
        self._directory.sync_folder(BLOBS)
        return ref

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._close()
        if not self._placed:
            try:
                self._directory.unlink(self._partial)
            except OSError:
                # `sweep_partial` takes it away at the next start.
                return

    def _put(self, chunk: bytes, *, last: bool) -> None:
        if self._count * SEALED_CHUNK_BYTES + len(chunk) + TAG_BYTES > MAX_BLOB_BYTES:
            raise OSError(errno.EFBIG, f"a blob has at most {MAX_BLOB_BYTES} bytes", self._partial)
        sealed = self._cipher.encrypt(_nonce(self._count, last=last), chunk, _CONTEXT)
        append_all(self._opened(), sealed)
        self._digest.update(sealed)
        self._count += 1

    def _opened(self) -> AppendFile:
        if self._file is None:
            raise ValueError("this blob is finished")
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def write_blob(directory: Directory, pieces: Iterable[bytes], entropy: Entropy) -> BlobRef:
    """Write a blob from pieces; return its reference when the file is durable. Raises OSError."""
    with BlobWriter(directory, entropy) as writer:
        for piece in pieces:
            writer.write(piece)
        return writer.finish()


def read_blob(directory: Directory, ref: BlobRef) -> Iterator[bytes]:
    """The plaintext, chunk by chunk, each one checked before it is given out.

    Only when the iteration has ended without an error is it certain that nothing was cut off or replaced.

    Raises:
        BlobMissing: there is no such file.
        BlobDamaged: it is not the file that the record names.
        OSError: it could not be read.
    """
    digest, cipher = sha256(), AESGCM(ref.key)
    chunks = max(1, -(-ref.size // CHUNK_BYTES))
    for index in range(chunks):
        last = index == chunks - 1
        wanted = ref.sealed_size - index * SEALED_CHUNK_BYTES if last else SEALED_CHUNK_BYTES
        sealed = _read(directory, ref, index * SEALED_CHUNK_BYTES, wanted)
        digest.update(sealed)
        try:
            yield cipher.decrypt(_nonce(index, last=last), sealed, _CONTEXT)
        except (InvalidTag, ValueError) as error:
            raise BlobDamaged(f"blob {ref.name[:16]}: chunk {index} was changed, moved or cut") from error
    if _read(directory, ref, ref.sealed_size, 1):
        raise BlobDamaged(f"blob {ref.name[:16]} goes on behind its end")
    if digest.hexdigest() != ref.name:
        # Whoever may read the record has the key and could make other chunks; the name they cannot keep.
        raise BlobDamaged(f"blob {ref.name[:16]} is another file than the one that was recorded")


def blob_names(directory: Directory) -> list[str]:
    """Names of the blobs that are there; files in the making and strangers are none."""
    return [name for name in directory.names(BLOBS) if _NAME.fullmatch(name)]


def hash_fits(directory: Directory, name: str) -> bool:
    """Whether a blob's file has the hash it is named by, and ends where it must; needs no key. Raises OSError."""
    digest, offset = sha256(), 0
    while piece := directory.read(f"{BLOBS}/{name}", offset, 16 * CHUNK_BYTES):
        if offset + len(piece) > MAX_BLOB_BYTES:
            return False
        digest.update(piece)
        offset += len(piece)
    return digest.hexdigest() == name


def sweep_partial(directory: Directory) -> int:
    """Take away files that a crash left in the making; nobody may be writing blobs. Returns how many."""
    partial = [name for name in directory.names(BLOBS) if _PARTIAL.fullmatch(name)]
    for name in partial:
        directory.unlink(f"{BLOBS}/{name}")
    return len(partial)


def drop_blobs(directory: Directory, names: Iterable[str]) -> int:
    """Delete blobs whose records are gone or erased; those that are gone already do not matter. Returns how many."""
    dropped = 0
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadReference(f"{name!r} is no blob's name")
        try:
            directory.unlink(f"{BLOBS}/{name}")
        except FileNotFoundError:
            continue
        dropped += 1
    if dropped:
        directory.sync_folder(BLOBS)
    return dropped


def _read(directory: Directory, ref: BlobRef, offset: int, length: int) -> bytes:
    try:
        return directory.read(ref.path, offset, length)
    except FileNotFoundError as error:
        raise BlobMissing(f"blob {ref.name[:16]} is not there") from error


def _nonce(index: int, *, last: bool) -> bytes:
    """Chunks count up and the last one says so: none can be left out, moved or cut off (the STREAM construction)."""
    return index.to_bytes(11, "big") + bytes([last])
