"""Text made safe to look at: what would move, hide or reorder characters is shown as its escape instead."""

import unicodedata
from typing import Final

_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Controls, format characters (bidi, zero width, tags), unassigned, private, surrogates, line and paragraph marks."""

_BLANK: Final = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10))
) | frozenset(range(0xE0100, 0xE01F0))
"""Letters and marks that look like nothing: fillers, joiners, variation selectors."""


def shown(text: str, *, lines: bool = False) -> str:
    """The text with every character that cannot be seen as itself written as a backslash, x, u or U, and hex.

    With `lines`, line feeds and tabs stay. Backslashes of the text stay as they are: the result is for eyes, not for
    reading back.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _visible(char, lines=lines) else _escape(char) for char in text)


def _visible(char: str, *, lines: bool) -> bool:
    if " " <= char <= "~":
        return True
    if char in "\n\t":
        return lines
    category = unicodedata.category(char)
    return category not in _INVISIBLE and category != "Zs" and ord(char) not in _BLANK


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
