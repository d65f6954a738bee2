"""Faults planted into the core on purpose: a checker that does not notice them proves nothing."""

from collections.abc import Callable

import pytest

from gateway.core import attempts, doubt, fences, judge, lifecycle
from gateway.core.draft import Draft
from gateway.core.reconcile import absence, fence
from gateway.core.reconcile.absence import AbsenceVerdict
from gateway.core.repeat import Permission
from gateway.model.action import Settle
from gateway.model.operation import AMBIGUOUS_STANDINGS, Executed, Failure, Now, Operation, Standing, State
from tests.model.world import search

SEEDS = 400
Plant = Callable[[pytest.MonkeyPatch], None]


def repeat_on_time_out(patch: pytest.MonkeyPatch) -> None:
    def willing(action: object, operation: Operation, now: Now) -> Permission:
        return Permission(allowed=len(operation.sends) < 3, rule="x", reason="the first one timed out")

    patch.setattr(attempts, "may_repeat", willing)
    patch.setattr(doubt, "may_repeat", willing)


def server_error_means_error(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "UNDONE", judge.UNDONE | {500})


def absent_means_never(patch: pytest.MonkeyPatch) -> None:
    verdict = AbsenceVerdict(conclusive=True, looks=(), wait_seconds=0.0, reason="not there")
    patch.setattr(doubt, "weigh", lambda *_: verdict)


def ambiguity_forgotten_on_repeat(patch: pytest.MonkeyPatch) -> None:
    send = attempts._send

    def forgetful(draft: Draft, *rest: object) -> None:
        draft.settle_attempts(Standing.UNSENT)
        send(draft, *rest)  # type: ignore[arg-type]  # handed on as they came

    patch.setattr(attempts, "_send", forgetful)


def fence_taken_for_the_effect(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fences, "fenced", lambda draft, _why: draft.succeed("found", "probe"))


def settle_counted_from_the_time_out(patch: pytest.MonkeyPatch) -> None:
    def early(operation: Operation, settle: Settle, now: Now) -> int | None:
        ended = [
            item.started_boot_ms + (item.ended_ms or item.started_ms) - item.started_ms
            for item in operation.attempts
            if item.standing in AMBIGUOUS_STANDINGS and item.boot_id == now.boot_id
        ]
        return max(ended, default=0) + int(settle.seconds * 1000)

    patch.setattr(absence, "settled_at", early)


def one_look_is_enough(patch: pytest.MonkeyPatch) -> None:
    # The settle time is kept, but a look that began before it counts.
    patch.setattr(absence, "settled_at", lambda operation, settle, now: 0)


def a_record_cleared_away_means_never(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(absence, "known_to_service", lambda _operation: False)
    patch.setattr(fence, "known_to_service", lambda _operation: False)


def interrupted_means_unsent(patch: pytest.MonkeyPatch) -> None:
    def careless(draft: Draft, event: str) -> None:
        draft.settle_attempts(Standing.UNSENT)
        draft.change(state=State.READY, lease=None)

    patch.setattr(lifecycle, "_interrupted", careless)


def refusal_after_a_lost_answer_is_final(patch: pytest.MonkeyPatch) -> None:
    def trusting(draft: Draft, number: int, judgement: judge.Judgement) -> None:
        draft.settle_attempts(Standing.REFUSED)
        draft.fail("refused", "answer", Executed.NO, Failure("rejected", "refused"))

    patch.setattr(judge, "ambiguous_besides", lambda _operation, _number: False)
    patch.setattr(attempts, "_rejected", trusting)


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (repeat_on_time_out, ["looked_up"]),
        (server_error_means_error, ["looked_up"]),
        (absent_means_never, ["looked_up"]),
        (ambiguity_forgotten_on_repeat, ["same_key"]),
        (fence_taken_for_the_effect, ["fence"]),
        (settle_counted_from_the_time_out, ["settled"]),
        (one_look_is_enough, ["settled"]),
        (a_record_cleared_away_means_never, ["accepted"]),
        (interrupted_means_unsent, ["plain"]),
        (refusal_after_a_lost_answer_is_final, ["same_key"]),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_a_planted_fault_is_noticed(plant: Plant, kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    assert search(kinds, SEEDS) is not None
