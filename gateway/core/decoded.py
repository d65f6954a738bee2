"""Other readings of some bytes, with escapes of several kinds undone, and the way back to where each byte stood."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Final

DEPTH_MAX: Final = 2
"""Encodings within encodings that are looked through, for example percent-encoding twice."""

_JSON: Final = re.compile(
    rb'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt\'])'
)
_PERCENT: Final = re.compile(rb"%[0-9A-Fa-f]{2}")
_HTML: Final = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);")
_SIMPLE: Final[Mapping[bytes, bytes]] = {
    b"\\" + key.encode(): value.encode()
    for key, value in {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}.items()
}
ALWAYS_TELLING: Final = (b"\\u", b"\\/")
"""JSON escapes that any secret may be written with: `\\u` spells every character, and base64 holds slashes."""

_UNFINISHED: Final = re.compile(
    rb"(?:%[0-9A-Fa-f]?|\\(?:u[0-9a-fA-F]{0,3})?|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?|&[#\w]{0,7})\Z"
)


def _from_json(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    if escape[1] != ord("u"):
        return _SIMPLE.get(escape, escape[1:])
    units = bytes.fromhex(escape[2:6].decode() + escape[8:12].decode())
    return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")


def _from_percent(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[0][1:], 16),))


def _from_html(match: re.Match[bytes]) -> bytes:
    return unescape(match[0].decode()).encode("utf-8", "surrogatepass")


_Decoder = tuple[re.Pattern[bytes], Callable[[re.Match[bytes]], bytes]]
_FROM_JSON: Final[_Decoder] = (_JSON, _from_json)
_FROM_PERCENT: Final[_Decoder] = (_PERCENT, _from_percent)
_FROM_HTML: Final[_Decoder] = (_HTML, _from_html)


def telling_escapes(values: Iterable[bytes]) -> tuple[bytes, ...]:
    """The JSON escapes without which no text can hide one of these values; mostly far fewer than there are.

    A text without them needs no decoding, however many line feeds it spells. An escape within an escaped text shows up
    with one more backslash before it, so that looking for its last two bytes is enough.
    """
    meanings = {escape: _SIMPLE.get(escape, escape[1:]) for escape in (b"\\" + bytes((c,)) for c in b"\"\\'bfnrt")}
    joined = b"\0".join(values)
    return (*ALWAYS_TELLING, *(escape for escape, meaning in meanings.items() if meaning in joined))


@dataclass(frozen=True, slots=True)
class Reading:
    """Some bytes as one decoder reads them; the first reading is the bytes themselves."""

    data: bytes
    parent: "Reading | None" = None
    decoder: _Decoder | None = None

    def origin(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Where these spans stand in the bytes that everything started from. An escape belongs to a span as a whole."""
        if self.parent is None or self.decoder is None:
            return spans
        return self.parent.origin(_way_back(self.parent.data, self.decoder, spans))


def readings(data: bytes, telling: tuple[bytes, ...]) -> Iterator[Reading]:
    """The bytes themselves, then every decoding of them to the depth of `DEPTH_MAX` that makes a difference.

    `telling` are the JSON escapes worth undoing, from `telling_escapes`.
    """
    layer = [Reading(data)]
    for _ in range(DEPTH_MAX):
        yield from layer
        layer = [reading for parent in layer for reading in _decodings(parent, telling)]
    yield from layer


def unfinished(data: bytes) -> int:
    """How many bytes at the end belong to an escape whose rest is missing."""
    match = _UNFINISHED.search(data, max(0, len(data) - 16))
    return len(match[0]) if match else 0


def _decodings(parent: Reading, telling: tuple[bytes, ...]) -> Iterator[Reading]:
    source = parent.data
    if any(escape in source for escape in telling):
        yield from _decoding(parent, _FROM_JSON)
    if b"%" in source:
        yield from _decoding(parent, _FROM_PERCENT)
    if b"&" in source:
        yield from _decoding(parent, _FROM_HTML)


def _decoding(parent: Reading, decoder: _Decoder) -> Iterator[Reading]:
    pattern, decode = decoder
    data, count = pattern.subn(decode, parent.data)
    if count:
        yield Reading(data, parent, decoder)


def _way_back(source: bytes, decoder: _Decoder, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of a decoded text as spans of its source. Only runs when something was found."""
    pattern, decode = decoder
    before: list[tuple[int, int]] = []  # start of each escape's meaning in the decoded text and of itself in the source
    after: list[tuple[int, int]] = []  # and the ends
    shift = 0
    for match in pattern.finditer(source):
        start = match.start() - shift
        end = start + len(decode(match))
        before.append((start, match.start()))
        after.append((end, match.end()))
        shift = match.end() - end
    starts = [start for start, _ in before]

    def place(position: int, *, at_end: bool) -> int:
        index = bisect_right(starts, position - 1 if at_end else position) - 1
        if index < 0:
            return position
        end, source_end = after[index]
        if at_end and position <= end:
            return source_end
        if not at_end and position < end:
            return before[index][1]
        return source_end + position - end

    return [(place(start, at_end=False), place(end, at_end=True)) for start, end in spans]
