"""Whatever happens in whatever order, a step keeps the promises of the lifecycle; and each rule told as a story."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.agenda import Act, Item, next_item
from gateway.core.events import (
    Attested,
    BaselineTaken,
    Cancelled,
    DeadlinePassed,
    Event,
    FenceObserved,
    Followed,
    HeadSeen,
    LeaseLost,
    Observed,
    Polled,
    Probed,
    Restarted,
    Sighting,
)
from gateway.core.judge import Claim, claim
from gateway.core.lifecycle import step
from gateway.core.repeat import same_key_refusal
from gateway.core.transitions import ARROWS, IllegalMoveError
from gateway.model.action import Action, Resend
from gateway.model.evidence import Finding, Source
from gateway.model.operation import (
    Executed,
    Now,
    Operation,
    Outcome,
    Standing,
    State,
)
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    FENCE,
    FENCED,
    LOOK_UP,
    OP_ID,
    SAME_KEY,
    SETTLE,
    STATE,
    T0,
    TIMEOUT,
    UNSENT,
    Story,
    action,
    answer,
    now,
    operation,
    read,
    seen,
    statuses,
)
from tests.unit.core.stories import (
    ATTEST_ERROR,
    ATTEST_SUCCESS,
    HANDLE,
    accepted,
    looked_up,
    lost_lease,
    plain,
    repeating,
    settled,
    unresolved,
)

_ARROWS = {(arrow.source, arrow.target) for arrow in ARROWS}
PAIRS = _ARROWS | {(a, c) for a, b in _ARROWS for source, c in _ARROWS if b is source and b is State.IN_DOUBT}
"""From where to where one event may lead: by one arrow, or into doubt and at once out of it."""
PROVEN = {Standing.UNSENT, Standing.REFUSED, Standing.ABSENT, Standing.FENCED}

ACTIONS = [
    action(),
    action(reconcile=LOOK_UP, refused_before_work=statuses(429)),
    action(reconcile=SETTLE, resend=Resend.ON_ABSENCE, accepted=ACCEPTED, exists=statuses(409)),
    action(reconcile=LOOK_UP, accepted=ACCEPTED, in_flight=statuses(409), **SAME_KEY),
    action(reconcile=FENCED, accepted=ACCEPTED),
    action("PUT", reconcile=STATE),
    action(attempts_max=2, accepted=ACCEPTED, **SAME_KEY),
    read(accepted=ACCEPTED, attempts_max=2),
]
OBSERVATIONS = [
    TIMEOUT,
    TIMEOUT,
    UNSENT,
    seen(closed_boot_ms=None),
    seen(status=201, summary="the answer's body was cut"),
    seen(contradictions=("the answer came before the request was fully written",), status=200),
    answer(201),
    answer(202, b"", ("Location", HANDLE)),
    answer(202),
    answer(303),
    answer(403),
    answer(404),
    answer(409),
    answer(421),
    answer(429, b"", ("Retry-After", "99999999")),
    answer(500),
]


@dataclass(frozen=True)
class Happening:
    """One thing that happens: which event, with which details, after which jump of the clocks."""

    event: str
    finding: Finding
    observation: int
    attempt: int
    wall: int
    boot: int
    reboot: bool
    flag: bool | None


HAPPENINGS = st.builds(
    Happening,
    event=st.sampled_from(
        [
            "agenda",
            "agenda",
            "agenda",
            "observed",
            "head",
            "restarted",
            "lease_lost",
            "followed",
            "probed",
            "polled",
            "baseline",
            "fence_begun",
            "fence_observed",
            "deadline",
            "cancelled",
            "attested",
            "begin",
        ]
    ),
    finding=st.sampled_from(Finding),
    observation=st.integers(0, len(OBSERVATIONS) - 1),
    attempt=st.integers(1, 4),
    wall=st.sampled_from([0, 1, 500, 2_000, 31_000, 31_000, 400_000, 4_000_000, -3_000, -3_600_000]),
    boot=st.sampled_from([0, 500, 2_000, 31_000, 31_000]),
    reboot=st.sampled_from([False, False, False, True]),
    flag=st.sampled_from([True, False, None]),
)


def event_of(what: Happening, moment: Now) -> Event:
    """The event as it would be reported at `moment`."""
    sighting = Sighting(
        what.finding,
        what.finding.value,
        Executed.NO if what.flag is False else None,
        wait_seconds=1e9 if what.flag else None,
        contradiction=what.finding is Finding.INCONCLUSIVE and what.flag is True,
    )
    shown = replace(OBSERVATIONS[what.observation], ended_ms=moment.wall_ms)
    if shown.closed_boot_ms is not None:
        shown = replace(shown, closed_boot_ms=moment.boot_ms)
    outcome, executed = (Outcome.SUCCESS, Executed.YES) if what.flag else (Outcome.ERROR, Executed.UNKNOWN)
    events: dict[str, Event] = {
        "begin": BEGIN,
        "observed": Observed(what.attempt, shown, {"operation_id": OP_ID}),
        "head": HeadSeen(what.attempt, HANDLE if what.flag else None, "thing-7"),
        "restarted": Restarted(sole_owner=what.flag is not False),
        "lease_lost": LeaseLost(),
        "followed": Followed(),
        "probed": Probed(sighting, moment.wall_ms, moment.boot_ms),
        "polled": Polled(sighting, moment.wall_ms),
        "baseline": BaselineTaken(sighting, moment.wall_ms),
        "fence_begun": FENCE,
        "fence_observed": FenceObserved(what.attempt, shown, what.flag),
        "deadline": DeadlinePassed(),
        "cancelled": Cancelled("agent"),
        "attested": Attested("ann", "looked", "a" * 64, outcome, executed),
    }
    return events[what.event]


def agreed(item: Item, what: Happening, live: Operation, moment: Now) -> Event | None:
    """The event by which the driver would carry out what the agenda says; None where it only waits."""
    names = {
        Act.BASELINE: "baseline",
        Act.BEGIN: "begin",
        Act.FOLLOW: "followed",
        Act.POLL: "polled",
        Act.PROBE: "probed",
        Act.FENCE: "fence_begun",
        Act.DEADLINE: "deadline",
        Act.LEASE_LOST: "lease_lost",
    }
    if item.act not in names:
        if live.state is State.SENDING:
            return event_of(replace(what, event="observed", attempt=len(live.attempts)), moment)
        return None
    return event_of(replace(what, event=names[item.act]), moment)


def moved(moment: Now, what: Happening) -> Now:
    """The clocks some time later: the wall clock may step either way, the boot clock only forward within one boot."""
    if what.reboot:
        return replace(moment, wall_ms=moment.wall_ms + what.wall, boot_ms=what.boot, boot_id=moment.boot_id + "'")
    return replace(moment, wall_ms=moment.wall_ms + what.wall, boot_ms=moment.boot_ms + what.boot)


def check(rules: Action, before: Operation, after: Operation) -> None:
    """Everything that one step must keep."""
    assert (before.state, after.state) in PAIRS
    assert after.version == before.version + 1
    for name in ("begun_ms", "begun_boot_ms", "recovery_ms", "id", "fingerprint", "request_sha256", "start_by_ms"):
        assert getattr(before, name) in {None, getattr(after, name)}, name
    if before.final:
        assert (after.state, after.executed, after.basis) == (before.state, before.executed, before.basis)
        assert after.final_ms == before.final_ms
    assert not (before.state is State.UNRESOLVED and after.state is State.READY)
    assert not (before.ambiguous and after.state is State.CANCELLED)
    _check_attempts(rules, before, after)
    _check_claims(before, after)


def _check_attempts(rules: Action, before: Operation, after: Operation) -> None:
    assert [item.number for item in after.attempts] == list(range(1, len(after.attempts) + 1))
    assert len(after.sends) <= rules.attempts_max
    if len(after.attempts) > len(before.attempts):
        assert len(after.attempts) == len(before.attempts) + 1
        assert after.attempts[-1].fence == after.fence == before.fence + 1
    else:
        assert after.fence == before.fence
    assert (after.state is State.SENDING) <= (
        after.attempts[-1:] != () and after.attempts[-1].standing is Standing.OPEN
    )
    assert sum(item.standing is Standing.OPEN for item in after.sends) <= 1
    lost = {Standing.OPEN, Standing.DOUBT}
    assert after.ambiguous is (not after.final and any(item.standing in lost for item in after.attempts))


def _check_claims(before: Operation, after: Operation) -> None:
    unsent = Claim(None, Executed.NO)
    expected = {
        State.HELD: unsent,
        State.READY: Claim(Outcome.UNKNOWN, Executed.UNKNOWN) if after.ambiguous else unsent,
        State.SUCCEEDED: Claim(Outcome.SUCCESS, Executed.YES),
        State.FAILED: Claim(Outcome.ERROR, after.executed),
        State.CANCELLED: Claim(Outcome.ERROR, Executed.NO),
    }.get(after.state, Claim(Outcome.UNKNOWN, Executed.UNKNOWN))
    assert claim(after) == expected
    denied = after.final and after.executed is Executed.NO
    if denied and not before.final and after.basis not in {"attestation", "probe", "handle"}:
        # Denied by us: each attempt is proven one by one. (Denied by the service's own word: see `_speaks_for_all`.)
        assert {item.standing for item in after.sends} <= PROVEN
    if after.state is State.SUCCEEDED and not before.final:
        assert after.sends


def walk(rules: Action, happenings: list[Happening]) -> None:
    live = operation(effect=rules.effect.value)
    moment = now()
    for what in happenings:
        moment = moved(moment, what)
        if what.reboot:
            moment = replace(moment, owner=moment.owner + "'")
        image = live
        item = next_item(rules, live, moment)
        _check_agenda(rules, live, item)
        told = agreed(item, what, live, moment) if what.event == "agenda" else event_of(what, moment)
        if told is None:
            continue
        try:
            taken = step(rules, live, told, moment)
        except IllegalMoveError:
            # What the agenda asks for must fit, or its driver would ask for ever.
            assert what.event != "agenda", (item, live.state)
            assert live == image
            continue
        check(rules, live, taken.operation)
        live = taken.operation


def _check_agenda(rules: Action, live: Operation, item: Item) -> None:
    if item.act is Act.NOTHING:
        watch_over = live.state is State.UNRESOLVED and live.next_ms is None
        assert live.final or live.state is State.HELD or watch_over
    if item.act is Act.WAIT:
        assert item.at_ms is not None
    if item.act is Act.BEGIN and live.sends:
        assert live.recovery_ms is not None


@settings(max_examples=400)
@given(st.sampled_from(ACTIONS), st.lists(HAPPENINGS, min_size=5, max_size=40))
def test_no_order_of_events_breaks_a_promise(rules: Action, happenings: list[Happening]) -> None:
    walk(rules, happenings)


def test_lost_answer_stays_unknown_until_a_look_proves_success() -> None:
    story = looked_up().in_doubt()
    assert claim(story.operation) == Claim(Outcome.UNKNOWN, Executed.UNKNOWN)

    story.look(Finding.INCONCLUSIVE).look(Finding.EXECUTED_OK)

    assert story.path == ["sending", "in_doubt", "in_doubt", "succeeded"]
    assert story.ending == ("succeeded", "yes", "probe")


@pytest.mark.parametrize(
    "story",
    [plain().tell(BEGIN), accepted(), looked_up().in_doubt(), unresolved(), repeating()],
    ids=["sending", "accepted", "in_doubt", "unresolved", "ready"],
)
def test_cancel_is_refused_while_an_attempt_may_have_been_carried_out(story: Story) -> None:
    with pytest.raises(IllegalMoveError, match="cancel is not possible"):
        story.tell(Cancelled("agent"))


def test_cancel_between_unsent_attempts_says_that_nothing_was_executed() -> None:
    story = plain().send(UNSENT).tell(Cancelled("agent"))

    assert story.ending == ("cancelled", "no", "unsent")
    assert story.steps[-1].facts[0].fields == {"actor": "agent"}


def test_a_crash_loop_cannot_move_the_recovery_deadline() -> None:
    story = looked_up().tell(BEGIN)
    deadline = story.operation.recovery_ms

    for _ in range(20):
        story.tell(Restarted(), after=20)

    assert story.operation.recovery_ms == deadline == T0 + 300_000
    assert next_item(story.action, story.operation, story.now).act is Act.PROBE
    assert story.look(Finding.ABSENT).state is State.UNRESOLVED


def test_a_restart_looks_at_once_but_keeps_the_wait_before_a_send() -> None:
    waiting = Story(action(resend=Resend.ON_ABSENCE, refused_before_work=statuses(429)))
    waiting.send(answer(429, b"", ("Retry-After", "60")))
    due = waiting.operation.next_ms
    searching = looked_up().in_doubt().look(Finding.ABSENT)

    assert waiting.tell(Restarted(), after=1).operation.next_ms == due == T0 + 60_000
    assert searching.tell(Restarted()).operation.next_ms == searching.now.wall_ms


def test_a_restart_ends_the_looks_of_the_owner_before() -> None:
    story = settled().in_doubt().look(Finding.ABSENT, after=31)
    assert len(story.operation.looks) == 1

    assert story.tell(Restarted()).operation.looks == ()


@pytest.mark.parametrize(
    ("event", "ending"),
    [(ATTEST_SUCCESS, ("succeeded", "yes", "attestation")), (ATTEST_ERROR, ("failed", "no", "attestation"))],
)
def test_a_person_settles_what_nothing_else_can(event: Attested, ending: tuple[str, str, str]) -> None:
    story = plain().in_doubt().tell(event)

    assert story.ending == ending
    assert story.operation.attestation is not None
    assert story.operation.attestation.person == "ann"
    assert story.operation.evidence[-1].source is Source.ATTESTATION


@pytest.mark.parametrize(
    "event",
    [replace(ATTEST_ERROR, outcome=Outcome.UNKNOWN), replace(ATTEST_SUCCESS, executed=Executed.NO)],
)
def test_a_person_cannot_settle_as_unknown_or_as_a_success_that_never_ran(event: Attested) -> None:
    story = unresolved()
    before = story.operation

    with pytest.raises(IllegalMoveError):
        story.tell(event)

    assert story.operation == before


def test_proof_after_an_attested_failure_raises_one_alarm_and_changes_no_state() -> None:
    story = unresolved().tell(ATTEST_ERROR).look(Finding.EXECUTED_OK).look(Finding.EXECUTED_OK)

    assert story.ending == ("failed", "no", "attestation")
    assert story.operation.contradicted
    assert story.alerts == ["unresolved", "contradiction"]


def test_a_baseline_that_shows_nothing_is_taken_again_until_it_is_too_late_to_start() -> None:
    story = Story(action(reconcile=STATE))
    for _ in range(3):
        story.tell(BaselineTaken(Sighting(Finding.INCONCLUSIVE, "503"), story.now.wall_ms), after=60)
    assert story.operation.baseline is None
    assert next_item(story.action, story.operation, story.now).act is Act.WAIT
    with pytest.raises(IllegalMoveError, match="look before the first send"):
        story.tell(BEGIN)

    assert next_item(story.action, story.operation, story.wait(3600).now).act is Act.DEADLINE
    assert story.tell(DeadlinePassed()).ending == ("cancelled", "no", "unsent")


@pytest.mark.parametrize("finding", [Finding.ABSENT, Finding.EXECUTED_OK, Finding.EXECUTED_FAILED])
def test_a_clear_baseline_is_kept_and_the_send_follows(finding: Finding) -> None:
    story = Story(action(reconcile=STATE)).tell(BaselineTaken(Sighting(finding, "seen"), T0))

    assert story.operation.baseline == finding.value
    assert next_item(story.action, story.operation, story.now).act is Act.BEGIN
    assert story.tell(BEGIN).state is State.SENDING


def test_an_operation_that_was_begun_has_no_baseline_any_more() -> None:
    with pytest.raises(IllegalMoveError, match="already begun"):
        plain().send(UNSENT).tell(BaselineTaken(Sighting(Finding.ABSENT, "not so"), T0))


def test_a_deadline_that_has_not_passed_is_refused() -> None:
    for story in (plain(), looked_up().in_doubt()):
        with pytest.raises(IllegalMoveError, match=r"may still start|has not passed"):
            story.tell(DeadlinePassed())


def test_no_handle_no_following() -> None:
    with pytest.raises(IllegalMoveError, match="no handle"):
        looked_up().in_doubt().tell(Followed())


def test_a_lost_lease_leaves_the_attempt_in_doubt_with_its_socket_of_unknown_end() -> None:
    story = lost_lease(settled())

    attempt = story.operation.attempts[0]
    assert (attempt.standing, attempt.closed_boot_ms, attempt.phase) == (Standing.DOUBT, None, None)
    assert story.operation.lease is None
    assert story.operation.evidence[-1].detail == "the lease ran out before anything was reported"


@pytest.mark.parametrize("wall", [-3_600_000, 0, 3_600_000])
def test_a_stepped_clock_delays_or_ends_the_search_and_claims_nothing(wall: int) -> None:
    story = looked_up().in_doubt()
    story.now = replace(story.now, wall_ms=story.now.wall_ms + wall)

    story.look(Finding.ABSENT)

    assert story.state is (State.UNRESOLVED if wall > 0 else State.IN_DOUBT)
    assert claim(story.operation).outcome is Outcome.UNKNOWN


def test_a_clock_seen_behind_after_a_reboot_closes_the_same_key_path_also_when_it_has_caught_up() -> None:
    story = Story(action(reconcile=LOOK_UP, **SAME_KEY)).in_doubt()
    begun = story.now
    # An hour of real time is going to be missing: the machine comes up with its clock put back.
    story.now = replace(begun, wall_ms=begun.wall_ms - 3_600_000, boot_ms=1000, boot_id="boot-2", owner="owner-2")
    story.tell(Restarted())
    story.now = replace(story.now, wall_ms=begun.wall_ms + 1000, boot_ms=3_602_000)

    assert same_key_refusal(story.action, story.operation, begun) is not None
    assert same_key_refusal(story.action, story.operation, story.now) is not None
