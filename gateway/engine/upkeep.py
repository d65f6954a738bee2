"""What people have done on a host: fence an operation, set a lock aside, forget what is settled. Each is an operation.

It has an identity before its first byte, runs on the host under a record of its own, and is settled like every other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.ids import PREFIX, parse_id
from gateway.core.steps import steps_of
from gateway.engine.clock import Clock
from gateway.engine.enrolling import Enrolment
from gateway.engine.gateway import Gateway, View
from gateway.engine.host_desk import HostDesk
from gateway.engine.ports import Definitions
from gateway.engine.revive import Revival
from gateway.model.action import Action, Host
from gateway.model.operation import Operation
from gateway.model.principal import Principal
from gateway.model.problem import Code, Problem
from gateway.model.step import ENDED, first_unfinished
from gateway.store.port import Store

ATTEMPTS_MAX: Final = 20
"""The most that a catalog allows, so the most that a late copy can name."""
_ID_LENGTH: Final = len(PREFIX) + 26


class Upkeep:
    """Submits the gateway's own actions on hosts. All of it is for people."""

    def __init__(
        self,
        gateway: Gateway,
        desk: HostDesk,
        *,
        definitions: Definitions,
        store: Store,
        revival: Revival,
        clock: Clock,
    ) -> None:
        """All are the running engine's."""
        self._gateway = gateway
        self._desk = desk
        self._definitions = definitions
        self._store = store
        self._revival = revival
        self._clock = clock

    async def fence(
        self,
        principal: Principal,
        name: str,
        target: str,
        *,
        attempts: int | None = None,
        reason: str | None = None,
        key: str | None = None,
    ) -> View:
        """See to it that no attempt of an operation which has not begun there ever will. Raises Problem."""
        action, _ = self._action("host.fence", name)
        operation_id = target[:_ID_LENGTH]
        known = await self._store.get(operation_id)
        if known is not None and not known.final:
            raise Problem(
                Code.WRONG_STATE,
                "That operation is this gateway's own and not settled; its evidence would not know of this fence.",
                "`gateway operations cancel` fences it, or tells the command, and settles it by what the host says.",
                operation_id=operation_id,
            )
        most = ATTEMPTS_MAX
        if known is not None:
            definition = await self._revival.action(known)
            most = definition.attempts_max
            if target == operation_id and definition.steps:
                target = _step_to_fence(definition, known)
        arguments = {
            "host": name,
            "target": target,
            "issued_ms": _issued_ms(operation_id, known),
            "attempts": attempts or most,
        }
        return await self._submit(principal, action, arguments, key, {"target": target, "reason": reason})

    async def unlock(
        self, principal: Principal, name: str, lock: str, *, seen: str, reason: str, key: str | None = None
    ) -> View:
        """Set aside a lock whose holder does not live. `seen` is the digest of what was shown of it. Raises Problem."""
        action, _ = self._action("host.unlock", name)
        shown = await self._desk.lock(name, lock)
        if shown["state"] == "free":
            raise Problem(Code.WRONG_STATE, "Nobody holds this lock; there is nothing to set aside.", "Go on.")
        if shown["holder_phase"] == "running":
            raise Problem(
                Code.WRONG_STATE,
                "Its holder is alive, so the lock stays; nothing was sent.",
                f"`gateway operations cancel {shown['holder']}` tells the command; the lock is free when it has ended.",
            )
        if shown["digest"] != seen:
            raise Problem(
                Code.STALE_DIGEST,
                "The lock is not as it was shown; nothing was sent.",
                "Look again who holds it, then decide.",
                extra={"digest": shown["digest"]},
            )
        noted = {field: shown[field] for field in ("lock", "number", "holder", "holder_phase", "until")}
        arguments = {"host": name, "lock": lock, "number": shown["number"]}
        return await self._submit(principal, action, arguments, key, {**noted, "reason": reason})

    async def collect(
        self,
        principal: Principal,
        name: str,
        *,
        older_than_seconds: int,
        reason: str | None = None,
        key: str | None = None,
    ) -> View:
        """Forget what the store holds of settled operations that are older, and refuse late copies. Raises Problem.

        Never of one that is not settled here: its record on the host may be the only evidence there is.
        """
        action, host = self._action("host.collect", name)
        before_ms = self._clock.wall_ms() - older_than_seconds * 1000
        for operation in await self._store.unsettled():
            if await self._is_there(operation, host):
                before_ms = min(before_ms, _issued_ms(operation.id, operation) - 1)
        if before_ms < 1:
            raise Problem(Code.INVALID_INPUT, "Nothing can be that old.", "Give a shorter age, for example 30d.")
        arguments = {"host": name, "before_ms": before_ms}
        return await self._submit(principal, action, arguments, key, {"before_ms": before_ms, "reason": reason})

    async def _is_there(self, operation: Operation, host: Host) -> bool:
        if not operation.target_url.startswith("ssh://"):
            return False
        other = (await self._revival.action(operation)).service.host
        # One store may be declared under two names.
        return other is not None and other.store_id == host.store_id

    def _action(self, action: str, name: str) -> tuple[Action, Host]:
        host = self._desk.stored(name)
        found = self._definitions.built_in(action, name)
        if found is None:
            raise Problem(Code.NOT_FOUND, "This gateway was started without a way to hosts.", "Start it anew.")
        return found, host

    async def _submit(
        self,
        principal: Principal,
        action: Action,
        arguments: Mapping[str, Any],
        key: str | None,
        noted: Mapping[str, Any],
    ) -> View:
        said = {name: value for name, value in noted.items() if value is not None}
        return await self._gateway.submit_built_in(principal, action, arguments, key=key, noted={"upkeep": said})


@dataclass(frozen=True, slots=True)
class HostServices:
    """What people can ask of hosts, or have done there."""

    desk: HostDesk
    enrolment: Enrolment
    upkeep: Upkeep


def _step_to_fence(action: Action, known: Operation) -> str:
    """The record of a settled job's first unfinished step: under the job's own id the host has none.

    Nothing after that step was ever sent. Raises Problem where it has ended, for then there is nothing to close.
    """
    steps = steps_of(action, known)
    index = first_unfinished(steps)
    if index is None or steps[index].state in ENDED:
        ended = "Each of its steps has ended" if index is None else f"Its step {steps[index].name} has failed"
        raise Problem(
            Code.WRONG_STATE,
            f"{ended}, and nothing after that was ever sent: there is nothing to fence, and nothing was sent.",
            "`gateway host operations` lists what the host holds of it.",
            operation_id=known.id,
        )
    return f"{known.id}.{steps[index].name}"


def _issued_ms(operation_id: str, known: Operation | None) -> int:
    """When the host was first told of it: by the store, else by the time that its id was made of."""
    if known is not None:
        return known.begun_ms or known.created_ms
    try:
        return max(int.from_bytes(parse_id(operation_id)[:6], "big"), 1)
    except ValueError:
        raise Problem(
            Code.INVALID_INPUT, "That is no operation's id.", "Take one that `host operations` lists."
        ) from None
