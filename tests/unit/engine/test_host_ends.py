"""What the store's settled operations tell a new process of what hosts still have to know."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import HostEnd
from gateway.engine.host_ends import ENOUGH, LOOK_BACK, ends_of, ends_on_hosts
from gateway.engine.revive import Revival
from gateway.model.action import Action
from gateway.model.evidence import Evidence, Finding, Source
from gateway.model.operation import Attempt, Executed, Kind, Operation, Standing, State
from gateway.model.step import StepSeen, StepState
from gateway.store.port import Filter, Page
from tests.unit.catalog.commands import COMMAND, EFFECT, STATUS, compiled
from tests.unit.core.builders import OP_ID, T0, action, operation
from tests.unit.core.jobs import job

END = HostEnd("web-1.example.com", 22, "s0123456789abcdef", OP_ID, 1, T0 + 5, T0 + 90)


def sends(*kinds: Kind) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(number, kind, number, 0, 0, "boot-1", Standing.SETTLED) for number, kind in enumerate(kinds, 1)
    )


def ended(**changes: Any) -> Operation:
    """A command that the host's record says has ended."""
    plain = operation(
        target_service="web-1",
        state=State.SUCCEEDED,
        executed=Executed.YES,
        basis="probe",
        attempts=sends(Kind.SEND),
        begun_ms=T0 + 5,
        final_ms=T0 + 90,
    )
    return replace(plain, **changes)


def answered_by(number: int) -> Evidence:
    return Evidence(Source.ATTEMPT, Finding.EXECUTED_FAILED, T0, "it ended", number)


def test_an_end_carries_the_names_under_which_the_host_holds_it() -> None:
    assert list(ends_of(ended(), compiled())) == [END]
    failed = ended(state=State.FAILED, attempts=sends(Kind.SEND, Kind.FENCE, Kind.SEND))
    assert list(ends_of(failed, compiled())) == [replace(END, attempt=2)]


def test_a_late_answer_is_the_record_of_its_own_attempt_and_not_of_the_newest() -> None:
    story = {"basis": "answer", "attempts": sends(Kind.SEND, Kind.FENCE, Kind.SEND)}

    assert list(ends_of(ended(**story, evidence=(answered_by(1),)), compiled())) == [END]
    assert list(ends_of(ended(**story, evidence=(answered_by(3),)), compiled())) == [replace(END, attempt=2)]
    # A fence's number is nobody's record.
    assert list(ends_of(ended(**story, evidence=(answered_by(2),)), compiled())) == []


@pytest.mark.parametrize(
    ("settled", "by"),
    [
        (ended(basis="fence", executed=Executed.NO, state=State.FAILED), compiled()),
        (ended(basis="attestation"), compiled()),
        (ended(executed=Executed.UNKNOWN, state=State.FAILED), compiled()),
        (ended(contradicted=True), compiled()),
        (
            ended(basis="answer", evidence=(answered_by(1),)),
            compiled((EFFECT, "    effect: read\n"), ('    conflict_key: "migrate:{version}"\n', "")),
        ),
        (ended(), compiled((COMMAND, COMMAND + STATUS))),
        (ended(), action()),
    ],
    ids=["fenced", "attested", "unclear", "contradicted", "no record", "a status command's word", "a service"],
)
def test_what_is_no_record_of_an_end_says_nothing_about_a_host(settled: Operation, by: Action) -> None:
    assert list(ends_of(settled, by)) == []


def test_of_a_job_each_step_with_an_exit_record_counts_however_the_job_was_settled() -> None:
    steps = (
        StepSeen("backup", StepState.SUCCEEDED, 0),
        StepSeen("migrate", StepState.FAILED, 3, marker=2),
        StepSeen("restart"),
    )

    assert list(ends_of(ended(basis="attestation", state=State.FAILED, steps=steps), job())) == [
        replace(END, operation=f"{OP_ID}.backup"),
        replace(END, operation=f"{OP_ID}.migrate", attempt=2),
    ]


class Settled:
    """Pages of settled operations, newest first, without an end if `endless`."""

    def __init__(self, *pages: Sequence[Operation], endless: bool = False) -> None:
        self.pages = pages
        self.endless = endless
        self.asked: list[Filter] = []

    async def list(self, wanted: Filter) -> Page:
        self.asked.append(wanted)
        number = int(wanted.cursor or 0)
        more = self.endless or number + 1 < len(self.pages)
        found = self.pages[number] if number < len(self.pages) else []
        return Page(tuple(found), str(number + 1) if more else None)


class Known(Revival):
    """Every operation is the one command's."""

    def __init__(self) -> None:
        self.by = compiled()

    async def action(self, operation: Operation) -> Action:
        return self.by


async def test_settled_operations_are_read_until_each_host_has_enough() -> None:
    store = Settled([operation(), ended()], [ended()] * ENOUGH, [ended()])

    found = await ends_on_hosts(store, Known(), ["web-1"])

    assert found == [END] * (ENOUGH + 1)
    assert [item.cursor for item in store.asked] == [None, "1"]
    assert {item.states for item in store.asked} == {("succeeded", "failed")}


async def test_a_start_reads_only_so_far_back_for_a_host_that_nothing_ran_on() -> None:
    store = Settled([ended()], endless=True)

    assert await ends_on_hosts(store, Known(), ["web-1", "web-2"]) == [END]
    assert sum(item.limit for item in store.asked) == LOOK_BACK
