"""Is a submission new, the same one again, or a repeat to refuse? Rules 4 to 8, in the order in which they speak."""

from dataclasses import replace

import pytest

from gateway.core.identity import Rivals, Ruling, Tombstone, Verdict, decide
from gateway.core.ids import mint_key
from gateway.model.operation import Executed, Operation, State
from gateway.model.problem import Code
from tests.unit.core.builders import T0, operation

WINDOW_MS = 600_000
OURS = operation(id="op_1", key="task-9")
KEYLESS = replace(OURS, key=None)
OTHER = "e" * 64


def ended(state: State = State.SUCCEEDED, executed: Executed = Executed.YES, **changes: object) -> Operation:
    plain = replace(OURS, state=state, executed=executed, final_ms=T0, delivered=True)
    return replace(plain, **changes)  # type: ignore[arg-type]  # names and types are those of the operation


def rule(candidate: Operation, rivals: Rivals, *, is_read: bool = False) -> Verdict:
    return decide(candidate, rivals, repeat_window_ms=WINDOW_MS, is_read=is_read)


CANDIDATE = replace(OURS, id="op_2")
BARE = replace(KEYLESS, id="op_2")
OTHER_KEY = replace(OURS, id="op_2", key="task-10")
MINTED = replace(OURS, id="op_2", key=mint_key(bytes(16)))
UNSETTLED = [State.HELD, State.READY, State.SENDING, State.ACCEPTED, State.IN_DOUBT, State.UNRESOLVED]


def test_nothing_like_it_is_new() -> None:
    assert rule(CANDIDATE, Rivals()) == Verdict(Ruling.CREATE)


@pytest.mark.parametrize("state", UNSETTLED)
def test_the_same_key_and_request_join_the_operation_while_it_lives(state: State) -> None:
    live = replace(OURS, state=state)

    assert rule(CANDIDATE, Rivals(same_key=live)) == Verdict(Ruling.JOIN, operation=live)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED])
def test_the_same_key_and_request_are_answered_with_the_stored_outcome(state: State) -> None:
    over = ended(state)

    assert rule(CANDIDATE, Rivals(same_key=over)) == Verdict(Ruling.REPLAY, operation=over)


@pytest.mark.parametrize("rival", [OURS, ended(), ended(State.CANCELLED, Executed.NO)])
def test_the_same_key_for_another_request_is_refused_in_every_state(rival: Operation) -> None:
    assert rule(replace(CANDIDATE, fingerprint=OTHER), Rivals(same_key=rival)) == Verdict(
        Ruling.REFUSE, Code.KEY_REUSED, rival
    )


def test_a_key_is_remembered_beyond_its_operation() -> None:
    tombstone = Tombstone("op_1", OURS.fingerprint, "success")

    assert rule(CANDIDATE, Rivals(same_key=tombstone)) == Verdict(Ruling.REPLAY, expired_id="op_1")
    assert rule(replace(CANDIDATE, fingerprint=OTHER), Rivals(same_key=tombstone)) == Verdict(
        Ruling.REFUSE, Code.KEY_REUSED
    )


@pytest.mark.parametrize("candidate", [CANDIDATE, OTHER_KEY, BARE])
def test_what_a_restored_store_lost_unsettled_is_refused_under_every_key(candidate: Operation) -> None:
    lost = Tombstone("op_1", OURS.fingerprint, None, lost=True)
    rivals = Rivals(same_key=lost) if candidate is CANDIDATE else Rivals(lost=lost)

    assert rule(candidate, rivals) == Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, expired_id="op_1")
    assert rule(BARE, Rivals(lost=lost), is_read=True) == Verdict(Ruling.CREATE)


def test_what_a_restored_store_lost_settled_is_a_repeat_unless_a_new_key_is_given_on_purpose() -> None:
    lost = Tombstone("op_1", OURS.fingerprint, "success", lost=True)

    assert rule(CANDIDATE, Rivals(same_key=lost)) == Verdict(Ruling.REPLAY, expired_id="op_1")
    assert rule(BARE, Rivals(lost=lost)) == Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, expired_id="op_1")
    assert rule(OTHER_KEY, Rivals(lost=lost)) == Verdict(Ruling.CREATE)


@pytest.mark.parametrize("earlier", [OURS, KEYLESS])
def test_without_a_key_the_same_request_joins_what_is_unsettled(earlier: Operation) -> None:
    assert rule(BARE, Rivals(same_fingerprint=earlier)) == Verdict(Ruling.JOIN, operation=earlier)


@pytest.mark.parametrize("earlier", [OURS, KEYLESS])
def test_another_key_for_the_same_unsettled_request_is_refused(earlier: Operation) -> None:
    assert rule(OTHER_KEY, Rivals(same_fingerprint=earlier)) == Verdict(
        Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, earlier
    )


