"""The working image of one step: arrows from the table, evidence within bounds, one alarm for one contradiction."""

from dataclasses import replace

import pytest

from gateway.core.draft import EVIDENCE_MAX, Draft, observed_fields, sentence, undone_basis
from gateway.core.transitions import IllegalMoveError
from gateway.model.evidence import Finding, Source
from gateway.model.operation import Attempt, Kind, Operation, Standing, State
from tests.unit.core.builders import BOOT0, T0, TIMEOUT, action, now, operation


def attempt(
    standing: Standing = Standing.OPEN,
    closed: int | None = None,
    boot: str | None = "boot-1",
    status: int | None = None,
) -> Attempt:
    return Attempt(
        1, Kind.SEND, 1, T0, BOOT0, "boot-1", standing, closed_boot_ms=closed, closed_boot_id=boot, status=status
    )


def draft(live: Operation | None = None) -> Draft:
    return Draft(action(), live or operation(attempts=(attempt(),)), now())


def test_a_move_that_is_not_in_the_table_leaves_the_image_alone() -> None:
    work = draft()
    before = work.operation

    with pytest.raises(IllegalMoveError, match="no arrow leads from ready to succeeded by wish"):
        work.move("wish", State.SUCCEEDED)

    assert work.operation is before


def test_probes_count_since_the_last_change_of_state() -> None:
    work = draft(operation(state=State.IN_DOUBT, probes=3))

    work.move("looked", State.IN_DOUBT)
    assert work.operation.probes == 3

    work.move("deadline", State.UNRESOLVED)
    assert work.operation.probes == 0


def test_finishing_raises_the_version_by_one_whatever_happened() -> None:
    work = draft()
    work.change(next_ms=7)
    work.change(next_ms=8)
    work.fact("a", x=1)
    work.alert("b")

    step = work.finish()

    assert (step.operation.version, step.operation.next_ms) == (1, 8)
    assert (step.facts[0].event, step.facts[0].fields, step.alerts) == ("a", {"x": 1}, ("b",))


def test_an_attempt_is_found_by_number_and_kind_and_reports_once() -> None:
    assert draft().unseen(1, Kind.SEND).number == 1
    for number, kind in ((2, Kind.SEND), (1, Kind.FENCE)):
        with pytest.raises(IllegalMoveError):
            draft().unseen(number, kind)
    with pytest.raises(IllegalMoveError):
        draft(operation(attempts=(replace(attempt(), phase="connecting"),))).unseen(1, Kind.SEND)


def test_equal_evidence_is_counted_only_for_the_same_attempt() -> None:
    work = draft()
    for number in (1, 1, 2):
        work.saw(Source.ATTEMPT, Finding.INCONCLUSIVE, "time-out", attempt=number)

    assert [(item.attempt, item.count) for item in work.operation.evidence] == [(1, 2), (2, 1)]


def test_of_much_evidence_the_first_of_each_kind_is_kept() -> None:
    work = draft()
    work.saw(Source.PROBE, Finding.IN_PROGRESS, "running")
    for index in range(EVIDENCE_MAX * 2):
        work.saw(Source.PROBE, Finding.INCONCLUSIVE, f"answer {index}")

    kept = work.operation.evidence
    assert len(kept) == EVIDENCE_MAX
    assert [item.detail for item in kept[:2]] == ["running", "answer 0"]
    assert kept[-1].detail == f"answer {EVIDENCE_MAX * 2 - 1}"


def test_people_are_told_of_a_contradiction_once() -> None:
    work = draft()
    work.contradict()
    work.contradict()

    assert (work.alerts, work.operation.contradicted) == (["contradiction"], True)


@pytest.mark.parametrize(
    ("before", "seen_ms", "closed"),
    [
        (attempt(), BOOT0 + 5, (BOOT0 + 5, "boot-1")),
        (attempt(), None, (None, "boot-1")),
        # of two closes in one boot the later one counts
        (attempt(Standing.DOUBT, BOOT0 + 9), BOOT0 + 5, (BOOT0 + 9, "boot-1")),
        (attempt(Standing.DOUBT, BOOT0 + 9, "boot-0"), BOOT0 + 5, (BOOT0 + 5, "boot-1")),
        # taken for closed with its process, which was not dead after all
        (attempt(Standing.DOUBT, BOOT0 + 9), None, (None, None)),
    ],
)
def test_when_a_socket_was_closed(before: Attempt, seen_ms: int | None, closed: tuple[int | None, str | None]) -> None:
    fields = observed_fields(before, replace(TIMEOUT, closed_boot_ms=seen_ms), now())

    assert (fields["closed_boot_ms"], fields["closed_boot_id"]) == closed


@pytest.mark.parametrize(
    ("attempts", "basis"),
    [
        ([], "unsent"),
        ([attempt(Standing.UNSENT)], "unsent"),
        ([attempt(Standing.UNSENT, status=429)], "answer"),
        ([attempt(Standing.REFUSED, status=403)], "answer"),
        ([attempt(Standing.ABSENT), attempt(Standing.UNSENT)], "absence"),
        ([attempt(Standing.ABSENT), attempt(Standing.REFUSED, status=403)], "absence"),
    ],
)
def test_what_not_executed_rests_on(attempts: list[Attempt], basis: str) -> None:
    assert undone_basis(operation(attempts=tuple(attempts))) == basis


@pytest.mark.parametrize(("text", "told"), [("", ""), ("TLS was cut", "TLS was cut."), ("a 5xx came", "A 5xx came.")])
def test_a_reason_becomes_a_sentence(text: str, told: str) -> None:
    assert sentence(text) == told
