"""Talks to the fault kit, which runs as a process of its own: plans faults, releases what is held, reads the ledger."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self
from urllib.parse import urlencode

from gateway.surfaces.cli.client import AnswerLost, Client, Unreachable
from gateway.surfaces.cli.demo.cases import Case
from gateway.surfaces.cli.demo.processes import DemoFailedError

WAIT_SECONDS_MAX: Final = 30.0


class Controls:
    """A running program of the fault kit, and the control APIs of what it offers and of the proxy before that."""

    def __init__(self, ready: Mapping[str, Any]) -> None:
        """`ready` is the line that the program printed."""
        self._control = Client(str(ready["control"]), "none")
        self._proxy_control = Client(str(ready["proxy_control"]), "none")

    @classmethod
    def of(cls, ready: Mapping[str, Any]) -> Self:
        """The program that a ready line describes. Raises DemoFailedError."""
        try:
            return cls(ready)
        except KeyError as missing:
            raise DemoFailedError(f"The fault kit did not say where its {missing} is.") from None

    async def release_proxy(self) -> None:
        """Deliver what the proxy holds."""
        await self.ask_proxy("POST", "/_release", {})

    async def wait_for_entry(self, **fields: str) -> None:
        """Wait until the ledger has an entry with these fields."""
        query = urlencode({**fields, "timeout_seconds": WAIT_SECONDS_MAX})
        await self.ask("GET", f"/_ledger/wait?{query}", seconds=WAIT_SECONDS_MAX)

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float = 0.0) -> Any:  # noqa: ANN401 - any JSON value
        """One call of the control API. Raises DemoFailedError."""
        return await _ask(self._control, method, path, body, seconds)

    async def ask_proxy(self, method: str, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        """One call of the proxy's. Raises DemoFailedError."""
        return await _ask(self._proxy_control, method, path, body, 0.0)


async def _ask(control: Client, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> Any:  # noqa: ANN401 - any JSON value
    try:
        answer = await control.call(method, path, body=body, wait_seconds=seconds)
    except (Unreachable, AnswerLost) as lost:
        raise DemoFailedError(f"The fault kit does not answer: {lost}.") from lost
    if answer.is_problem:
        raise DemoFailedError(f"The fault kit refused {method} {path}: {answer.document}")
    return answer.document


class Kit(Controls):
    """The service of the HTTP demo: its address, and the proxy's."""

    def __init__(self, ready: Mapping[str, Any]) -> None:
        """`ready` is the line that `fixtures up` printed."""
        super().__init__(ready)
        self.service = str(ready["service"])
        self.proxy = str(ready["proxy"])

    async def plan(self, case: Case) -> None:
        """Let the case's request meet its fault."""
        if case.toxic is not None:
            await self.ask_proxy("POST", "/_toxics", {"type": case.toxic, "times": 1})
        if case.fault is not None:
            await self.ask("POST", "/_faults", {"fault": case.fault, "match": {"path": case.path}})

    async def lookups_down(self) -> None:
        """The status endpoint answers 503 until told otherwise."""
        await self.ask("POST", "/_faults", {"fault": "lookup_unavailable", "times": None})

    async def lookups_up(self) -> None:
        """The status endpoint works again; faults that have not struck yet are forgotten too."""
        await self.ask("DELETE", "/_faults")

    async def have_arrived(self, cases: Sequence[Case]) -> None:
        """Wait until the service has the request of each of these cases."""
        for case in cases:
            await self.wait_for_entry(path=case.path)

    async def has_effect(self, operation: str) -> None:
        """Wait until an operation has taken effect."""
        await self.wait_for_entry(op=operation, effect="done")

    async def has_come_late(self, operation: str) -> None:
        """Wait until a request that was held up has arrived."""
        await self.wait_for_entry(op=operation, kind="late")

    async def release_service(self, operation: str) -> None:
        """Let the held request of an operation arrive."""
        await self.ask("POST", "/_release", {"op": operation})

    async def ledger(self) -> list[dict[str, Any]]:
        """Every entry so far."""
        found: list[dict[str, Any]] = (await self.ask("GET", "/_ledger"))["entries"]
        return found
