"""Masks secrets by their value, in every form they are likely to come back in, and fields by their name.

Values of eight bytes and more are found anywhere: as they are, in hex, in base64 at each of its three alignments (both
alphabets), and all of that behind JSON escapes, percent-encoding or HTML entities, two of them deep. Shorter values
would be found by chance all over a text, so they are masked only where they stand alone: between two bytes that are
neither letters nor digits. Keys of the gateway itself are known by their form, for their secret is stored nowhere.

The search costs one look per eight bytes of text. A set holds the eight-byte pieces that a secret can show at those
places; only where one of them appears is anything compared in full. An alternation of all forms in one regular
expression does the same in a hundred times the time.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from gateway.core.decoded import readings, telling_escapes, unfinished
from gateway.core.strictjson import Json

MASKED: Final = "[masked]"
SHORT_BYTES: Final = 8
"""Values below this length are masked only where they stand alone."""

_MASKED: Final = MASKED.encode()
_OWN_KEY_SIGN: Final = b"gwk_"
_OWN_KEY: Final = re.compile(rb"gwk_[0-9a-z]{10}_([A-Za-z0-9_-]{43})")
_PARTIAL_BYTES: Final = 4
_ROUNDS_MAX: Final = 4
_STRIDE_MAX: Final = 64

Span = tuple[int, int]


class _Index:
    """Finds patterns of a minimal length by the pieces of `width` bytes at every `stride`-th byte of a text."""

    def __init__(self, patterns: Sequence[bytes], width: int, code: Literal["Q", "I"]) -> None:
        # A pattern of n bytes covers a whole piece at a multiple of `stride` if n >= stride + width - 1.
        shortest = min(map(len, patterns))
        self._width, self._code = width, code
        self._step = max(1, min(_STRIDE_MAX, shortest + 1 - width) // width)
        self._stride = self._step * width
        self._at: dict[int, list[tuple[bytes, int]]] = {}
        for pattern in patterns:
            for offset in range(self._stride):
                piece = memoryview(pattern)[offset : offset + width].cast(code)[0]
                self._at.setdefault(piece, []).append((pattern, offset))
        self._pieces = frozenset(self._at)

    def spans(self, data: bytes) -> list[Span]:
        """Every occurrence of every pattern, overlaps included."""
        pieces = memoryview(data)[: len(data) // self._width * self._width].cast(self._code)[:: self._step].tolist()
        return [] if self._pieces.isdisjoint(pieces) else list(self._compared(data, pieces))

    def _compared(self, data: bytes, pieces: list[int]) -> Iterator[Span]:
        for number, piece in enumerate(pieces):
            if piece in self._pieces:
                for pattern, offset in self._at[piece]:
                    start = number * self._stride - offset
                    if start >= 0 and data.startswith(pattern, start):
                        yield start, start + len(pattern)


class Mask:
    """All secrets known at one moment. Built again when the vault changes; safe to share between threads."""

    def __init__(self, secrets: Iterable[bytes] = ()) -> None:
        """`secrets` are the values themselves; their encodings are derived here."""
        values = {secret for secret in secrets if secret}
        patterns = {form for value in values if len(value) >= SHORT_BYTES for form in _forms(value)}
        self._patterns = tuple(sorted(patterns, key=len, reverse=True))
        wide = [pattern for pattern in patterns if len(pattern) >= 15]
        narrow = [pattern for pattern in patterns if len(pattern) < 15]
        self._indexes = (*([_Index(wide, 8, "Q")] if wide else ()), *([_Index(narrow, 4, "I")] if narrow else ()))
        self._telling = telling_escapes(values)
        short = sorted((value for value in values if len(value) < SHORT_BYTES), key=len, reverse=True)
        alone = rb"(?<![0-9A-Za-z])(?:%s)(?![0-9A-Za-z])" % b"|".join(map(re.escape, short))
        self._short = re.compile(alone) if short else None

    def __repr__(self) -> str:
        """Counts, never values."""
        return f"Mask({len(self._patterns)} patterns)"

    def apply(self, data: bytes, *, cut: bool = False) -> bytes:
        """The data with every secret replaced by `MASKED`; the same object if there is none.

        With `cut`, the data ends where somebody stopped reading: the beginning of a secret at its end is masked too.
        """
        for _ in range(_ROUNDS_MAX):
            spans = self._spans(data, cut=cut)
            if not spans:
                return data
            data = _replace(data, spans)
        # What stands beside a mask can form a secret with it. Nothing sensible does so again and again.
        return data if not self._spans(data, cut=cut) else b""

    def apply_text(self, text: str, *, cut: bool = False) -> str:
        """The same for text, lone surrogates included."""
        data = text.encode("utf-8", "surrogatepass")
        masked = self.apply(data, cut=cut)
        if masked is data:
            return text
        try:
            return masked.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return masked.decode("utf-8", "replace")

    def apply_json(self, value: Json) -> Json:
        """The same for every string, name and number in a JSON value of bounded depth; the shape stays."""
        if isinstance(value, str):
            return self.apply_text(value)
        if isinstance(value, dict):
            return {self.apply_text(name): self.apply_json(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.apply_json(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            # A PIN is a secret too, and comes back as a number.
            digits = repr(value)
            masked = self.apply_text(digits)
            return value if masked is digits else masked
        return value

    def finds(self, data: bytes) -> bool:
        """Whether any secret is in there."""
        return bool(self._spans(data, cut=False))

    def _spans(self, data: bytes, *, cut: bool) -> list[Span]:
        if not (b"\\" in data or b"%" in data or b"&" in data):
            return self._here(data, cut=cut)
        found: list[Span] = []
        for reading in readings(data, self._telling):
            here = self._here(reading.data, cut=cut)
            if here:
                found += reading.origin(here)
        return found

    def _here(self, data: bytes, *, cut: bool) -> list[Span]:
        """What is found in one reading of the data."""
        found: list[Span] = []
        for index in self._indexes:
            found += index.spans(data)
        if self._short is not None:
            found += (match.span() for match in self._short.finditer(data))
        if _OWN_KEY_SIGN in data:
            found += (match.span(1) for match in _OWN_KEY.finditer(data))
        if cut and (start := self._partial(data)) is not None:
            found.append((start, len(data)))
        return found

    def _partial(self, data: bytes) -> int | None:
        """Where the end of the data begins a secret; the earliest such place."""
        # The end may look like half an escape and be part of the secret all the same.
        ends = {len(data), len(data) - unfinished(data)}
        places = [place for end in ends for place in self._beginnings(data, end)]
        return min(places, default=None)

    def _beginnings(self, data: bytes, end: int) -> Iterator[int]:
        for pattern in self._patterns:
            start = max(0, end - len(pattern) + 1)
            while (start := data.find(pattern[:_PARTIAL_BYTES], start, end)) >= 0:
                if pattern.startswith(data[start:end]):
                    yield start
                    break
                start += 1


def mask_fields(value: Json, names: Iterable[str]) -> Json:
    """The value with every member of these names replaced by `MASKED`, at any depth, in any case of letters."""
    wanted = frozenset(name.casefold() for name in names)
    return _mask_fields(value, wanted) if wanted else value


def _mask_fields(value: Json, wanted: frozenset[str]) -> Json:
    if isinstance(value, dict):
        return {
            name: MASKED if name.casefold() in wanted else _mask_fields(item, wanted) for name, item in value.items()
        }
    if isinstance(value, list):
        return [_mask_fields(item, wanted) for item in value]
    return value


def _forms(value: bytes) -> Iterator[bytes]:
    yield value
    if b" " in value:
        yield value.replace(b" ", b"+")  # what form encoding makes of a space
    yield value.hex().encode()
    yield value.hex().upper().encode()
    for alignment in range(3):
        core = _base64_core(value, alignment)
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def _base64_core(value: bytes, alignment: int) -> bytes:
    """The characters of a base64 text that depend on `value` alone, with `alignment` unknown bytes before it."""
    encoded = base64.b64encode(b"\0" * alignment + value + b"\0\0")
    return encoded[-(-alignment * 8 // 6) : (alignment + len(value)) * 8 // 6]


def _replace(data: bytes, spans: list[Span]) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for start, end in _merged(spans):
        pieces += (data[position:start], _MASKED)
        position = end
    pieces.append(data[position:])
    return b"".join(pieces)


def _merged(spans: list[Span]) -> Iterator[Span]:
    """Spans in order; those that overlap or touch are one."""
    spans.sort()
    start, end = spans[0]
    for next_start, next_end in spans[1:]:
        if next_start > end:
            yield start, end
            start, end = next_start, next_end
        else:
            end = max(end, next_end)
    yield start, end
