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
from gateway.surfaces.cli.render import OUTCOME_STYLES

Document = Mapping[str, Any]

TITLE_WIDTH: Final = 43
WORD_WIDTH: Final = 23
_BASIS: Final = {
    "answer": "the service's own answer",
    "handle": "following the handle of the 202",
    "probe": "the service's own record",
    "fence": "a fence: its place is occupied",
    "absence": "proven absence: closed, waited, looked twice",
    "unsent": "no request byte left",
    "attestation": "a person's word, marked as such",
}


class Show:
    """Prints the story for people; prints nothing without a console."""

    def __init__(self, console: Console | None, *, keep: Path | None = None) -> None:
        """`keep` is the folder that stays behind."""
        self._console = console
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
        self.say(f"\n  [dim]{'what happens to the request':{TITLE_WIDTH}}{second:{WORD_WIDTH}}{third}[/]")

    def told(self, case: Case, document: Document | None) -> None:
        """What a caller was told first."""
        if document is None:
            self._line(case.title, "no answer", "yellow", "the gateway is gone; the caller will ask by its key")
            return
        text = "carried out" if document["outcome"] == "success" else _short(document)
        self._line(case.title, str(document["outcome"]), OUTCOME_STYLES[document["outcome"]], text)

    def settled(self, case: Case, document: Document, effects: int, requests: int) -> None:
        """How an operation ended, beside what the ledger says of it."""
        outcome = document["outcome"]
        style = OUTCOME_STYLES[outcome]
        truth = f"{_counted(effects, 'effect')} of {_counted(requests, 'request')}"
        how = _BASIS.get(document["basis"] or "", "")
        self._line(case.title, outcome or "not sent", style, f"{truth:26}{how}")

    def _line(self, title: str, word: str, style: str, rest: str) -> None:
        self.say(f"  {escape(title):{TITLE_WIDTH}}[{style}]{word:{WORD_WIDTH}}[/]{escape(rest)}")

    def refused(self, what: str, answer: str) -> None:
        """An agent that tries again, and what it is told."""
        self._line(what, answer, "cyan", "nothing was sent")

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
        self.say(f"Service's ledger: {totals.effects} effects, {totals.duplicate_effects} of them twice.")
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
            f"gateway faults ledger {folder}/service.ledger",
            f"GATEWAY_CONFIG={folder}/gateway.yaml gateway check",
        ):
            self.say(f"  {escape(command)}")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{' ' if number == 1 else 's'}"


def _short(document: Document) -> str:
    """The state in a few words: the guidance is for models and longer than a line."""
    error = document["error"]
    if error is not None:
        return str(error["detail"])
    return {
        "accepted": "accepted, the work goes on",
        "sending": "in progress",
        "unresolved": "nobody can be asked; a person must settle it",
    }.get(document["state"], "it may have been carried out; do not send it again")
