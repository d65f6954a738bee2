"""Bugs planted into the shipped code: a simulator that does not notice them proves nothing."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from audit.disk import LogError
from audit.memory import MemoryFile
from gateway.core import attempts, doubt, fences, identity, judge, lifecycle, repeat
from gateway.core.draft import Draft
from gateway.core.events import Begin, Cancelled, Observed, Restarted
from gateway.core.identity import Ruling, Verdict
from gateway.core.reconcile import absence
from gateway.core.reconcile.absence import AbsenceVerdict
from gateway.core.repeat import Permission
from gateway.engine import driver, journal, log_start
from gateway.model.action import Action, Settle
from gateway.model.operation import AMBIGUOUS_STANDINGS, Failure, Now, Operation, Standing, State
from gateway.store import inloop, turns
from gateway.store.items import Item
from gateway.store.port import Unavailable
from gateway.store.writer import Writer
from tests.model import network
from tests.model.checker import check
from tests.model.simulation import Simulation

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def repeat_on_time_out(patch: Patch) -> None:
    def willing(action: object, operation: Operation, now: Now) -> Permission:
        return Permission(allowed=len(operation.sends) < 3, rule="x", reason="the first one timed out")

    patch.setattr(attempts, "may_repeat", willing)
    patch.setattr(doubt, "may_repeat", willing)


def server_error_means_error(patch: Patch) -> None:
    patch.setattr(judge, "UNDONE", judge.UNDONE | {500})


def absent_means_never(patch: Patch) -> None:
    verdict = AbsenceVerdict(conclusive=True, looks=(), wait_seconds=0.0, reason="not there")
    patch.setattr(doubt, "weigh", lambda *_: verdict)


def ambiguity_forgotten(patch: Patch) -> None:
    send = attempts._send

    def forgetful(draft: Draft, *rest: Any) -> None:
        draft.settle_attempts(Standing.UNSENT)
        send(draft, *rest)

    patch.setattr(attempts, "_send", forgetful)


def fence_taken_for_the_effect(patch: Patch) -> None:
    patch.setattr(fences, "fenced", lambda draft, _why: draft.succeed("found", "probe"))


def settle_counted_from_the_time_out(patch: Patch) -> None:
    def early(operation: Operation, settle: Settle, now: Now) -> int | None:
        ended = [
            item.started_boot_ms + (item.ended_ms or item.started_ms) - item.started_ms
            for item in operation.attempts
            if item.standing in AMBIGUOUS_STANDINGS and item.boot_id == now.boot_id
        ]
        return max(ended, default=0) + int(settle.seconds * 1000)

    patch.setattr(absence, "settled_at", early)


def one_look_is_enough(patch: Patch) -> None:
    patch.setattr(absence, "settled_at", lambda operation, settle, now: 0)


def the_dead_closed_their_sockets_when_they_began(patch: Patch) -> None:
    def early(items: Any, now: Now) -> Any:
        return tuple(replace(item, closed_boot_ms=0, closed_boot_id=now.boot_id) for item in items)

    patch.setattr(lifecycle, "stamp_closed", early)


def refused_row_trusted_after_a_failed_commit(patch: Patch) -> None:
    take = turns.take_turn

    def hopeful(writer: Writer, riders: deque[Item], items: Sequence[Item]) -> turns.Turn:
        turn = take(writer, riders, items)
        if turn.failure is not None:
            writer._link.rollback()
            turn.failure, turn.replies = None, [Unavailable("It did not work; nothing was changed.")] * len(items)
        return turn

    patch.setattr(inloop, "take_turn", hopeful)


def outcome_lost_with_the_lease(patch: Patch) -> None:
    keep = driver.Driver._keep

    async def strict(self: driver.Driver, live: Any, number: int, seen: Any) -> None:
        lease = live.operation.lease
        if lease is not None and self._journal.now().wall_ms < lease.until_ms:
            await keep(self, live, number, seen)

    patch.setattr(driver.Driver, "_keep", strict)


def sent_before_the_commit(patch: Patch) -> None:
    apply = journal.Journal.apply

    async def eager(self: journal.Journal, live: Any, event: Any, **more: Any) -> Operation:
        if not isinstance(event, Begin):
            return await apply(self, live, event, **more)
        work = asyncio.create_task(apply(self, live, event, **more))
        while not live.lock.locked():
            await asyncio.sleep(0)
        taken = lifecycle.step(live.action, live.operation, event, self.now())
        live.operation = taken.operation
        del work
        return taken.operation

    async def slow(self: Any, change: Any) -> Any:
        await asyncio.sleep(1.0 if change.operation.state is State.SENDING else 0.0)
        return await original(self, change)

    from gateway.store.inloop import InLoopStore

    original = InLoopStore.change
    patch.setattr(journal.Journal, "apply", eager)
    patch.setattr(InLoopStore, "change", slow)


def attempts_left_out_of_the_log(patch: Patch) -> None:
    records = journal.Journal._records

    def without(self: journal.Journal, action: Action, operation: Operation, facts: Any) -> Any:
        return records(self, action, operation, tuple(fact for fact in facts if fact.event != "attempt"))

    patch.setattr(journal.Journal, "_records", without)


def recovery_deadline_counted_anew(patch: Patch) -> None:
    restarted = lifecycle._restarted

    def anew(draft: Draft, event: Any) -> None:
        restarted(draft, event)
        if draft.operation.recovery_ms is not None:
            seconds = draft.action.deadlines.recovery_seconds
            draft.change(recovery_ms=draft.now.wall_ms + int(seconds * 1000) * 3)

    patch.setitem(lifecycle._HANDLERS, Restarted, anew)


def client_sends_again_by_itself(patch: Patch) -> None:
    answer = network._Write._answer

    async def again(self: network._Write) -> Any:
        if self.fate.answer == "none":
            self._leave()
        return await answer(self)

    patch.setattr(network._Write, "_answer", again)


def key_names_whatever_it_comes_with(patch: Patch) -> None:
    def careless(candidate: Operation, rival: Any) -> Verdict:
        return Verdict(Ruling.REPLAY if rival.final else Ruling.JOIN, operation=rival)

    patch.setattr(identity, "_same_key", careless)


def key_not_looked_at(patch: Patch) -> None:
    from gateway.store import items

    decide = identity.decide

    def blind(candidate: Operation, rivals: Any, **more: Any) -> Verdict:
        return decide(candidate, replace(rivals, same_fingerprint=None, last_final=None), **more)

    patch.setattr(items, "decide", blind)


def memory_of_the_service_trusted_for_ever(patch: Patch) -> None:
    patch.setattr(repeat, "same_key_refusal", lambda *_: None)
    patch.setattr(driver, "same_key_refusal", lambda *_: None)


def cancelled_in_doubt(patch: Patch) -> None:
    def obliging(draft: Draft, event: Any) -> None:
        draft.settle_attempts(Standing.UNSENT)
        draft.change(state=State.READY)
        draft.cancel("cancel", Failure("cancelled", "Cancelled."))

    patch.setitem(lifecycle._HANDLERS, Cancelled, obliging)


def interrupted_means_unsent(patch: Patch) -> None:
    def careless(draft: Draft, event: str) -> None:
        draft.settle_attempts(Standing.UNSENT)
        draft.change(state=State.READY, lease=None)

    patch.setattr(lifecycle, "_interrupted", careless)


def frames_forgotten_before_their_file_is_synced(patch: Patch) -> None:
    patch.setattr(MemoryFile, "sync", lambda self: None)


def torn_tail_left_in_place(patch: Patch) -> None:
    patch.setattr(log_start, "recover", lambda *_args, **_more: ())


def observations_kept_in_memory(patch: Patch) -> None:
    keep = driver.Driver._keep

    async def lazy(self: driver.Driver, live: Any, number: int, seen: Any) -> None:
        if seen.status is None:
            taken = lifecycle.step(live.action, live.operation, Observed(number, seen, {}), self._journal.now())
            live.operation = replace(taken.operation, version=live.operation.version)
            return
        await keep(self, live, number, seen)

    patch.setattr(driver.Driver, "_keep", lazy)


@dataclass(frozen=True)
class Case:
    plant: Plant
    kinds: tuple[str, ...] = ()
    seeds: int = 120
    plan: tuple[tuple[str, Any], ...] = ()
    fate: str | None = None
    """What the first request meets, where the bug needs a meeting that is rare."""
    looks: tuple[str, ...] = ()
    """What the first looks meet."""
    killed: bool = False
    """The process is killed about when the first attempt is under way."""


DYING = (("deaths", 3), ("every", 8))
CASES = (
    Case(repeat_on_time_out, ("plain", "looked_up")),
    Case(server_error_means_error, ("looked_up", "plain"), 200),
    Case(absent_means_never, ("looked_up", "settled"), 200),
    Case(ambiguity_forgotten, ("same_key",), 300),
    Case(fence_taken_for_the_effect, ("fence",)),
    Case(settle_counted_from_the_time_out, ("settled", "on_absence"), 200, fate="late, socket lingers"),
    Case(one_look_is_enough, ("settled", "on_absence"), 200),
    Case(the_dead_closed_their_sockets_when_they_began, ("settled", "on_absence"), 200, fate="latest", killed=True),
    Case(refused_row_trusted_after_a_failed_commit, (), 200, DYING),
    Case(outcome_lost_with_the_lease, (), 200, (("steps", True),)),
    Case(sent_before_the_commit),
    Case(attempts_left_out_of_the_log),
    Case(recovery_deadline_counted_anew, ("plain", "looked_up", "accepted_blind"), 400, DYING),
    Case(client_sends_again_by_itself),
    Case(key_names_whatever_it_comes_with),
    Case(key_not_looked_at, ("plain", "looked_up", "settled_busy"), 300),
    Case(memory_of_the_service_trusted_for_ever, ("same_key_short", "same_key"), 400),
    Case(cancelled_in_doubt),
    Case(interrupted_means_unsent, (), 200, DYING),
    Case(frames_forgotten_before_their_file_is_synced, (), 300, (*DYING, ("reboots", 1.0))),
    Case(torn_tail_left_in_place, ("plain",), 300, (*DYING, ("reboots", 1.0))),
    Case(observations_kept_in_memory),
)


def seeds_to_catch(case: Case) -> tuple[int, str] | None:
    """How many seeds it takes until something is noticed, and what."""
    for seed in range(case.seeds):
        world = Simulation(seed, kinds=case.kinds)
        for name, value in case.plan:
            setattr(world.plan, name, value)
        world.rearm()
        if case.fate is not None:
            world.faults.queue.append(case.fate)
        world.faults.looks.extend(case.looks)
        if case.killed:
            world.loop.call_later(world.random.uniform(2.0, 9.0), world.kill_now)
        try:
            world.run()
            found = [*world.history.broken] or [str(item) for item in check(world)]
        except (AssertionError, LogError) as error:
            found = [f"stopped: {error!r}"]
        if found:
            return seed + 1, found[0]
    return None


def plant_and_notice(
    case: Case, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Fails unless a seed notices; says which."""
    case.plant(monkeypatch)

    caught = seeds_to_catch(case)

    assert caught is not None, f"{case.seeds} seeds noticed nothing"
    record_property("seeds_to_catch", caught[0])
    print(f"{case.plant.__name__}: caught by seed {caught[0]}: {caught[1]}")  # noqa: T201 - the number is the result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.plant.__name__)
def test_a_planted_bug_is_noticed(
    case: Case, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    plant_and_notice(case, monkeypatch, record_property)
