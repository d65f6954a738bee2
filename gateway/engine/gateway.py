"""The gateway as every door sees it: submit, read, wait, reconcile, cancel, attest. Doors translate, this decides."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from gateway.core.acl import require_deed, sees, unknown_action
from gateway.core.cancels import may_cancel
from gateway.core.events import Attested, Begin, CancelBegun, Cancelled
from gateway.core.identity import Ruling, Verdict
from gateway.core.strictjson import digest
from gateway.core.transitions import IllegalMoveError
from gateway.engine.admitting import Admissions
from gateway.engine.cancelling import Cancelling
from gateway.engine.clock import Clock
from gateway.engine.driver import Driver, lease_seconds
from gateway.engine.gate import Doorkeeper
from gateway.engine.hub import Hub, Notice
from gateway.engine.journal import Journal, Lost
from gateway.engine.live import Live
from gateway.engine.ports import Definitions, Points
from gateway.engine.recovery import Recovery
from gateway.engine.revive import Revival
from gateway.engine.subjects import Subjects
from gateway.engine.submit import Passage, Request, Submissions, gone, is_known, live_of, refusal
from gateway.model.action import Action
from gateway.model.operation import Executed, Operation, Outcome, Receipt, State
from gateway.model.principal import Deed, Principal
from gateway.model.problem import Code, Problem, present
from gateway.store.port import Filter, PayloadKind, Record, Store, StoreUnknown, Unavailable

log = structlog.get_logger(__name__)

RUN_OPERATIONS_MAX = 1000
BUILT_IN_RULE = "built-in"
"""In place of an access rule, where people do what is theirs to do."""


@dataclass(frozen=True, slots=True)
class View:
    """An operation with what a document needs beside it. `result` is shaped JSON, never raw."""

    operation: Operation
    action: Action
    receipt: Receipt | None
    result: bytes | None
    joined: bool = False
    replayed: bool = False
    created: bool = False
    already_ended: bool = False
    """It was to be cancelled and had ended before: nothing was done."""


class Gateway:
    """One running gateway. All doors share it; it owns no socket."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        *,
        driver: Driver,
        recovery: Recovery,
        revival: Revival,
        submissions: Submissions,
        doorkeeper: Doorkeeper,
        definitions: Definitions,
        hub: Hub,
        clock: Clock,
        points: Points,
        cancelling: Cancelling,
        subjects: Subjects | None = None,
    ) -> None:
        """Composed in `gateway.app`."""
        self._store = store
        self._journal = journal
        self._driver = driver
        self._recovery = recovery
        self._revival = revival
        self._submissions = submissions
        self._admissions = Admissions(journal, definitions, subjects)
        self.doorkeeper = doorkeeper
        self.definitions = definitions
        self.hub = hub
        self._clock = clock
        self._points = points
        self._cancelling = cancelling

    # -- submit --------------------------------------------------------------------------------------------------

    async def submit(self, principal: Principal, request: Request) -> View:
        """Give an operation its durable identity and set it going, or answer with the one that it repeats.

        Returns as soon as the operation is durable; use `wait` for its outcome. Raises Problem before anything left.
        """
        passage = await self._submissions.run(principal, request)
        return await self._admit(principal, passage, live_of(passage))

    async def submit_built_in(
        self,
        principal: Principal,
        action: Action,
        arguments: Mapping[str, Any],
        *,
        key: str | None,
        noted: Mapping[str, Any],
    ) -> View:
        """Like `submit`, for an action of the gateway's own: for people, by whatever the access rules say of callers.

        `noted` goes on record with its admission.
        """
        require_deed(principal, Deed.ADMINISTER)
        request = Request(action.name, dict(arguments), key=key)
        passage = Passage(principal, request, action=action, rule=BUILT_IN_RULE, noted=noted)
        await self._submissions.built_in(passage)
        return await self._admit(principal, passage, live_of(passage))

    async def _admit(self, principal: Principal, passage: Passage, live: Live) -> View:
        action, candidate = live.action, live.operation
        begin = self._place(action)
        self._points.hit("admit.before_commit")
        try:
            admitted = await self._journal.admit(live, await self._admissions.of(passage, live), begin=begin)
        except BaseException as error:
            if begin is not None:
                self._driver.slots.give_back(action.service.name)
            raise self._store_problem(error, candidate) from error
        if admitted.receipt is None:
            if begin is not None:
                self._driver.slots.give_back(action.service.name)
            return await self._not_new(principal, candidate, admitted.verdict)
        self._points.hit("admit.after_commit")
        self._recovery.adopt(live, begun=begin is not None)
        return View(live.operation, action, live.receipt, None, created=True)

    def _place(self, action: Action) -> Begin | None:
        """Take a place to send from, if the first attempt can be begun with the admission."""
        reconcile = action.reconcile
        if reconcile is not None and reconcile.identify.state:
            return None
        if self._driver.slots.try_take(action.service.name, self._driver.bound(action)):
            return Begin(lease_seconds(action))
        return None

    async def _not_new(self, principal: Principal, candidate: Operation, verdict: Verdict) -> View:
        if verdict.expired_id is not None:
            raise gone(verdict)
        if verdict.ruling is Ruling.REFUSE:
            problem = refusal(principal, verdict)
            if verdict.code is Code.KEY_REUSED:
                await self._alert("key_reused", candidate)
            if verdict.code is Code.PROBABLE_REPEAT and verdict.operation is not None:
                problem.extra = {"view": await self._view(verdict.operation)}
            raise problem
        known = is_known(verdict)
        view = await self._view(present(verdict.operation, "what is answered from is stored"))
        return replace(view, joined=known and not view.operation.final, replayed=known and view.operation.final)

    def _store_problem(self, error: BaseException, candidate: Operation) -> BaseException:
        if isinstance(error, Unavailable):
            code = Code.AUDIT_UNAVAILABLE if error.audit else Code.STORE_UNAVAILABLE
            detail = f"{error.reason} Nothing was sent and nothing was created."
            return Problem(code, detail, "Submit again later with the same key.", retry_after_seconds=1.0)
        if isinstance(error, StoreUnknown):
            self._recovery.store_lost(error)
            return Problem(
                Code.STORE_UNAVAILABLE,
                "The store's answer was lost, so whether the operation exists is not known. Nothing was sent.",
                "Do not send it in another way. Ask by key once the gateway is back.",
                operation_id=candidate.id,
            )
        return error

    async def _alert(self, name: str, operation: Operation) -> None:
        log.warning("alert", alert=name, caller=operation.caller, action=operation.action)
        self.hub.alert(name, operation, "the submission was refused")
        body = self._journal.body(operation, {"alert": name})
        try:
            await self._store.note((Record("alert", body),))
        except Unavailable:
            log.exception("alert_not_recorded", alert=name)

    # -- read ----------------------------------------------------------------------------------------------------

    async def get(self, principal: Principal, operation_id: str) -> View:
        """One operation. Another caller's operation does not exist for this one."""
        live = self._recovery.find(operation_id)
        operation = live.operation if live is not None else await self._store.get(operation_id)
        if operation is None or not sees(principal, operation.caller):
            raise _not_found()
        return await self._view(operation)

    async def wait(self, principal: Principal, operation_id: str, seconds: float) -> View:
        """Like `get`, once it is final or unresolved, or the time or the gateway ends: waiting changes nothing."""
        with self.hub.watch(operation_id) as changed:
            # Held from here on: recovery lets go of an operation at its end, and the store need not be asked then.
            live = self._recovery.find(operation_id)
            view = await self.get(principal, operation_id)
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            alarm = loop.call_at(end, changed.set)
            try:
                while not (_is_answer(view.operation) or self.hub.closed or loop.time() >= end):
                    await changed.wait()
                    changed.clear()
                    view = _seen(live) or await self.get(principal, operation_id)
            finally:
                alarm.cancel()
        return view

    async def list(self, principal: Principal, wanted: Filter) -> tuple[Sequence[View], str | None]:
        """A page of operations: a caller's own, a person's all."""
        mine = wanted if principal.is_person else replace(wanted, caller=principal.name)
        page = await self._store.list(mine)
        return [await self._view(operation) for operation in page.operations], page.cursor

    async def run(self, principal: Principal, run: str) -> Sequence[View]:
        """Every operation of a run, oldest first: what a restarted agent reads before it does anything."""
        views, cursor = await self.list(principal, Filter(run=run, limit=200))
        found = list(views)
        while cursor is not None and len(found) < RUN_OPERATIONS_MAX:
            views, cursor = await self.list(principal, Filter(run=run, limit=200, cursor=cursor))
            found += views
        return found[::-1]

    def actions(self, principal: Principal) -> Sequence[Action]:
        """The actions that exist for this principal."""
        every = self.definitions.actions.values()
        return [action for action in every if self.doorkeeper.is_visible(principal, action)]

    def action(self, principal: Principal, name: str) -> Action:
        """One action. Raises Problem(unknown_action)."""
        action = self.definitions.actions.get(name)
        if action is None or not self.doorkeeper.is_visible(principal, action):
            raise unknown_action(principal)
        return action

    async def events(self, principal: Principal) -> AsyncIterator[Notice]:
        """Changes and alerts as they happen. A lagging reader gets a `lagged` notice and must list again."""
        with self.hub.subscribe(None if principal.is_person else principal.name) as subscription:
            while True:
                await subscription.ready.wait()
                subscription.ready.clear()
                while subscription.lagged or subscription.queue:
                    if subscription.lagged:
                        # Before what came after the gap, also where the gap came between two steps of the reader.
                        subscription.lagged = False
                        yield Notice(0, "lagged", None, {})
                    else:
                        yield subscription.queue.popleft()

    async def _view(self, operation: Operation) -> View:
        live = self._recovery.find(operation.id)
        if live is not None and live.operation.version == operation.version:
            return View(operation, live.action, live.receipt, live.result)
        action = await self._revival.action(operation)
        result = await self._store.payload(operation.id, PayloadKind.RESULT) if operation.final else None
        return View(operation, action, await self._store.receipt(operation.id), result)

    async def delivered(self, view: View) -> None:
        """A final document was written out in full to its caller (identity rule 8 asks for this)."""
        operation = view.operation
        # The rule asks only about effects: reads and what was never carried out may be repeated at any time.
        asked = operation.final and not view.action.is_read and operation.executed is not Executed.NO
        if not asked or operation.delivered:
            return
        try:
            await self._store.mark_delivered(view.operation.id)
        except (Unavailable, StoreUnknown) as error:
            # The answer is out. Without the mark a repeat is merely asked about once more than necessary.
            log.warning("delivery_not_marked", operation_id=view.operation.id, reason=str(error))

    def load(self) -> tuple[int, int]:
        """Unsettled operations in memory, and how many are being carried out now."""
        return len(self._recovery), self._recovery.busy

    # -- act -----------------------------------------------------------------------------------------------------

    async def reconcile(self, principal: Principal, operation_id: str) -> View:
        """Look now instead of later. Never sends the action itself."""
        live = await self._load(principal, operation_id)
        operation = live.operation
        if operation.state not in (State.IN_DOUBT, State.ACCEPTED, State.UNRESOLVED):
            return await self.get(principal, operation_id)
        if live.action.reconcile is None and operation.handle is None:
            raise Problem(
                Code.WRONG_STATE,
                "This action declares no look-up, so there is nothing to ask.",
                f"A person who can see the {live.action.service.noun} settles it: `gateway operations attest`.",
                operation_id=operation_id,
            )
        await self._driver.look_now(live)
        self._recovery.nudge(live)
        return await self.get(principal, operation_id)

    async def cancel(self, principal: Principal, operation_id: str, *, signal: str = "TERM") -> View:
        """Cancel while nothing may have left. Raises Problem(wrong_state) otherwise, and changes nothing.

        What has ended stays as it is, and the view says so.
        A command on a host is told afterwards as well, by `signal` where it has begun; its record says what came of it.
        """
        live = await self._load(principal, operation_id)
        if live.operation.final:
            return replace(await self.get(principal, operation_id), already_ended=True)
        if may_cancel(live.action, live.operation):
            self.doorkeeper.check_quarantine(live.action)
            await self._move(live, CancelBegun(principal.name, signal))
            # In a task of its own: what it shows must be kept, also when whoever asked for it has gone.
            work = self._recovery.beside(self._cancelling.carry_out(live, signal), f"cancel {live.id}")
            await asyncio.shield(work)
        else:
            await self._move(live, Cancelled(actor=principal.name))
        self._recovery.nudge(live)
        return await self._view(live.operation)

    async def attest(
        self,
        principal: Principal,
        operation_id: str,
        *,
        outcome: Outcome,
        executed: Executed,
        reason: str,
        seen: str,
    ) -> View:
        """A person settles an unresolved operation. `seen` is the digest of what was shown to them."""
        require_deed(principal, Deed.ATTEST)
        live = await self._load(principal, operation_id)
        current = attest_digest(live.operation)
        if seen != current:
            view = await self._view(live.operation)
            raise Problem(
                Code.STALE_DIGEST,
                "The operation changed since you looked; nothing was settled.",
                "Look again at what is known now, then decide.",
                operation_id=operation_id,
                extra={"view": view, "digest": current},
            )
        await self._move(live, Attested(principal.name, reason, seen, outcome, executed))
        self._recovery.nudge(live)
        return await self._view(live.operation)

    async def _load(self, principal: Principal, operation_id: str) -> Live:
        live = self._recovery.find(operation_id)
        if live is not None:
            if not sees(principal, live.operation.caller):
                raise _not_found()
            return live
        operation = await self._store.get(operation_id)
        if operation is None or not sees(principal, operation.caller):
            raise _not_found()
        return await self._revival.revive(operation)

    async def _move(self, live: Live, event: Cancelled | CancelBegun | Attested) -> None:
        while True:
            try:
                await self._journal.apply(live, event)
            except Lost:
                continue
            except IllegalMoveError as illegal:
                raise Problem(
                    Code.WRONG_STATE,
                    f"That is not possible now: {illegal.reason}.",
                    "Read the operation's document; it says what is known and what comes next.",
                    operation_id=live.id,
                ) from illegal
            except (Unavailable, StoreUnknown) as error:
                raise self._store_problem(error, live.operation) from error
            return


def attest_digest(operation: Operation) -> str:
    """Digest of what a person is shown before they settle: a newer finding makes their decision stale."""
    evidence = [[item.source.value, item.finding.value, item.detail, item.attempt] for item in operation.evidence]
    shown = {"id": operation.id, "state": operation.state.value, "fence": operation.fence, "evidence": evidence}
    return digest(shown)


def _seen(live: Live | None) -> View | None:
    """The end of an operation that was under way here, None while it has none."""
    if live is None or not live.operation.final:
        return None
    return View(live.operation, live.action, live.receipt, live.result)


def _is_answer(operation: Operation) -> bool:
    return operation.final or operation.state is State.UNRESOLVED


def _not_found() -> Problem:
    return Problem(
        Code.NOT_FOUND,
        "No operation of that id is visible to this key.",
        "Check the id. After a lost answer, ask by your own key instead.",
    )
