"""Operations for people: what a document holds is shown, and what it holds is never taken for markup."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from gateway.surfaces.cli.context import Exit
from gateway.surfaces.cli.render import exit_code, print_operation, print_operations, print_table


def document(**changes: Any) -> dict[str, Any]:
    return {
        "operation_id": "op_1", "action": "a.b", "state": "succeeded", "outcome": "success", "executed": "yes",
        "basis": "probe", "guidance": "Done.", "joined": False, "replayed": False, "output_valid": None,
        "contradicted": False, "attempts": [], "attestation": None, "evidence": [], "error": None,
        "result": None, "receipt": None, "steps": [], "run": None, "caller": "agent-a",
        "target": {"service": "svc", "url": "https://svc.example.com/a"},
    } | changes  # fmt: skip


@pytest.fixture
def out() -> Console:
    return Console(record=True, width=200, highlight=False, color_system=None)


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        ("succeeded", "success", Exit.SUCCESS),
        ("failed", "error", Exit.ERROR),
        ("in_doubt", "unknown", Exit.UNKNOWN),
        ("unresolved", "unknown", Exit.UNKNOWN),
        ("ready", None, Exit.UNKNOWN),
        ("held", None, Exit.HELD),
    ],
)
def test_each_end_has_its_exit_code(state: str, outcome: str | None, code: Exit) -> None:
    assert exit_code({"state": state, "outcome": outcome}) is code


def test_a_cancelled_operation_is_no_question_any_more() -> None:
    assert exit_code({"state": "cancelled", "outcome": "error"}) is Exit.ERROR


def test_everything_that_matters_is_on_the_page(out: Console) -> None:
    print_operation(
        out,
        document(
            outcome="error",
            joined=True,
            output_valid=False,
            contradicted=True,
            steps=[
                {"name": "migrate", "state": "failed", "exit": 3},
                {"name": "restart", "state": "not_begun", "exit": None},
            ],
            attempts=[
                {"kind": "send", "number": 1, "status": 500, "observation": "answered", "standing": "doubt"},
                {"kind": "send", "number": 2, "status": None, "observation": None, "standing": "open"},
            ],
            evidence=[{"at": "T", "source": "probe", "finding": "absent", "count": 3, "detail": "404"}],
            attestation={"person": "ann", "reason": "seen", "at": "T2", "digest": "d"},
            error={"code": "rejected", "detail": "no"},
            result={"list": list(range(50))},
            receipt={"origin": "o", "seq": 7, "leaf": "f" * 64},
        ),
    )
    page = out.export_text()

    for text in (
        "error  a.b  op_1  (joined to it)", "by probe", "does not fit its declared schema", "contradicts this",
        "step 1 migrate: failed, exit status 3", "step 2 restart: not begun",
        "send 1 500: answered (doubt)", "send 2: under way (open)", "T probe: absent x3 404",
        "T2 attested by ann: seen", "error rejected: no", "more lines; use --json",
        "audit o entry 7 leaf ffffffffffffffff…",
    ):  # fmt: skip
        assert text in page


def test_text_from_outside_is_shown_as_it_is(out: Console) -> None:
    hostile = "[red]x[/] [link=http://a]y[/link] [/]"
    print_operation(
        out,
        document(
            action=hostile,
            guidance=hostile,
            evidence=[{"at": "T", "source": "probe", "finding": "absent", "count": 1, "detail": hostile}],
            attempts=[{"kind": "send", "number": 1, "status": 1, "observation": hostile, "standing": "open"}],
            attestation={"person": hostile, "reason": hostile, "at": "T", "digest": "d"},
            error={"code": hostile, "detail": hostile},
            result={hostile: "\x1b[31m\u202e"},
            receipt={"origin": hostile, "seq": 1, "leaf": "f"},
        ),
    )
    print_operations(out, [document(action=hostile, run=hostile, caller=hostile)])
    print_table(out, ("a",), [(hostile,)], empty="")
    page = out.export_text()

    assert page.count(hostile) == 14
    assert "\x1b" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize(("width", "whole"), [(1000, True), (80, True), (40, False)])
def test_an_id_is_in_one_piece_where_its_state_has_room_beside_it(width: int, *, whole: bool) -> None:
    console = Console(file=StringIO(), width=width, record=True)
    print_operations(console, [document(operation_id="op_" + "a" * 26, run="r" * 40)])
    page = console.export_text()

    assert ("op_" + "a" * 26 in page) is whole
    assert "su" in page


def test_nothing_is_a_sentence(out: Console) -> None:
    print_operations(out, [])
    print_table(out, ("a",), [], empty="None.")

    assert out.export_text() == "No operations.\nNone.\n"


@pytest.mark.parametrize(("url", "noun"), [("https://a.example/b", "service"), ("ssh://deploy@a.example:22", "host")])
def test_whoever_sent_a_result_is_called_what_it_is(out: Console, url: str, noun: str) -> None:
    print_operation(out, document(result={"exit": 0}, target={"service": "a", "url": url}))

    assert f"result, as the {noun} sent it:" in out.export_text()
