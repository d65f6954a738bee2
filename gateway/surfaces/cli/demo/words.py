"""The demo's wording: what is said of requests to a service, and what of commands on hosts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Words:
    """Texts and the widths of their columns."""

    column: str
    done: str
    doubt: str
    states: Mapping[str, str]
    basis: Mapping[str, str]
    """How an operation was settled."""
    truth_column: str
    truth: Callable[[int, int], str]
    """What really happened, from the number of effects and of requests."""
    ledger: Callable[[int, int], str]
    """The sentence of the summary, from the number of effects and of those that came twice."""
    gone: str
    """Beside a caller whose answer was lost with the gateway."""
    refused: str
    look: tuple[str, ...]
    """Commands that show a kept folder's ledger, with `{folder}`."""
    failure: Callable[[Document], str]
    title_width: int
    word_width: int
    truth_width: int

    def short(self, document: Document) -> str:
        """The state in a few words: the guidance is for models and longer than a line."""
        if document["outcome"] == "success":
            return self.done
        if document["error"] is not None:
            return self.failure(document)
        return self.states.get(document["state"], self.doubt)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{' ' if number == 1 else 's'}"


def _runs(effects: int) -> str:
    return {0: "never ran", 1: "ran once"}.get(effects, f"ran {effects} times")


def _exit(document: Document) -> str:
    status = document["error"].get("status")
    return str(document["error"]["detail"]) if status is None else f"it ended with exit status {status}"


HTTP_WORDS: Final = Words(
    column="what happens to the request",
    done="carried out",
    doubt="it may have been carried out; do not send it again",
    states={
        "accepted": "accepted, the work goes on",
        "sending": "in progress",
        "unresolved": "nobody can be asked; a person must settle it",
    },
    basis={
        "answer": "the service's own answer",
        "handle": "following the handle of the 202",
        "probe": "the service's own record",
        "fence": "a fence: its place is occupied",
        "absence": "proven absence: closed, waited, looked twice",
        "unsent": "no request byte left",
        "attestation": "a person's word, marked as such",
    },
    truth_column="service's ledger",
    truth=lambda effects, requests: f"{_counted(effects, 'effect')} of {_counted(requests, 'request')}",
    ledger=lambda effects, twice: f"Service's ledger: {effects} effects, {twice} of them twice.",
    gone="the gateway is gone; the caller will ask by its key",
    refused="nothing was sent",
    look=("gateway faults ledger {folder}/service.ledger",),
    failure=lambda document: str(document["error"]["detail"]),
    title_width=43,
    word_width=23,
    truth_width=26,
)

SSH_WORDS: Final = Words(
    column="what happens to the command",
    done="it ended with exit status 0",
    doubt="may have run: do not repeat",
    states={"sending": "may be running: do not repeat"},
    basis={
        "answer": "the host's answer",
        "probe": "the host's record",
        "fence": "a fence: it never will",
        "unsent": "nothing ever left",
    },
    truth_column="on host",
    truth=lambda effects, _: _runs(effects),
    ledger=lambda effects, twice: f"On the hosts: {effects} commands ran, {twice} of them twice.",
    gone="it will ask by its key",
    refused="nothing was run",
    look=("cat {folder}/web-*/ran", "cat {folder}/catalog/demo.yaml"),
    failure=_exit,
    title_width=36,
    word_width=10,
    truth_width=10,
)
"""Everything fits into 80 columns."""
