"""Looks at the outside that change nothing: baseline, probe, handle; and the fence, which does and is journaled so."""

import asyncio
from dataclasses import replace

from adapters.contract import Hooks, Observation
from gateway.core.draft import Step
from gateway.core.events import BaselineTaken, FenceBegun, FenceObserved, Polled, Probed, Sighting
from gateway.core.matching import answer_of, read_path
from gateway.core.reconcile.fence import read_fence
from gateway.core.reconcile.look import control_holds, read_probe, read_rules
from gateway.core.steps import found_steps
from gateway.core.template import Rendered, render_request
from gateway.core.waits import wait_seconds
from gateway.engine.journal import Journal, Lost
from gateway.engine.live import Live
from gateway.engine.outbound import Outbound
from gateway.engine.ports import Points, Shaper
from gateway.model.action import Fence, Reconcile, RequestTemplate
from gateway.model.evidence import Finding
from gateway.model.operation import State
from gateway.model.problem import BrokenInvariantError, present
from gateway.store.port import PayloadKind

GONE = (404, 410)
BODY_MAX_BYTES = 1_000_000


class Looks:
    """Makes looks, bounded over all services, and hands what they show to the journal."""

    def __init__(
        self,
        journal: Journal,
        outbound: Outbound,
        shaper: Shaper,
        points: Points,
        *,
        concurrency_max: int,
    ) -> None:
        """`concurrency_max` bounds looks under way, so that recovery never starves new work."""
        self._journal = journal
        self._outbound = outbound
        self._shaper = shaper
        self._points = points
        self._places = asyncio.Semaphore(concurrency_max)

    async def baseline(self, live: Live) -> None:
        """Look at the state before the first send."""
        reconcile = _reconcile(live)
        begun = self._journal.now()
        seen = await self._ask(live, reconcile.request)
        sighting = read_rules(reconcile.rules, seen, answer_of(seen), live.variables())
        await self._journal.apply_surely(live, BaselineTaken(sighting, begun.wall_ms))

    async def probe(self, live: Live) -> None:
        """Ask the service's own record what became of the operation."""
        self._points.hit("probe.before")
        reconcile = _reconcile(live)
        begun = self._journal.now()
        seen = await self._ask(live, reconcile.request)
        sighting = read_probe(reconcile, live.operation, seen, live.variables())
        if sighting.finding is Finding.ABSENT and reconcile.positive_control is not None:
            sighting = await self._control(live, reconcile, sighting)
        if live.action.steps:
            sighting = replace(sighting, steps=found_steps(live.action, seen))
        sighting = self._with_wait(live, seen, sighting)
        self._points.hit("probe.after")
        event = Probed(sighting, begun.wall_ms, begun.boot_ms)
        await self._journal.apply_surely(
            live, event, finish=lambda taken: self._result(live, taken, seen, reconcile.result)
        )

    async def poll(self, live: Live) -> None:
        """Look at the handle of an accepted operation."""
        accepted = present(live.action.accepted, "only an action that may be accepted is polled")
        handle = present(live.operation.handle, "only an operation with a handle is polled")
        begun = self._journal.now()
        seen = await self._send_look(live, Rendered("GET", handle.url, (("Accept", "application/json"),), b""))
        answer = answer_of(seen)
        if seen.answered and answer.status in GONE:
            sighting = Sighting(Finding.ABSENT, f"the handle is gone ({answer.status})")
        else:
            sighting = self._with_wait(live, seen, read_rules(accepted.rules, seen, answer, live.variables()))
        await self._journal.apply_surely(
            live,
            Polled(sighting, begun.wall_ms),
            finish=lambda taken: self._result(live, taken, seen, accepted.result),
        )

    async def fence(self, live: Live, lease_seconds: float) -> None:
        """Occupy the operation's place. Its begin is durable before its first byte."""
        absence = _reconcile(live).absence
        if not isinstance(absence, Fence):
            raise BrokenInvariantError("a fence must be declared")
        begun = await self._journal.apply_surely(live, FenceBegun(lease_seconds))
        self._points.hit("fence.after_commit")
        seen = await self._ask(live, absence.request, is_read=False)
        self._points.hit("fence.after_answer")
        won = read_fence(absence, seen, live.variables())
        event = FenceObserved(begun.attempts[-1].number, seen, won)
        while True:
            try:
                await self._journal.apply_surely(live, event)
            except Lost:
                continue
            return

    async def _control(self, live: Live, reconcile: Reconcile, sighting: Sighting) -> Sighting:
        control = present(reconcile.positive_control, "a positive control must be declared")
        seen = await self._ask(live, control.request)
        if control_holds(reconcile, seen, live.variables()):
            return sighting
        return Sighting(Finding.INCONCLUSIVE, "not there, but what must be visible is not visible either")

    async def _ask(self, live: Live, template: RequestTemplate, *, is_read: bool = True) -> Observation:
        request = render_request(template, live.variables(), base_url=live.action.service.base_url)
        return await self._send_look(live, request, is_read=is_read)

    async def _send_look(self, live: Live, request: Rendered, *, is_read: bool = True) -> Observation:
        hooks = Hooks(before_send=self._refusal)
        async with self._places:
            return await self._outbound.send(
                live.action, request, hooks, is_read=is_read, body_max_bytes=BODY_MAX_BYTES, about=live
            )

    def _refusal(self) -> str | None:
        return None if self._journal.store.failed is None else "the store's state is unknown, so nothing may be sent"

    def _with_wait(self, live: Live, seen: Observation, sighting: Sighting) -> Sighting:
        if sighting.finding not in (Finding.INCONCLUSIVE, Finding.IN_PROGRESS) or seen.status is None:
            return sighting
        return replace(sighting, wait_seconds=wait_seconds(live.action, answer_of(seen)))

    def _result(
        self, live: Live, taken: Step, seen: Observation, path: str | None
    ) -> tuple[Step, dict[PayloadKind, bytes]]:
        """Store what the record says of the result, with the outcome that rests on it."""
        if not taken.operation.final or live.operation.final:
            return taken, {}
        body = answer_of(seen).body
        if path is not None:
            shaped = self._shaper.shape_value(live.action, read_path(path, body))
        else:
            shaped = self._shaper.shape(live.action, seen.body, seen.header("Content-Type"))
        if taken.operation.state is not State.SUCCEEDED:
            return taken, {PayloadKind.RESULT: shaped.json}
        operation = taken.operation.but(output_valid=shaped.valid)
        return replace(taken, operation=operation), {PayloadKind.RESULT: shaped.json}


def _reconcile(live: Live) -> Reconcile:
    return present(live.action.reconcile, "only an action with a look-up is probed")
