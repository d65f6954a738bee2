"""The way of a submission: an explicit list of steps, each of which passes it on or refuses it before anything left.

Order: context, safety, look-up, access, input, candidate. Identity is ruled on where the candidate is admitted. A
refusal is a `Problem`; what happens after admission never is.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Protocol

from gateway.core.acl import require_deed, sees, unknown_action
from gateway.core.fingerprint import fingerprint_of
from gateway.core.identity import Ruling, Verdict
from gateway.core.ids import check_key
from gateway.core.placeholders import render_text, variables_of
from gateway.core.strictjson import canonical
from gateway.core.template import Rendered, declared_url, render_request
from gateway.engine.chance import Ids
from gateway.engine.clock import Clock
from gateway.engine.live import Live
from gateway.engine.ports import Definitions
from gateway.engine.revive import pack_request
from gateway.model.action import Action
from gateway.model.operation import Operation, State
from gateway.model.principal import Deed, Principal
from gateway.model.problem import Code, FieldError, Problem, present

RUN_LENGTH_MAX = 255


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller sent, parsed strictly and not yet believed."""

    action: str
    arguments: Any
    key: str | None = None
    run: str | None = None
    parent: str | None = None
    supersedes: str | None = None
    trace_id: str | None = None
    correlation_id: str | None = None


@dataclass(slots=True)
class Passage:
    """A submission on its way through the steps."""

    principal: Principal
    request: Request
    action: Action | None = None
    rule: str | None = None
    operation: Operation | None = None
    rendered: Rendered | None = None
    variables: dict[str, Any] | None = None
    payloads: dict[str, bytes] = field(default_factory=dict)
    noted: Mapping[str, Any] | None = None
    """What else goes on record with its admission."""

    @property
    def found(self) -> Action:
        """The action, once it was looked up."""
        return present(self.action, "the action was looked up")


class Gate(Protocol):
    """What the safety and access steps ask of the running gateway."""

    def check_room(self, principal: Principal) -> None:
        """Raise Problem if too much is under way, the gateway drains, or the store is finished."""
        ...

    async def check_parent(self, principal: Principal, request: Request) -> None:
        """Raise Problem for an unknown parent, a cycle, or a chain that is too deep."""
        ...

    def allow(self, principal: Principal, action: Action, arguments: Mapping[str, Any]) -> str:
        """The name of the rule that allows it. Raises Problem(forbidden)."""
        ...

    def is_visible(self, principal: Principal, action: Action) -> bool:
        """Whether the action exists for this principal at all."""
        ...

    def check_credential(self, action: Action) -> None:
        """Raise Problem(credential_missing) if the service's credential cannot be joined later."""
        ...

    def check_quarantine(self, action: Action) -> None:
        """Raise Problem(quarantined) for a non-read while the store is in quarantine."""
        ...


class Submissions:
    """Runs the steps up to a candidate operation; admission itself is the journal's."""

    def __init__(self, definitions: Definitions, gate: Gate, ids: Ids, clock: Clock) -> None:
        """All are parameters; the steps hold no state between submissions."""
        self._definitions = definitions
        self._gate = gate
        self._ids = ids
        self._clock = clock
        self.steps: tuple[Callable[[Passage], Awaitable[None]], ...] = (
            self._context,
            self._safety,
            self._look_up,
            self._access,
            self._input,
            self._candidate,
        )

    async def run(self, principal: Principal, request: Request) -> Passage:
        """Take a submission through every step. Raises Problem at the first that refuses."""
        passage = Passage(principal, request)
        for step in self.steps:
            await step(passage)
        return passage

    async def built_in(self, passage: Passage) -> None:
        """Take an action of the gateway's own through the steps that remain: who may run it was asked before."""
        if passage.request.key is not None:
            check_key(passage.request.key)
        await self._safety(passage)
        self._gate.check_quarantine(passage.found)
        await self._input(passage)
        await self._candidate(passage)

    async def _context(self, passage: Passage) -> None:
        request = passage.request
        if request.key is not None:
            check_key(request.key)
        if request.run is not None and not _is_name(request.run):
            raise Problem(
                Code.INVALID_INPUT,
                "The run id must be 1 to 255 visible ASCII characters.",
                "Use your own id for this run, for example `run_42`.",
            )
        require_deed(passage.principal, Deed.SUBMIT if request.supersedes is None else Deed.SUPERSEDE)

    async def _safety(self, passage: Passage) -> None:
        self._gate.check_room(passage.principal)
        if passage.request.parent is not None:
            await self._gate.check_parent(passage.principal, passage.request)

    async def _look_up(self, passage: Passage) -> None:
        action = self._definitions.actions.get(passage.request.action)
        if action is None or not self._gate.is_visible(passage.principal, action):
            raise unknown_action(passage.principal)
        passage.action = action

    async def _access(self, passage: Passage) -> None:
        arguments = passage.request.arguments
        if not isinstance(arguments, dict):
            raise Problem(
                Code.INVALID_INPUT, "The arguments must be a JSON object.", "Send `args` as an object, `{}` for none."
            )
        passage.rule = self._gate.allow(passage.principal, passage.found, arguments)
        self._gate.check_quarantine(passage.found)

    async def _input(self, passage: Passage) -> None:
        errors = self._definitions.validate(passage.found, passage.request.arguments)
        if errors:
            raise Problem(
                Code.INVALID_INPUT,
                "The arguments do not fit what the action declares; nothing was sent.",
                "Correct the fields listed under `errors` and submit again.",
                errors=_below_args(errors),
            )
        self._gate.check_credential(passage.found)

    async def _candidate(self, passage: Passage) -> None:
        """Fix the operation's id, its exact request and its fingerprint; nothing of it exists yet outside here."""
        action, request = passage.found, passage.request
        operation_id = self._ids.operation_id()
        variables = variables_of(
            request.arguments, operation_id=operation_id, run=request.run, correlation_id=request.correlation_id
        )
        rendered = _render(action, variables)
        packed, created_ms = pack_request(rendered), self._clock.wall_ms()
        passage.rendered, passage.variables = rendered, variables
        arguments = canonical(request.arguments)
        passage.payloads = {"request": packed, "arguments": arguments}
        passage.operation = Operation.make(
            id=operation_id,
            caller=passage.principal.name,
            owner=passage.principal.owner,
            action=action.name,
            definition=action.digest,
            effect=action.effect.value,
            fingerprint=fingerprint_of(passage.principal.name, action.name, arguments),
            created_ms=created_ms,
            start_by_ms=created_ms + int(action.deadlines.start_seconds * 1000),
            target_service=action.service.name,
            target_url=rendered.url if action.subject is None else declared_url(action),
            request_sha256=sha256(packed).hexdigest(),
            key=request.key,
            conflict_key=_conflict(action, variables),
            run=request.run,
            correlation_id=request.correlation_id,
            trace_id=request.trace_id,
            parent=request.parent,
            supersedes=request.supersedes,
            rule=passage.rule,
        )


