"""How the demo looks: one line for each operation, once when its caller is answered and once when it is settled."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from gateway.surfaces.cli.demo.account import Totals
from gateway.surfaces.cli.demo.cases import Case
from gateway.surfaces.cli.demo.words import HTTP_WORDS, Words
from gateway.surfaces.cli.render import OUTCOME_STYLES

Document = Mapping[str, Any]


REFUSAL_WIDTH: Final = 23


class Show:
    """Prints the story for people; prints nothing without a console."""

    def __init__(self, console: Console | None, *, keep: Path | None = None, words: Words = HTTP_WORDS) -> None:
        """`keep` is the folder that stays behind."""
        self._console = console
        self._words = words
        self._keep = keep
        self._status: Status | None = None

    def say(self, text: str = "") -> None:
        """One line of text."""
        if self._console is not None:
            self._console.print(text)

    def doing(self, text: str) -> None:
        """What is being waited for: a moving line on a terminal, a plain one elsewhere."""
        self.end()
        if self._console is None:
            return
        if self._console.is_terminal:
            self._status = self._console.status(escape(text))
            self._status.start()
        else:
            self.say(text)

    def end(self) -> None:
        """Stop the moving line."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def heading(self, second: str, third: str) -> None:
        """The heads of the columns."""
        self.end()
        words = self._words
        self.say(f"\n  [dim]{words.column:{words.title_width}}{second:{words.word_width}}{third}[/]")

    def settling(self) -> None:
        """The heads of the columns in which operations are settled."""
        words = self._words
        self.heading("now", f"{words.truth_column:{words.truth_width}}settled by")

    def told(self, case: Case, document: Document | None) -> None:
        """What a caller was told first."""
        if document is None:
            self._line(case.title, "no answer", "yellow", self._words.gone)
            return
        outcome = document["outcome"]
        self._line(case.title, str(outcome), OUTCOME_STYLES[outcome], self._words.short(document))

    def settled(self, case: Case, document: Document, effects: int, requests: int) -> None:
        """How an operation ended, beside what the ledger says of it."""
        outcome = document["outcome"]
        style = OUTCOME_STYLES[outcome]
        words = self._words
        how = words.basis.get(document["basis"] or "", "")
        self._line(
            case.title, outcome or "not sent", style, f"{words.truth(effects, requests):{words.truth_width}}{how}"
        )

    def arrived(self, what: str, met: str, effects: int) -> None:
        """A delivery that came after the verdict."""
        words = self._words
        self._line(what, "late", "cyan", f"{words.truth(effects, 1):{words.truth_width}}{met}")

    def _line(self, title: str, word: str, style: str, rest: str) -> None:
        self._columns(title, f"[{style}]{word:{self._words.word_width}}[/]", rest)

    def _columns(self, title: str, word: str, rest: str) -> None:
        self.say(f"  {escape(title):{self._words.title_width}}{word}{escape(rest)}")

    def refused(self, what: str, answer: str) -> None:
        """An agent that tries again, and what it is told."""
        self._columns(what, f"[cyan]{answer:{REFUSAL_WIDTH}}[/]", self._words.refused)

    def turned_away(self, what: str, code: str) -> None:
        """The same among what callers are told first, where the second column may be too narrow for the code."""
        if len(code) < self._words.word_width:
            self.refused(what, code)
        else:
            self._columns(what, f"[cyan]{'refused':{self._words.word_width}}[/]", code)

    def summary(self, totals: Totals) -> None:
        """The accounts."""
        self.end()
        if self._console is None:
            return
        style = "green" if totals.fine else "bold red"
        self.say(
            f"\n[bold]{totals.operations} operations[/]: {totals.success} success, {totals.error} error,"
            f" {totals.unsettled} unsettled; {totals.unknown_seen} were unknown to their caller at first."
        )
        self.say(self._words.ledger(totals.effects, totals.duplicate_effects))
        self.say(f"Claims that do not fit the ledger: {totals.wrong_outcomes}.")
        self.say(f"Audit log, verified by `audit verify --trust --anchor`: {totals.audit}.")
        self.say(f"[{style}]{'All as it must be.' if totals.fine else 'Not as it must be; see below.'}[/]")
        self._kept()

    def _kept(self) -> None:
        if self._keep is None:
            return
        folder = shlex.quote(str(self._keep))
        self.say(f"\nKept in {self._keep}; look at it with")
        for command in (
            f"audit verify {folder}/data/audit --trust {folder}/trust.policy --anchor {folder}/anchors",
            f"audit show {folder}/data/audit --key {folder}/auditor.key",
            *(look.format(folder=folder) for look in self._words.look),
            f"GATEWAY_CONFIG={folder}/gateway.yaml gateway check",
        ):
            self.say(f"  {escape(command)}")
