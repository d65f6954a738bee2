"""A mistake in a file that a person wrote: where it stands, what is wrong, and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One finding. Lines and columns count from 1; 0 means the file as a whole."""

    file: str
    line: int
    column: int
    detail: str
    """A plain sentence."""
    hint: str = ""
    """What to write instead."""
    warning: bool = False
    """The file works, but says something its owner may not intend."""

    def __str__(self) -> str:
        """One line, in the form that editors turn into a link."""
        kind = "warning: " if self.warning else ""
        hint = f" {self.hint}" if self.hint else ""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {kind}{self.detail}{hint}"


class MistakesError(Exception):
    """A file cannot be used. Carries every mistake found, in the order of the files."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes: Sequence[Mistake] = tuple(sorted(mistakes))
        super().__init__("\n".join(map(str, self.mistakes)))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for a word that is not known: the nearest known one, else all of them."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean “{close[0]}”?"
    return f"Known here: {', '.join(names)}." if names else ""