def live_of(passage: Passage) -> Live:
    """What a candidate's submission has come to, as the driver takes it."""
    return Live(
        operation=present(passage.operation, "a candidate was made"),
        action=passage.found,
        arguments=passage.request.arguments,
        request=present(passage.rendered, "a request was rendered"),
        filled=passage.variables,
    )


def _conflict(action: Action, variables: Mapping[str, Any]) -> str | None:
    """A digest of the filled-in key: it is only ever compared, and may name a person."""
    if action.conflict_key is None:
        return None
    return sha256(render_text(action.conflict_key, variables).encode()).hexdigest()


def _render(action: Action, variables: Mapping[str, Any]) -> Rendered:
    try:
        return render_request(
            action.request,
            variables,
            base_url=action.service.base_url,
            bind=action.bind,
            precondition=action.precondition,
        )
    except Problem as problem:
        problem.errors = _below_args(problem.errors)
        raise


def _below_args(errors: Sequence[FieldError]) -> list[FieldError]:
    """From here on a pointer leads into the whole submission, like every other one that the caller gets."""
    return [replace(error, pointer=f"/args{error.pointer}") for error in errors]


def refusal(principal: Principal, verdict: Verdict) -> Problem:
    """The problem for a candidate that the identity rules refuse. Foreign operations are not named."""
    other = verdict.operation
    named = other.id if other is not None and sees(principal, other.caller) else None
    match verdict.code:
        case Code.KEY_REUSED:
            detail = "This key already names a request with other arguments; nothing was sent or changed."
            guidance = "Use the key with its own arguments to learn that outcome, or a new key for a new task."
        case Code.WRONG_STATE:
            detail = "Only an unresolved operation that nothing else superseded can be superseded; nothing was sent."
            guidance = "Read the operation that you named; it may be settled by now."
        case Code.PROBABLE_REPEAT:
            detail = "An equal operation finished a moment ago; its document is under `operation`."
            guidance = "Take that outcome. If you mean to do it once more, submit it with a new key of your own."
        case _:
            detail = "An earlier operation that this one would repeat or collide with is not settled yet."
            guidance = "Do not send it again in another form. Wait for the earlier operation's outcome."
            if named is not None and present(other, "it is named").state is State.UNRESOLVED:
                # No waiting helps there.
                guidance = (
                    "Do not send it again in another form. The earlier operation waits for a person, who settles it or"
                    " puts another one in its place: tell one."
                )
    return Problem(present(verdict.code, "a refusal has a code"), detail, guidance, operation_id=named)


def gone(verdict: Verdict) -> Problem:
    """The problem for a candidate that repeats an operation of which only the name is left."""
    match verdict.code:
        case Code.PREDECESSOR_UNSETTLED:
            detail = (
                "The store was restored from a backup and lost this operation. It was not settled before that, so it"
                " may have been carried out; nothing was sent."
            )
            guidance = (
                "Do not send it again in another form. A person looks at the service or host; if it must still be done,"
                " they submit it with `supersedes`."
            )
        case Code.PROBABLE_REPEAT:
            detail = "An equal operation was finished before the store was restored from a backup."
            guidance = (
                "Look at the service or host. If you mean to do it once more, submit it with a new key of your own."
            )
        case _:
            detail = "Of the operation under this key only the name is left; nothing was sent."
            guidance = "Do not use this key again. Use a new key for a new task."
    code = verdict.code or Code.KEY_REUSED
    return Problem(code, detail, guidance, operation_id=verdict.expired_id)


def is_known(verdict: Verdict) -> bool:
    """The submission is an earlier operation once more: joined to it, or answered from the store."""
    return verdict.ruling in (Ruling.JOIN, Ruling.REPLAY)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= RUN_LENGTH_MAX and all(0x21 <= ord(char) <= 0x7E for char in text)
