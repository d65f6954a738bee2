"""The story over HTTP waits for what it is about, and not for a look that happens to be under way."""

from pathlib import Path
from typing import Any

import pytest

from gateway.surfaces.cli.demo import http_story
from gateway.surfaces.cli.demo.cases import BY_NAME, Case
from gateway.surfaces.cli.demo.http_story import HttpStory
from gateway.surfaces.cli.demo.show import Show


class Callers:
    """Each look is answered with the next of these findings so far, and then with the last again."""

    def __init__(self, *findings: str, outcome: str = "unknown") -> None:
        self._findings = findings
        self._outcome = outcome
        self.looks = 0

    async def reconcile(self, case: Case) -> dict[str, Any]:
        self.looks += 1
        seen = [{"finding": finding} for finding in self._findings[: self.looks]]
        return {"operation_id": case.name, "outcome": self._outcome, "evidence": seen}


class Kit:
    """Lets through whatever is held up."""

    async def release_proxy(self) -> None:
        """Nothing is held up."""

    async def has_effect(self, operation: str) -> None:
        """It has."""


async def complaints(tmp_path: Path, callers: Callers) -> list[str]:
    story = HttpStory(tmp_path, {}, Show(None))
    story._kit = Kit()  # type: ignore[assignment]  # what is used of it here
    await story._let_the_late_one_through(BY_NAME["late"], callers)  # type: ignore[arg-type]  # what is used of them
    return story._wrong


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_story, "LOOK_SECONDS", 0)


async def test_a_look_that_was_under_way_and_failed_is_not_the_one_that_the_story_tells_of(tmp_path: Path) -> None:
    callers = Callers("inconclusive", "inconclusive", "absent")

    assert await complaints(tmp_path, callers) == []
    # Once more when it has arrived.
    assert callers.looks == 4


async def test_a_record_that_never_says_absent_and_a_claim_too_early_are_found_out(tmp_path: Path) -> None:
    (never,) = await complaints(tmp_path, Callers("inconclusive"))
    assert never.endswith("late: looked, and found inconclusive.")

    early = Callers("absent", outcome="error")
    (told,) = await complaints(tmp_path, early)
    assert told.endswith("late: error while on its way.")
    assert early.looks == 2
