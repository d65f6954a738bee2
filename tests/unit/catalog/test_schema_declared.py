"""Whatever an action does, its owner declares the same of it."""

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.catalog.schema import ActionForm, runs_command
from gateway.catalog.schema_declared import DeclaredForm
from gateway.catalog.schema_hosts import CommandForm, exit_ranges

PLAIN: dict[str, Any] = {"description": "x", "effect": "reversible", "input": {}}
OF_A_REQUEST: dict[str, Any] = {"service": "api", "request": {"method": "POST", "path": "/x"}}
OF_A_COMMAND: dict[str, Any] = {"host": "web-1", "command": ["ls"]}


@pytest.mark.parametrize(("form", "own"), [(ActionForm, OF_A_REQUEST), (CommandForm, OF_A_COMMAND)])
def test_both_kinds_of_action_declare_the_same(form: type[DeclaredForm], own: dict[str, Any]) -> None:
    made = form.model_validate(PLAIN | own)

    assert set(DeclaredForm.model_fields) < set(form.model_fields)
    assert (made.attempts_max, made.deadlines.request, made.repeat_window) == (3, "10s", "10m")
    with pytest.raises(ValidationError, match="go together"):
        form.model_validate(PLAIN | own | {"unknown_accepted": True})


@pytest.mark.parametrize(
    ("written", "is_command"),
    [
        (OF_A_COMMAND, True),
        ({"command": ["ls"]}, True),
        ({"steps": []}, True),
        (OF_A_REQUEST, False),
        (OF_A_REQUEST | OF_A_COMMAND, False),
        ({}, False),
        (5, False),
    ],
)
def test_what_an_action_holds_says_which_kind_it_is(written: object, is_command: bool) -> None:
    assert runs_command(written) is is_command


@pytest.mark.parametrize(
    ("written", "ranges"),
    [(0, ((0, 0),)), ("3", ((3, 3),)), ("1-255", ((1, 255),)), ([0, "2-4"], ((0, 0), (2, 4)))],
)
def test_exit_statuses_are_ranges(written: object, ranges: tuple[tuple[int, int], ...]) -> None:
    assert exit_ranges(written) == ranges


@pytest.mark.parametrize("written", [True, -1, 256, "2-1", "x", "0-256", 1.0, None, [None]])
def test_what_is_no_exit_status_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="not an exit status"):
        exit_ranges(written)
