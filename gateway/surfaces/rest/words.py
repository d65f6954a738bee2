"""What a member of a body, or a parameter, should have been, in words: a pattern explains nothing to who missed it."""

import re
from collections.abc import Mapping
from typing import Any, Final

SEE_FORM: Final = "`/openapi.json` says what it takes."
_SIGNS = "up to 255 visible ASCII characters without spaces"
_ID = "an operation's id: `op_` and 26 letters and digits, exactly as the gateway gave it"
_DIGITS = "a whole number in digits"
_INSTANT = "a time with a zone, for example 2027-01-31T00:00:00Z"
_NAME = "up to 100 letters, digits and any of . _ @ + -, with a letter or digit first"
_LOCK = "up to 128 letters, digits and any of . _ -, and no . or - first"
FORMS: Final = {
    r"[\x21-\x7e]+": _SIGNS,
    r"[\x21-\x7e]{1,255}": _SIGNS,
    r"op_[0-7][0-9a-hjkmnp-tv-z]{25}": _ID,
    r"op_[0-7][0-9a-hjkmnp-tv-z]{25}(\.[A-Za-z0-9_-]{1,40})?": f"{_ID}; for a step, a dot and its name behind it",
    r"\d{1,6}": _DIGITS,
    r"[1-9]\d{0,3}": _DIGITS,
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)": _INSTANT,
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})": _INSTANT,
    r"[0-9a-f]{64}": "the 64 hexadecimal digits of the digest that was shown",
    r"SHA256:[A-Za-z0-9+/]{43}": "a fingerprint as it was shown: `SHA256:` and 43 characters",
    r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}": _NAME,
    r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}": _LOCK,
    r"(?:https?|ssh)://[^\s/?#@]{1,290}/?": "scheme://host or scheme://host:port, and no path behind it",
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}": "the name of a header or parameter, for example X-Api-Key",
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{0,45}:[0-9A-Fa-f:.]{0,45})": (
        "a host's name or IP address"
    ),
    r"[ -~]{1,100}": "up to 100 ASCII characters",
}
"""By pattern, without its ends. A test holds this against every pattern of the interface."""

_WORDS = re.compile(r"[A-Za-z_]+(?:\|[A-Za-z_]+)+")
_TYPES: Final = {
    "model_type": "object", "dict_type": "object", "list_type": "array", "string_type": "string",
    "bool_type": "boolean", "int_type": "whole number", "float_type": "number",
}  # fmt: skip
"""What a library says in words of Python."""


def form_of(pattern: str) -> str | None:
    """What fits a pattern of the interface, in words; None for one that nobody described."""
    bare = pattern.removeprefix("^").removesuffix("$")
    if _WORDS.fullmatch(bare):
        *most, last = bare.split("|")
        return f"{', '.join(most)} or {last}"
    return FORMS.get(bare)


def told(kind: str, context: Mapping[str, Any], send: str) -> tuple[str, str] | None:
    """What is wrong and what to do, for a kind of error of the form; `send` is said where the kind says it all.

    None for a kind that has no words here.
    """
    match kind:
        case "missing":
            return "This member is missing.", "Add it."
        case "string_pattern_mismatch":
            form = form_of(str(context.get("pattern")))
            return "It has another form than is declared.", SEE_FORM if form is None else f"Give {form}."
        case "string_too_short" if context.get("min_length") == 1:
            return "It is empty.", "Give it, or leave it out where nothing is meant."
        case "string_too_short":
            return f"It has fewer than {context.get('min_length')} characters.", "Give more of it."
        case "string_too_long":
            return f"It has more than {context.get('max_length')} characters.", "Give less."
        case "literal_error":
            return "It is none of the words that are known here.", f"Give {context.get('expected')}."
        case _:
            return (f"A JSON {_TYPES[kind]} is expected here.", send) if kind in _TYPES else None
