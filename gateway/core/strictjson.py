"""Strict reading and canonical writing of JSON, so that what is checked, hashed, shown and sent is one value."""

import json
import re
from functools import cache
from hashlib import sha256
from typing import Any, Final, NoReturn, TypeAlias

import orjson
import rfc8785

Json: TypeAlias = Any
"""A JSON value in Python's own types: dict, list, str, int, float, bool or None."""

INTEGER_MAX: Final = 2**53 - 1
"""Largest whole number that every JSON reader keeps exactly (RFC 7493 section 2.2)."""

DEPTH_MAX: Final = 64

_DIGITS_MAX = 16
_PLAIN_FLOAT_LIMIT = 1e21
"""RFC 8785 writes smaller whole numbers as digits, larger ones with an exponent (ECMAScript Number::toString)."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*+")|(?P<number>-?[0-9][0-9.eE+-]*)|(?P<word>[A-Za-z-]+)|(?P<mark>[\[\]{},:])',
    re.DOTALL,
)
_COLON = re.compile(r"[ \t\r\n]*:")

_DUPLICATE = "A name appears twice in one object."
_CONSTANT = "NaN and Infinity are not JSON."
_INTEGER = "A whole number lies beyond 2^53 - 1, where readers of JSON disagree; send it as a string."
_FLOAT = "A number does not fit a 64-bit float."
_SURROGATE_DETAIL = "A string holds half of a surrogate pair."
_DEPTH = "The value is nested too deeply."


class JsonError(ValueError):
    """The bytes are not JSON that we take. `detail` is a sentence that never repeats the input."""

    def __init__(self, detail: str, offset: int | None = None) -> None:
        """`offset` counts characters from the start of the text (bytes where it is not valid UTF-8)."""
        self.detail = detail
        self.offset = offset
        super().__init__(detail if offset is None else f"{detail.removesuffix('.')} (at character {offset}).")


class _Refused(Exception):
    """Raised inside the C parser's callbacks, which do not know where they are."""


def parse(data: bytes, *, depth_max: int = DEPTH_MAX) -> Json:
    """Read one JSON value from UTF-8 bytes.

    Stricter than RFC 8259, in the spirit of RFC 7493: duplicate names, NaN and Infinity, lone surrogates, whole numbers
    beyond 2^53 - 1 in any spelling, numbers that overflow or vanish, a byte order mark, anything after the value, and
    more than `depth_max` nested containers are refused with `JsonError`.
    """
    text = _decode(data)
    if nesting(data, depth_max) > depth_max:
        raise JsonError(_DEPTH)
    try:
        value = _reader().decode(text)
    except json.JSONDecodeError as error:
        raise JsonError("The text is not JSON.", error.pos) from None
    except _Refused as refused:
        detail = str(refused)
        raise JsonError(detail, _locate(text, detail)) from None
    if b"\\u" in data and has_surrogate(value):
        raise JsonError(_SURROGATE_DETAIL, _locate(text, _SURROGATE_DETAIL))
    return value


@cache
def _reader() -> json.JSONDecoder:
    """Made once: `json.loads` with hooks makes a decoder each time."""
    return json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)


def nesting(data: bytes, enough: int) -> int:
    """How deeply containers nest in this text; counting stops just above `enough`.

    Looked at before any recursive reader sees the text, so that none can run out of stack.
    """
    if data.count(b"[") + data.count(b"{") <= enough:
        return 0
    depth = deepest = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", data)):
        depth += 1 if bracket.group() in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > enough:
            break
    return deepest


def canonical(value: Json) -> bytes:
    """The bytes of RFC 8785 for this value. Raises `JsonError` for what has none (NaN, 2^53, sets, deep nesting)."""
    try:
        if _plain(value, DEPTH_MAX * 2):
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, TypeError) as error:
        raise JsonError("The value has no canonical JSON form.") from error


def digest(value: Json) -> str:
    """SHA-256 over the canonical bytes, hex."""
    return sha256(canonical(value)).hexdigest()


def _plain(value: Json, depth_left: int) -> bool:
    """Whether orjson with sorted keys writes exactly what RFC 8785 asks for.

    The two differ in floats, in keys outside the Basic Multilingual Plane (code points against UTF-16 units; only
    ASCII keys are let through) and in what they accept beyond JSON's own types.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-INTEGER_MAX <= value <= INTEGER_MAX)
    if kind is not dict and kind is not list:
        return False
    if depth_left == 0:
        raise JsonError(_DEPTH)
    if kind is dict:
        plain = all(type(key) is str and key.isascii() for key in value)
        value = value.values()
    else:
        plain = True
    # No short circuit: the depth of every branch has to be seen before a recursive writer runs.
    for item in value:
        plain = _plain(item, depth_left - 1) and plain
    return plain


def _decode(data: bytes) -> str:
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise JsonError("The text starts with a byte order mark.", 0)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError("The text is not valid UTF-8.", error.start) from None


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Refused(_DUPLICATE)
    return result


def _integer(literal: str) -> int:
    # The length is looked at first: turning a million digits into a number is slow, and Python refuses it its own way.
    if len(literal) > _DIGITS_MAX + 1 or abs(value := int(literal)) > INTEGER_MAX:
        raise _Refused(_INTEGER)
    return value


def _float(literal: str) -> float:
    value = float(literal)
    if value in {float("inf"), float("-inf")}:
        raise _Refused(_FLOAT)
    if value == 0 and literal.lower().split("e", 1)[0].strip("-0."):
        raise _Refused(_FLOAT)
    if INTEGER_MAX < abs(value) < _PLAIN_FLOAT_LIMIT:
        # Its canonical form is a row of digits, which we would refuse when reading it back.
        raise _Refused(_INTEGER)
    return value


def _constant(_literal: str) -> NoReturn:
    raise _Refused(_CONSTANT)


def has_surrogate(value: Json) -> bool:
    """Whether some string holds half of a surrogate pair, which UTF-8 cannot carry. Only for shallow values."""
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(has_surrogate(key) or has_surrogate(item) for key, item in value.items())
    if isinstance(value, list):
        return any(has_surrogate(item) for item in value)
    return False


def _locate(text: str, detail: str) -> int | None:
    """Where the first thing of that kind stands. Only runs for refused text: a slow second look with positions."""
    names: list[set[str] | None] = []
    for token in _TOKEN.finditer(text):
        kind, piece = token.lastgroup, token.group()
        if kind == "mark":
            if piece in "[{":
                names.append(set() if piece == "{" else None)
            elif piece in "]}" and names:
                names.pop()
        elif kind == "word":
            if detail == _CONSTANT and piece.removeprefix("-") in {"NaN", "Infinity"}:
                return token.start()
        elif kind == "number":
            if detail in {_INTEGER, _FLOAT} and _number_refused(piece, detail):
                return token.start()
        else:
            content = json.loads(piece)  # cannot fail: the C parser has read past this token
            if detail == _SURROGATE_DETAIL and _SURROGATE.search(content):
                return token.start()
            known = names[-1] if names and _COLON.match(text, token.end()) else None
            if known is not None:
                if detail == _DUPLICATE and content in known:
                    return token.start()
                known.add(content)
    return None


def _number_refused(literal: str, detail: str) -> bool:
    try:
        if re.fullmatch(r"-?[0-9]+", literal):
            _integer(literal)
        else:
            _float(literal)
    except _Refused as refused:
        return str(refused) == detail
    except ValueError:
        return False
    return False
