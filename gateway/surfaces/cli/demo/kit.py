"""Talks to the fault kit, which runs as a process of its own: plans faults, releases what is held, reads the ledger."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from gateway.surfaces.cli.client import AnswerLost, Client, Unreachable
from gateway.surfaces.cli.demo.cases import Case
from gateway.surfaces.cli.demo.processes import DemoFailedError

WAIT_SECONDS_MAX: Final = 30.0


class Kit:
    """A running fault kit: addresses of service and proxy, and their controls."""

    def __init__(self, ready: Mapping[str, Any]) -> None:
        """`ready` is the line that the kit printed."""
        self.service = str(ready["service"])
        self.proxy = str(ready["proxy"])
        self._control = Client(str(ready["control"]), "none")
        self._proxy_control = Client(str(ready["proxy_control"]), "none")

    @classmethod
    def of(cls, ready: Mapping[str, Any]) -> "Kit":
        """The kit that a ready line describes. Raises DemoFailedError."""
        try:
            return cls(ready)
        except KeyError as missing:
            raise DemoFailedError(f"The fault kit did not say where its {missing} is.") from None

    async def plan(self, case: Case) -> None:
        """Let the case's request meet its fault."""
        if case.toxic is not None:
            await self._ask(self._proxy_control, "POST", "/_toxics", {"type": case.toxic, "times": 1})
        if case.fault is not None:
            await self._ask(self._control, "POST", "/_faults", {"fault": case.fault, "match": {"path": case.path}})

    async def lookups_down(self) -> None:
        """The status endpoint answers 503 until told otherwise."""
        await self._ask(self._control, "POST", "/_faults", {"fault": "lookup_unavailable", "times": None})

    async def lookups_up(self) -> None:
        """The status endpoint works again; faults that have not struck yet are forgotten too."""
        await self._ask(self._control, "DELETE", "/_faults")

    async def have_arrived(self, cases: Sequence[Case]) -> None:
        """Wait until the service has the request of each of these cases."""
        for case in cases:
            await self._wait(path=case.path)

    async def has_effect(self, operation: str) -> None:
        """Wait until an operation has taken effect."""
        await self._wait(op=operation, effect="done")

    async def has_come_late(self, operation: str) -> None:
        """Wait until a request that was held up has arrived."""
        await self._wait(op=operation, kind="late")

    async def _wait(self, **fields: str) -> None:
        query = urlencode({**fields, "timeout_seconds": WAIT_SECONDS_MAX})
        await self._ask(self._control, "GET", f"/_ledger/wait?{query}", seconds=WAIT_SECONDS_MAX)

    async def release_proxy(self) -> None:
        """Deliver what the proxy holds."""
        await self._ask(self._proxy_control, "POST", "/_release", {})

    async def release_service(self, operation: str) -> None:
        """Let the held request of an operation arrive."""
        await self._ask(self._control, "POST", "/_release", {"op": operation})

    async def ledger(self) -> list[dict[str, Any]]:
        """Every entry so far."""
        found: list[dict[str, Any]] = (await self._ask(self._control, "GET", "/_ledger"))["entries"]
        return found

    async def _ask(
        self,
        control: Client,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float = 0.0,
    ) -> Any:  # noqa: ANN401 - any JSON value
        try:
            answer = await control.call(method, path, body=body, wait_seconds=seconds)
        except (Unreachable, AnswerLost) as lost:
            raise DemoFailedError(f"The fault kit does not answer: {lost}.") from lost
        if answer.is_problem:
            raise DemoFailedError(f"The fault kit refused {method} {path}: {answer.document}")
        return answer.document
