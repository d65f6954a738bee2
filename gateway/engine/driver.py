"""Performs what the agenda says, one act at a time: make it durable, then do it, then make durable what was seen.

The same loop serves a fresh operation, a lost lease and a restart. It is the only place where an attempt leaves.
"""

from dataclasses import replace

import structlog

from adapters.contract import Head, Hooks, Observation
from gateway.core.agenda import Act, Item, next_item
from gateway.core.draft import Step
from gateway.core.events import Begin, DeadlinePassed, Followed, HeadSeen, LeaseLost, Observed
from gateway.core.follow import handle_url
from gateway.core.matching import Answer, matches
from gateway.core.repeat import same_key_refusal
from gateway.core.transitions import IllegalMoveError
from gateway.engine.journal import Journal, Lost
from gateway.engine.live import Live
from gateway.engine.looks import Looks
from gateway.engine.outbound import Outbound
from gateway.engine.ports import Points, Shaper
from gateway.engine.slots import Slots
from gateway.model.action import Action, Resend
from gateway.model.operation import Standing, State
from gateway.store.port import PayloadKind

log = structlog.get_logger(__name__)

ACCEPTED = 202
"""The one status whose body may never come although the work goes on (RFC 9110 section 15.3.3)."""
LEASE_MARGIN_SECONDS = 5.0
"""A lease outlives its attempt's own deadlines by this much: it is never renewed, the attempt ends first."""


def lease_seconds(action: Action) -> float:
    """How long the right to act lasts: every deadline of one attempt and a margin."""
    return action.deadlines.connect_seconds + action.deadlines.request_seconds + LEASE_MARGIN_SECONDS


