"""Bounds and permissions that a submission meets before it exists: room, rate, depth, access, credentials."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.core.acl import is_visible, require_access, sees
from gateway.core.template import known_origin
from gateway.engine.clock import Clock
from gateway.engine.ports import Credentials
from gateway.engine.recovery import Recovery
from gateway.engine.submit import Request
from gateway.model.access import Policy
from gateway.model.action import Action
from gateway.model.principal import Principal
from gateway.model.problem import Code, FieldError, Problem
from gateway.store.port import Store


class Bucket:
    """A token bucket per key: a steady rate and a burst."""

    def __init__(self, clock: Clock, *, per_second: float, burst: int) -> None:
        """Counted on boot time, which nobody can step."""
        self._clock = clock
        self._per_second = per_second
        self._burst = float(burst)
        self._levels: dict[str, tuple[float, int]] = {}

    def take(self, key_id: str) -> float:
        """Take one token; 0.0 if there was one, else the seconds until there is."""
        now_ms = self._clock.boot_ms()
        level, then_ms = self._levels.get(key_id, (self._burst, now_ms))
        level = min(self._burst, level + (now_ms - then_ms) / 1000 * self._per_second)
        if level < 1.0:
            self._levels[key_id] = (level, now_ms)
            return (1.0 - level) / self._per_second
        self._levels[key_id] = (level - 1.0, now_ms)
        return 0.0


class Doorkeeper:
    """Answers the questions of `engine.submit.Gate` for the running gateway."""

    def __init__(
        self,
        store: Store,
        recovery: Recovery,
        policy: Policy,
        credentials: Credentials,
        *,
        in_flight_max: int,
        per_caller_max: int,
        depth_max: int,
    ) -> None:
        """Bounds are settings."""
        self._store = store
        self._recovery = recovery
        self._policy = policy
        self._credentials = credentials
        self._in_flight_max = in_flight_max
        self._per_caller_max = per_caller_max
        self._depth_max = depth_max
        self._visible: dict[tuple[str, str, str], bool] = {}
        """By principal, action and definition: asked at every submission, and answered by rules that stay."""
        self.draining = False
        self.quarantined = False
        self.log_refusal: Callable[[], str | None] = lambda: None
        """Why nothing new may be taken for the audit log's sake; set by whoever keeps the log."""

    def unready(self) -> str | None:
        """Why nothing new is taken now, or None."""
        if self.draining:
            return "shutting down"
        if self._store.failed is not None:
            return "the store's state is unknown"
        return self.log_refusal() or self._store.room()

    def check_room(self, principal: Principal) -> None:
        """Raise Problem if nothing can be taken now."""
        if self.draining:
            raise Problem(
                Code.SHUTTING_DOWN, "The gateway is shutting down; nothing was sent.", "Submit again in a moment."
            )
        if self._store.failed is not None:
            raise Problem(
                Code.STORE_UNAVAILABLE,
                "The store's state is unknown and the gateway is stopping.",
                "Do not send it in another way. Ask by key once the gateway is back.",
            )
        if (reason := self.log_refusal()) is not None:
            raise Problem(
                Code.AUDIT_UNAVAILABLE,
                f"{reason} Nothing was sent.",
                "Submit again later with the same key.",
                retry_after_seconds=5.0,
            )
        if self._recovery.busy >= self._in_flight_max:
            raise _too_many(f"{self._in_flight_max} operations are being carried out")
        if self._recovery.count_of(principal.name) >= self._per_caller_max:
            raise _too_many(f"This caller has {self._per_caller_max} unsettled operations")

    async def check_parent(self, principal: Principal, request: Request) -> None:
        """Follow the chain of parents: each must be visible, and the chain no deeper than the bound."""
        parent, depth = request.parent, 0
        seen: set[str] = set()
        while parent is not None:
            depth += 1
            if parent in seen or depth > self._depth_max:
                raise Problem(
                    Code.FORBIDDEN,
                    f"The chain of parent operations is deeper than {self._depth_max} or leads back to itself.",
                    "Start a new chain, or ask why this action calls itself.",
                )
            seen.add(parent)
            operation = await self._store.get(parent)
            if operation is None or not sees(principal, operation.caller):
                guidance = "Name the operation that caused this call, or leave `parent` out."
                raise Problem(
                    Code.NOT_FOUND,
                    "The parent is not an operation that this key can see.",
                    guidance,
                    errors=(FieldError("/parent", "There is no such operation.", guidance),),
                )
            parent = operation.parent

    def allow(self, principal: Principal, action: Action, arguments: Mapping[str, Any]) -> str:
        """The rule that allows it."""
        return require_access(self._policy, principal, action, arguments).rule

    def is_visible(self, principal: Principal, action: Action) -> bool:
        """Whether the action exists for this principal."""
        names = principal.name, action.name, action.digest
        known = self._visible.get(names)
        if known is None:
            known = self._visible[names] = is_visible(self._policy, principal, action)
        return known

    def check_credential(self, action: Action) -> None:
        """An action that could not be sent is refused before it exists."""
        if action.service.credential is not None:
            self._credentials.secret_for(action.service.credential, known_origin(action.service.base_url))
        host = action.service.host
        while host is not None:
            self._credentials.secret_for(host.credential, host.origin)
            host = host.jump

    def check_quarantine(self, action: Action) -> None:
        """After a restore nobody knows what was already sent: writes wait for an operator."""
        if self.quarantined and not action.is_read:
            raise Problem(
                Code.QUARANTINED,
                "The store is older than its audit log (it was restored), so writes are held.",
                "Reads go on. A person with access to the gateway runs `gateway recover`.",
            )


def _too_many(what: str) -> Problem:
    return Problem(
        Code.TOO_MANY_REQUESTS,
        f"{what}; nothing was sent.",
        "Wait, then submit again with the same key.",
        retry_after_seconds=1.0,
    )
