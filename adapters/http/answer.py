"""The head of an answer: what it says about its own end, and the headers that are kept."""

from adapters.contract import Framing

HEADERS_MAX = 100
HEADERS_MAX_BYTES = 32 * 1024

RawHeaders = tuple[tuple[bytes, bytes], ...]
Headers = tuple[tuple[str, str], ...]

_BODILESS = frozenset({204, 304})


def kept_headers(raw: RawHeaders) -> Headers:
    """The first headers within both bounds, as Latin-1: every byte has a character, none can break an encoder later."""
    kept: list[tuple[str, str]] = []
    room = HEADERS_MAX_BYTES
    for name, value in raw[:HEADERS_MAX]:
        room -= len(name) + len(value)
        if room < 0:
            break
        kept.append((name.decode("latin-1"), value.decode("latin-1")))
    return tuple(kept)


def framing(method: str, status: int, version: tuple[int, int], raw: RawHeaders) -> tuple[Framing, str | None]:
    """How the body ends, and a contradiction if the head says two things (RFC 9112 section 6.3)."""
    if method == "HEAD" or status in _BODILESS or 100 <= status < 200:
        return Framing.EMPTY, None
    lengths: set[bytes] = set()
    codings: list[bytes] = []
    for name, value in raw:
        lowered = name.lower()
        if lowered == b"content-length":
            lengths.add(value.strip())
        elif lowered == b"transfer-encoding":
            codings.extend(part.strip().lower() for part in value.split(b","))
    if codings:
        if lengths or codings != [b"chunked"] or version < (1, 1):
            return Framing.UNTIL_CLOSE, "the answer's length is stated in more than one way"
        return Framing.CHUNKED, None
    if len(lengths) > 1:
        return Framing.UNTIL_CLOSE, "the answer's length is stated in more than one way"
    return (Framing.LENGTH if lengths else Framing.UNTIL_CLOSE), None