class Driver:
    """Drives operations. `drive` returns when there is nothing to do now, with what is due next."""

    def __init__(
        self,
        journal: Journal,
        *,
        outbound: Outbound,
        looks: Looks,
        slots: Slots,
        shaper: Shaper,
        points: Points,
        answer_max_bytes: int,
        concurrency_max: int,
    ) -> None:
        """Everything is a parameter, so that the simulator runs this code unchanged."""
        self._journal = journal
        self._outbound = outbound
        self._looks = looks
        self.slots = slots
        self._shaper = shaper
        self._points = points
        self._answer_max_bytes = answer_max_bytes
        self._concurrency_max = concurrency_max
        self.writes_held = False
        """Set in quarantine: non-reads and fences are not begun."""

    def bound(self, action: Action) -> int:
        """Attempts that may be under way at the action's service."""
        return action.service.concurrency_max or self._concurrency_max

    async def drive(self, live: Live, *, begun: bool = False) -> Item:
        """Go on until the operation is over or has to wait. `begun`: its first attempt was begun with its admission.

        A `begun` operation holds its place to send from already, and gives it back.
        """
        if begun:
            await self._send_held(live)
        while True:
            item = next_item(live.action, live.operation, self._journal.now())
            if item.act in (Act.NOTHING, Act.WAIT):
                return item
            try:
                if not await self._perform(live, item.act):
                    return Item(Act.WAIT, None)
            except (Lost, IllegalMoveError) as moved:
                # Somebody else (a cancel, an attestation) moved it between our look and our act: look again.
                log.info("moved_elsewhere", operation_id=live.id, reason=str(moved))

    async def look_now(self, live: Live) -> None:
        """Make the next look at once, whatever its backoff says. A driver at work already looks as fast as it may."""
        if live.driven:
            return
        try:
            if live.operation.handle is not None and live.action.accepted is not None:
                if live.operation.state is State.IN_DOUBT:
                    await self._journal.apply_surely(live, Followed())
                await self._looks.poll(live)
            else:
                await self._looks.probe(live)
        except (Lost, IllegalMoveError) as moved:
            log.info("moved_elsewhere", operation_id=live.id, reason=str(moved))

    async def _perform(self, live: Live, act: Act) -> bool:
        """Do one act; False if it cannot be done now and the sweep should come back to it."""
        match act:
            case Act.BEGIN:
                return await self._begin(live)
            case Act.BASELINE:
                await self._looks.baseline(live)
            case Act.PROBE:
                await self._looks.probe(live)
            case Act.POLL:
                await self._looks.poll(live)
            case Act.FENCE:
                if self.writes_held:
                    return False
                await self._looks.fence(live, lease_seconds(live.action))
            case Act.FOLLOW:
                await self._journal.apply_surely(live, Followed())
            case Act.DEADLINE:
                await self._journal.apply_surely(live, DeadlinePassed())
            case Act.LEASE_LOST:
                await self._journal.apply_surely(live, LeaseLost())
            case Act.NOTHING | Act.WAIT:
                return False
        return True

    async def _begin(self, live: Live) -> bool:
        if self.writes_held and not live.action.is_read:
            return False
        service = live.action.service.name
        await self.slots.take(service, self.bound(live.action))
        try:
            operation = await self._journal.apply_surely(live, Begin(lease_seconds(live.action)))
        except BaseException:
            self.slots.give_back(service)
            raise
        if operation.state is not State.SENDING:
            self.slots.give_back(service)
            return True
        await self._send_held(live)
        return True

    async def _send_held(self, live: Live) -> None:
        """Carry out the attempt that was begun last, holding a place; its begin is durable."""
        try:
            self._points.hit("begin.after_commit")
            await self._attempt(live)
        finally:
            self.slots.give_back(live.action.service.name)

    async def _attempt(self, live: Live) -> None:
        number = live.operation.attempts[-1].number
        hooks = Hooks(
            before_send=lambda: self._refusal(live, number),
            on_head=lambda head: self._head(live, number, head),
        )
        action = live.action
        seen = await self._outbound.send(
            action, live.request, hooks, is_read=action.is_read, body_max_bytes=self._answer_max_bytes, about=live
        )
        self._points.hit("send.after_answer")
        await self._keep(live, number, seen)

    async def _keep(self, live: Live, number: int, seen: Observation) -> None:
        """Make durable what the attempt showed, whoever owns the operation by now."""
        self._points.hit("outcome.before_commit")
        event = Observed(number, seen, live.variables())
        while True:
            try:
                await self._journal.apply_surely(live, event, finish=lambda taken: self._finish(live, taken, seen))
            except Lost:
                # The lease was lost or a person settled it meanwhile. What was seen is evidence all the same.
                log.warning("observed_after_the_fact", operation_id=live.id)
                continue
            except IllegalMoveError as illegal:
                # The lifecycle has no use for it any more; what was seen is kept beside the operation all the same.
                log.warning("observation_kept_aside", operation_id=live.id, reason=illegal.reason)
                await self._journal.keep_aside(live, number, seen)
                return
            self._points.hit("outcome.after_commit")
            return

    def _finish(self, live: Live, taken: Step, seen: Observation) -> tuple[Step, dict[PayloadKind, bytes]]:
        """Store the shaped answer with the outcome that rests on it."""
        if taken.operation.basis != "answer" or not taken.operation.final or seen.status is None:
            return taken, {}
        shaped = self._shaper.shape(live.action, seen.body, seen.header("Content-Type"))
        valid = shaped.valid if taken.operation.state is State.SUCCEEDED else None
        if valid is not None:
            taken = replace(taken, operation=taken.operation.but(output_valid=valid))
        return taken, {PayloadKind.RESULT: shaped.json}

    def _refusal(self, live: Live, number: int) -> str | None:
        """Why the attempt must not send its first byte after all: asked when the connection stands."""
        self._points.hit("send.before_first_byte")
        operation, now = live.operation, self._journal.now()
        if self._journal.store.failed is not None:
            return "the store's state is unknown, so nothing may be sent"
        current = operation.attempts[-1]
        if operation.state is not State.SENDING or current.number != number:
            return "the operation has moved on"
        lease = operation.lease
        if lease is None or lease.owner != now.owner or now.wall_ms >= lease.until_ms:
            return "the lease has run out"
        if now.boot_ms - current.started_boot_ms >= lease_seconds(live.action) * 1000:
            return "the lease has run out"
        in_doubt = any(item.standing is Standing.DOUBT for item in operation.sends)
        if in_doubt and live.action.resend is Resend.SAME_KEY:
            return same_key_refusal(live.action, operation, now)
        return None

    async def _head(self, live: Live, number: int, head: Head) -> None:
        """Keep a handle or an id that stands in the head, before the body is read."""
        answer = Answer(head.status, head.headers)
        accepted = live.action.accepted
        handle = None
        if accepted is not None and accepted.handle.header is not None and matches(accepted.when, answer, {}):
            handle = handle_url(live.action, live.operation, answer)
        elif head.status != ACCEPTED:
            return
        outward_id = answer.header("Location") if handle is None else None
        if handle is None and outward_id is None:
            return
        self._points.hit("head.before_commit")
        await self._journal.apply_surely(live, HeadSeen(number, handle, outward_id))
