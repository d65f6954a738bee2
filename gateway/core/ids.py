"""The forms of an operation id and the rule for callers' keys. Ids themselves come from a port."""

import re
from typing import Final

from gateway.model.action import IdFormat
from gateway.model.problem import Code, Problem, ensure

PREFIX: Final = "op_"

KEY_LENGTH_MAX: Final = 255

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_AS_BASE32 = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_DIGITS = 26
_BYTES = 16
_ID = re.compile(rf"{PREFIX}[0-7][{_ALPHABET}]{{{_DIGITS - 1}}}")
"""26 digits of five bits hold 130 bits: the first digit of a 128-bit number is at most 7."""

_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(10 * (_DIGITS // 2 - 1), -1, -10)
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_MINTED = re.compile(r"minted-[0-9a-f]{32}")


def format_id(raw: bytes) -> str:
    """Sixteen bytes (a UUIDv7) as `op_` and 26 lower-case Crockford base32 digits; sorts like the bytes."""
    ensure(len(raw) == _BYTES, "an operation id has sixteen bytes")
    number = int.from_bytes(raw, "big")
    return PREFIX + "".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])


def parse_id(text: str) -> bytes:
    """The sixteen bytes behind an operation id. Raises `ValueError` for every other text.

    Only the one form that `format_id` writes is taken: an id with two spellings would be two keys in the store.
    """
    if _ID.fullmatch(text) is None:
        raise ValueError("not an operation id")
    # `int` reads base 32 itself, given its own digits for it; a loop would be felt where every write parses ids.
    return int(text[len(PREFIX) :].translate(_AS_BASE32), 32).to_bytes(_BYTES, "big")


def outward(operation_id: str, form: IdFormat) -> str:
    """The operation id in the form in which an action shows it to its service."""
    if form is IdFormat.OP:
        parse_id(operation_id)
        return operation_id
    uuid, digits = other_forms(operation_id)
    return digits if form is IdFormat.HEX else uuid


def other_forms(operation_id: str) -> tuple[str, str]:
    """The id as a UUID and in hex. Raises `ValueError` like `parse_id`."""
    digits = parse_id(operation_id).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])), digits


def check_key(key: str) -> str:
    """A caller's idempotency key, unchanged: 1 to 255 visible ASCII characters, else `Problem(invalid_key)`."""
    if _KEY.fullmatch(key) is None:
        raise Problem(
            Code.INVALID_KEY,
            "An idempotency key has 1 to 255 visible ASCII characters, without spaces.",
            "Use a short identifier of your own task, for example a task number or a UUID.",
        )
    return key


def mint_key(raw: bytes) -> str:
    """A key for a caller who gave none: a tool makes it to ask by it after a lost answer. Sixteen random bytes."""
    ensure(len(raw) == _BYTES, "a minted key is made of sixteen bytes")
    return f"minted-{raw.hex()}"


def is_minted(key: str) -> bool:
    """Whether a tool made the key. It names the operation like any other, but nobody chose it to say "once more"."""
    return _MINTED.fullmatch(key) is not None
