"""What the demo prints: plain text off a terminal, and commands that work when copied."""

import io
import re
from pathlib import Path

from rich.console import Console

from gateway.surfaces.cli.demo.account import settle_accounts
from gateway.surfaces.cli.demo.cases import BY_NAME
from gateway.surfaces.cli.demo.show import Show
from gateway.surfaces.cli.demo.ssh_cases import HOST_CASES
from gateway.surfaces.cli.demo.words import HTTP_WORDS, SSH_WORDS, Words


def shown(show_into: str = "", *, terminal: bool = False, words: Words = HTTP_WORDS) -> tuple[Show, io.StringIO]:
    text = io.StringIO()
    console = Console(file=text, width=200, highlight=False, force_terminal=terminal)
    return Show(console, keep=Path(show_into) if show_into else None, words=words), text


def test_a_lost_answer_is_a_line_of_its_own() -> None:
    show, text = shown()
    show.told(BY_NAME["killed-done"], None)

    assert "carried out while the gateway was killed" in text.getvalue()
    assert "no answer" in text.getvalue()


def test_an_outcome_stands_beside_what_is_true_and_what_settled_it() -> None:
    show, text = shown()
    document = {"outcome": "success", "basis": "probe", "state": "succeeded", "error": None}
    show.settled(BY_NAME["again"], document, effects=1, requests=2)

    line = text.getvalue()
    assert " ".join(line.split()) == (
        "not carried out, may be sent again success 1 effect of 2 requests the service's own record"
    )
    assert "\x1b" not in line


def test_colour_is_for_terminals() -> None:
    show, text = shown(terminal=True)
    show.refused("the same again", "probable_repeat")

    assert "\x1b" in text.getvalue()


def test_a_folder_that_is_kept_comes_with_commands_to_copy() -> None:
    show, text = shown("a folder")
    show.summary(settle_accounts([], [], told_unknown=(), audit="OK"))

    assert "audit verify 'a folder'/data/audit --trust 'a folder'/trust.policy" in text.getvalue()


def test_nothing_is_printed_without_a_console() -> None:
    show = Show(None)
    show.doing("anything")
    show.heading("", "")
    show.summary(settle_accounts([], [], told_unknown=(), audit="OK"))
    show.end()


def test_the_story_of_hosts_fits_into_eighty_columns() -> None:
    show, text = shown(words=SSH_WORDS)
    show.heading("caller is told", "")
    show.settling()
    for case in HOST_CASES:
        show.told(case, None)
        for state in (*SSH_WORDS.states, "in_doubt"):
            show.told(case, {"outcome": "unknown", "state": state, "error": None})
        show.told(case, {"outcome": "error", "state": "failed", "error": {"status": 255, "detail": "long" * 40}})
        show.told(case, {"outcome": "success", "state": "succeeded", "error": None})
        for basis in SSH_WORDS.basis:
            show.settled(case, {"outcome": "success", "basis": basis}, effects=0, requests=1)
    show.arrived("the held one arrives", "met the fence", 0)
    show.turned_away("the same again under a new key", "predecessor_unsettled")
    show.refused("a settled one again, no key", "predecessor_unsettled")

    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if re.search(r"[a-z]unknown|[a-z]error|[a-z]success", line)]


def test_whoever_is_turned_away_stands_in_the_columns_of_the_others() -> None:
    for words, line in (
        (SSH_WORDS, "refused   predecessor_unsettled"),
        (HTTP_WORDS, "predecessor_unsettled  nothing was sent"),
    ):
        show, text = shown(words=words)
        show.turned_away("again", "predecessor_unsettled")
        assert text.getvalue() == f"  {'again':{words.title_width}}{line}\n"
        assert line[words.word_width - 1] == " " != line[words.word_width]


def test_a_command_that_failed_is_told_by_its_status() -> None:
    show, text = shown(words=SSH_WORDS)
    failed = {"outcome": "error", "state": "failed", "error": {"status": 3, "detail": "the command ended with 3"}}
    show.told(HOST_CASES[1], failed)

    assert text.getvalue().rstrip().endswith("it ended with exit status 3")
