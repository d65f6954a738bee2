"""Reading an answer's body: hashed as received, decoded under our own bound, never more memory than that bound.

A compressed body of half a megabyte can decode to a gigabyte, so decoding stops at the bound. Reading goes on, since
only the end of the body shows that the answer was whole, but no further than a cap on the raw bytes.
"""

import hashlib
import zlib
from typing import Protocol

RAW_CAP_BYTES = 16 * 1024 * 1024
"""Raw bytes read of any answer before it is given up; four times the caller's bound when that is more."""

_MEMBERS_MAX = 100
_GZIP_MAGIC = b"\x1f\x8b"


class _Decoder(Protocol):
    @property
    def complete(self) -> bool:
        """Whether the compressed stream reached its own end."""
        ...

    def feed(self, data: bytes, room: int) -> bytes:
        """At most `room` bytes; raises `zlib.error` for data that cannot be decoded."""
        ...


class _Identity:
    complete = True

    def feed(self, data: bytes, room: int) -> bytes:
        return data[:room]


class _Zlib:
    """gzip (also in several members) and deflate (with or without its zlib wrapper, as services send both)."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._raw: zlib._Decompress | None = None
        self._start = b""
        self._members = 0

    @property
    def complete(self) -> bool:
        return self._raw is not None and self._raw.eof and not self._start

    def feed(self, data: bytes, room: int) -> bytes:
        out: list[bytes] = []
        if self._raw is None:
            self._start += data
            if len(self._start) < 2:
                return b""
            data, self._start = self._start, b""
            self._raw = self._begin(data)
        while True:
            if self._raw.eof:
                data = self._next_member(data)
                if not data:
                    break
            piece = self._raw.decompress(data, room)
            out.append(piece)
            room -= len(piece)
            data = self._raw.unused_data if self._raw.eof else self._raw.unconsumed_tail
            if not data or room <= 0:
                break
        return b"".join(out)

    def _begin(self, data: bytes) -> "zlib._Decompress":
        if self._gzip:
            return zlib.decompressobj(wbits=31)
        wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
        return zlib.decompressobj(wbits=15 if wrapped else -15)

    def _next_member(self, data: bytes) -> bytes:
        """Start the next gzip member; what follows the end and is none is junk."""
        data = self._start + data
        self._start = b""
        if not data:
            return data
        if len(data) == 1 and self._gzip and data == _GZIP_MAGIC[:1]:
            self._start = data
            return b""
        self._members += 1
        if not self._gzip or not data.startswith(_GZIP_MAGIC) or self._members > _MEMBERS_MAX:
            raise zlib.error("bytes after the end of the compressed body")
        self._raw = zlib.decompressobj(wbits=31)
        return data


def _decoder(encoding: str) -> _Decoder | None:
    coding = encoding.strip().lower()
    if coding in {"", "identity"}:
        return _Identity()
    if coding in {"gzip", "x-gzip"}:
        return _Zlib(gzip=True)
    if coding == "deflate":
        return _Zlib(gzip=False)
    return None


class BodySink:
    """Takes the raw chunks of one body."""

    __slots__ = ("_decoder", "_hash", "_kept", "_max", "_raw_max", "_room", "cut", "ended", "raw_bytes", "trouble")

    def __init__(self, encoding: str, body_max_bytes: int) -> None:
        self._decoder = _decoder(encoding)
        self._hash = hashlib.sha256()
        self._kept: list[bytes] = []
        self._max = body_max_bytes
        self._room = body_max_bytes
        self._raw_max = max(RAW_CAP_BYTES, 4 * body_max_bytes)
        self.raw_bytes = 0
        self.cut = False
        self.ended = False
        self.trouble: str | None = None
        if self._decoder is None:
            self.trouble = "the answer's body is in an encoding that was not asked for"
            self._decoder = _Identity()

    def feed(self, chunk: bytes) -> bool:
        """Take one raw chunk; False when the raw cap is passed and reading must stop."""
        self._hash.update(chunk)
        self.raw_bytes += len(chunk)
        if not self.cut:
            self._decode(chunk)
        if self.raw_bytes > self._raw_max:
            self.cut = True
            self.trouble = self.trouble or "the answer's body is longer than the most that is read"
            return False
        return True

    def _decode(self, chunk: bytes) -> None:
        """One byte beyond the bound is asked for: it tells a body that just fits from one that was cut."""
        if self._decoder is None or (self.trouble is not None and not isinstance(self._decoder, _Identity)):
            return
        try:
            piece = self._decoder.feed(chunk, self._room + 1)
        except zlib.error:
            self.trouble = "the answer's body could not be decoded"
            return
        if len(piece) > self._room:
            self.cut = True
            piece = piece[: self._room]
        self._room -= len(piece)
        self._kept.append(piece)

    def end(self) -> None:
        """The framing's own end was reached."""
        self.ended = True
        if self.raw_bytes and not self.cut and self._decoder is not None and not self._decoder.complete:
            self.trouble = self.trouble or "the answer's compressed body ends too early"

    @property
    def complete(self) -> bool:
        """Whole by its framing, and decoded without error as far as it was decoded."""
        return self.ended and self.trouble is None

    @property
    def body(self) -> bytes:
        """What was decoded and kept."""
        return b"".join(self._kept)

    @property
    def sha256(self) -> str:
        """Hash of the raw bytes so far."""
        return self._hash.hexdigest()