@pytest.mark.parametrize("candidate", [BARE, OTHER_KEY])
def test_an_unsettled_operation_with_the_same_conflict_key_stands_in_the_way(candidate: Operation) -> None:
    rival = replace(OURS, caller="somebody else", fingerprint=OTHER)

    assert rule(candidate, Rivals(same_conflict_key=rival)) == Verdict(Ruling.REFUSE, Code.PREDECESSOR_UNSETTLED, rival)


def test_the_key_speaks_first_then_the_request_then_the_conflict_key_then_the_past() -> None:
    live, over = replace(OURS, id="op_live"), ended(id="op_over")
    everything = Rivals(same_key=over, same_fingerprint=live, same_conflict_key=live, last_final=over)

    assert rule(CANDIDATE, everything).ruling is Ruling.REPLAY
    assert rule(BARE, replace(everything, same_key=None)).ruling is Ruling.JOIN
    assert rule(BARE, replace(everything, same_key=None, same_fingerprint=None)).code is Code.PREDECESSOR_UNSETTLED
    assert rule(BARE, Rivals(last_final=over)).code is Code.PROBABLE_REPEAT


# --- rule 8: the same request soon after it was finished -------------------------------------------------------------


def after(milliseconds: int) -> Operation:
    return replace(BARE, created_ms=T0 + milliseconds)


LONG = ended(created_ms=T0 - 10 * WINDOW_MS)
PROBABLE = Verdict(Ruling.REFUSE, Code.PROBABLE_REPEAT, ended())


@pytest.mark.parametrize(
    ("candidate", "last", "verdict"),
    [
        (after(1), ended(), PROBABLE),
        (after(WINDOW_MS), ended(), PROBABLE),
        (after(WINDOW_MS + 1), ended(), Verdict(Ruling.CREATE)),
        # counted from the end, not from the start
        (after(1), LONG, replace(PROBABLE, operation=LONG)),
        # a clock that stepped back makes it no less probable
        (after(-5_000), ended(), PROBABLE),
        # its answer never arrived, so this is the caller asking again
        (after(1), ended(delivered=False), Verdict(Ruling.REPLAY, operation=ended(delivered=False))),
        # nothing was executed, so there is nothing to repeat
        (after(1), ended(State.FAILED, Executed.NO), Verdict(Ruling.CREATE)),
        (after(1), ended(State.CANCELLED, Executed.NO), Verdict(Ruling.CREATE)),
        (after(1), ended(State.FAILED, Executed.YES), replace(PROBABLE, operation=ended(State.FAILED))),
        (
            after(1),
            ended(State.FAILED, Executed.UNKNOWN),
            replace(PROBABLE, operation=ended(State.FAILED, Executed.UNKNOWN)),
        ),
        # called not executed, and contradicted since
        (
            after(1),
            ended(State.FAILED, Executed.NO, contradicted=True),
            replace(PROBABLE, operation=ended(State.FAILED, Executed.NO, contradicted=True)),
        ),
        # a key given on purpose says that it is meant
        (replace(OTHER_KEY, created_ms=T0 + 1), ended(), Verdict(Ruling.CREATE)),
    ],
)  # fmt: skip
def test_a_keyless_request_soon_after_an_equal_one(candidate: Operation, last: Operation, verdict: Verdict) -> None:
    assert rule(candidate, Rivals(last_final=last)) == verdict


def test_reads_may_be_repeated_at_will() -> None:
    assert rule(after(1), Rivals(last_final=ended()), is_read=True) == Verdict(Ruling.CREATE)


# --- keys that a tool made -------------------------------------------------------------------------------------------


def test_a_minted_key_names_its_operation_like_any_other() -> None:
    first = replace(MINTED, id="op_1")

    assert rule(MINTED, Rivals(same_key=first)) == Verdict(Ruling.JOIN, operation=first)
    assert rule(replace(MINTED, fingerprint=OTHER), Rivals(same_key=first)).code is Code.KEY_REUSED


def test_a_minted_key_does_not_say_that_a_repeat_is_meant() -> None:
    lost = Tombstone("op_1", OURS.fingerprint, "success", lost=True)

    for bare, minted in ((BARE, MINTED), (after(1), replace(MINTED, created_ms=T0 + 1))):
        for rivals in (
            Rivals(same_fingerprint=OURS),
            Rivals(last_final=ended()),
            Rivals(last_final=ended(delivered=False)),
            Rivals(lost=lost),
        ):
            assert rule(minted, rivals) == rule(bare, rivals)
            assert rule(minted, rivals) != Verdict(Ruling.CREATE)


def test_only_the_exact_form_of_a_minted_key_counts_as_minted() -> None:
    for key in ("minted-deploy", "minted-" + "0" * 31, "minted-" + "A" * 32, "minted-" + "0" * 33):
        assert rule(replace(MINTED, key=key), Rivals(last_final=ended())) == Verdict(Ruling.CREATE)
