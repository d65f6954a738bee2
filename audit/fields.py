"""Big-endian fields of fixed width or with a length in front: how the bodies of clear entries are laid out."""

from __future__ import annotations


class Malformed(ValueError):
    """Bytes that do not follow FORMAT.md."""


def uint(value: int, width: int) -> bytes:
    """An unsigned number in `width` bytes; Malformed if it does not fit."""
    if not 0 <= value < 1 << (8 * width):
        raise Malformed(f"{value} does not fit {width} bytes")
    return value.to_bytes(width, "big")


def text(value: str, width: int) -> bytes:
    """UTF-8 text behind its length in bytes, itself `width` bytes wide."""
    return blob(value.encode(), width)


def blob(value: bytes, width: int) -> bytes:
    """Bytes behind their length, itself `width` bytes wide."""
    return uint(len(value), width) + value


def exact(value: bytes, length: int) -> bytes:
    """Bytes that must have exactly this length."""
    if len(value) != length:
        raise Malformed(f"expected {length} bytes, got {len(value)}")
    return value


class FieldReader:
    """Reads fields in order and insists that nothing is missing and nothing is left over."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        end = self._at + length
        if end > len(self._data):
            raise Malformed(f"a field of {length} bytes at {self._at} runs past the end at {len(self._data)}")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def uint(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def blob(self, width: int) -> bytes:
        return self.take(self.uint(width))

    def text(self, width: int) -> str:
        try:
            return self.blob(width).decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"text that is not UTF-8: {error.reason}") from error

    def end(self) -> None:
        """Raise Malformed if bytes are left: a longer body is another format, not this one with a tail."""
        if self._at != len(self._data):
            raise Malformed(f"{len(self._data) - self._at} bytes after the last field")
