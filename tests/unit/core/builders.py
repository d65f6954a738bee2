"""Small builders for tests of the core: actions, operations, observations and a clock that only the test moves."""

from dataclasses import dataclass, field, replace
from typing import Any

from adapters.contract import Framing, Observation, Phase
from gateway.core.draft import Step
from gateway.core.events import Begin, Event, FenceBegun, Observed, Probed, Sighting
from gateway.core.lifecycle import step
from gateway.model.action import (
    Accepted,
    Action,
    Bind,
    BindPlace,
    Deadlines,
    Effect,
    Fence,
    FindingRule,
    HandleSource,
    Identify,
    Predicate,
    Reconcile,
    ReplayAfter5xx,
    RequestTemplate,
    Resend,
    Service,
    Settle,
)
from gateway.model.evidence import Finding
from gateway.model.operation import Executed, Now, Operation, State

BASE = "https://svc.example.com/api"
OP_ID = "op_01jd0000000000000000000000"
T0 = 1_700_000_000_000
BOOT0 = 5_000_000
BEGIN = Begin(lease_seconds=20.0)
FENCE = FenceBegun(lease_seconds=20.0)


def statuses(*codes: int) -> tuple[Predicate, ...]:
    return tuple(Predicate(statuses=((code, code),)) for code in codes)


RULES = (
    FindingRule(Predicate(statuses=((200, 200),), path="state", equals=("done",)), Finding.EXECUTED_OK),
    FindingRule(Predicate(statuses=((200, 200),), path="state", equals=("broken",)), Finding.EXECUTED_FAILED),
    FindingRule(Predicate(statuses=((200, 200),), path="state", equals=("never",)), Finding.EXECUTED_FAILED, "no"),
    FindingRule(Predicate(statuses=((200, 200),), path="state", equals=("busy",)), Finding.IN_PROGRESS),
    FindingRule(Predicate(statuses=((200, 200),), path="state", equals=("tombstone",)), Finding.FENCED),
    FindingRule(Predicate(statuses=((404, 404),)), Finding.ABSENT),
)
LOOK_UP = Reconcile(
    RequestTemplate("GET", "/by-id/{operation_id}"), Identify("id", "{operation_id}"), RULES, interval_seconds=1.0
)
SETTLE = replace(LOOK_UP, absence=Settle(30.0))
FENCED = replace(
    LOOK_UP,
    absence=Fence(
        RequestTemplate("PUT", "/by-id/{operation_id}", body={"tombstone": "{operation_id}"}),
        won=Predicate(statuses=((201, 201),)),
        lost=Predicate(statuses=((409, 409),)),
    ),
)
STATE = replace(SETTLE, identify=Identify(state=True))
ACCEPTED = Accepted(Predicate(statuses=((202, 202),)), HandleSource(header="Location"), RULES)
SAME_KEY: dict[str, Any] = {
    "resend": Resend.SAME_KEY,
    "bind": Bind(BindPlace.HEADER, "Idempotency-Key", window_min_seconds=3600.0, window_margin_seconds=60.0),
    "replay_after_5xx": ReplayAfter5xx.SAME_OUTCOME,
}


def action(method: str = "POST", **changes: Any) -> Action:
    """An irreversible POST that is successful with any 2xx and declares nothing else."""
    plain = Action(
        name="things.create",
        description="Create a thing.",
        effect=Effect.IRREVERSIBLE,
        digest="d" * 64,
        service=Service("svc", BASE),
        request=RequestTemplate(method, "/things"),
        input_schema={},
        success=Predicate(statuses=((200, 299),)),
        deadlines=Deadlines(connect_seconds=5, request_seconds=10, recovery_seconds=300, start_seconds=3600),
    )
    return replace(plain, **changes)


def read(**changes: Any) -> Action:
    return action("GET", effect=Effect.READ, **changes)


def operation(**changes: Any) -> Operation:
    plain = Operation(
        id=OP_ID,
        caller="agent",
        owner="ann",
        action="things.create",
        definition="d" * 64,
        effect="irreversible",
        fingerprint="f" * 64,
        created_ms=T0,
        start_by_ms=T0 + 3_600_000,
        target_service="svc",
        target_url=f"{BASE}/things",
        request_sha256="0" * 64,
    )
    return replace(plain, **changes)


def now(seconds: float = 0.0, **changes: Any) -> Now:
    """Both clocks `seconds` after the start."""
    moment = int(seconds * 1000)
    return replace(Now(T0 + moment, BOOT0 + moment, "boot-1", "owner-1", 0.5), **changes)


def seen(**changes: Any) -> Observation:
    """A time-out after the whole request was written; its socket was closed hard at the start of the clock."""
    plain = Observation(
        phase=Phase.REQUEST_WRITTEN,
        nothing_left=False,
        started_ms=T0,
        ended_ms=T0,
        closed_boot_ms=BOOT0,
        summary="the request deadline passed before an answer",
        bytes_written=400,
        bytes_expected=400,
        request_complete=True,
    )
    return replace(plain, **changes)


TIMEOUT = seen()
UNSENT = seen(
    phase=Phase.CONNECTING,
    nothing_left=True,
    bytes_written=0,
    request_complete=False,
    summary="the connection could not be made",
)


def answer(status: int, body: bytes = b"", *headers: tuple[str, str], **changes: Any) -> Observation:
    """A whole, framed answer to a wholly written request."""
    return seen(
        **{
            "phase": Phase.RESPONSE_COMPLETE,
            "status": status,
            "headers": headers,
            "framing": Framing.LENGTH,
            "body": body,
            "body_complete": True,
            "summary": f"answered with {status}",
        }
        | changes
    )


def probed(finding: Finding, at: Now, *, executed: Executed | None = None, contradiction: bool = False) -> Probed:
    """A look that began at `at`."""
    sighting = Sighting(finding, f"look: {finding.value}", executed, contradiction=contradiction)
    return Probed(sighting, at.wall_ms, at.boot_ms)


@dataclass
class Story:
    """One operation's life told event by event. `tell` moves the clock first and keeps every step."""

    action: Action
    operation: Operation = field(default_factory=operation)
    now: Now = field(default_factory=now)
    steps: list[Step] = field(default_factory=list)

    def tell(self, *events: Event, after: float = 0.0) -> "Story":
        """Let `after` seconds pass, then apply the events."""
        self.wait(after)
        for event in events:
            taken = step(self.action, self.operation, event, self.now)
            self.steps.append(taken)
            self.operation = taken.operation
        return self

    def wait(self, seconds: float) -> "Story":
        moment = int(seconds * 1000)
        self.now = replace(self.now, wall_ms=self.now.wall_ms + moment, boot_ms=self.now.boot_ms + moment)
        return self

    def observe(self, observation: Observation, *, attempt: int | None = None) -> "Story":
        """The newest attempt (or the named one) showed this, now."""
        number = len(self.operation.attempts) if attempt is None else attempt
        closed = None if observation.closed_boot_ms is None else self.now.boot_ms
        ended = replace(observation, ended_ms=self.now.wall_ms, closed_boot_ms=closed)
        return self.tell(Observed(number, ended, {"operation_id": OP_ID}))

    def send(self, observation: Observation) -> "Story":
        """Begin an attempt, and this is what it showed."""
        return self.tell(BEGIN).observe(observation)

    def look(self, finding: Finding, *, after: float = 0.0, **details: Any) -> "Story":
        """Let time pass, then a look shows this."""
        self.wait(after)
        return self.tell(probed(finding, self.now, **details))

    def in_doubt(self) -> "Story":
        """Send once; the answer is lost."""
        return self.send(TIMEOUT)

    @property
    def state(self) -> State:
        return self.operation.state

    @property
    def path(self) -> list[str]:
        """The states in the order in which they were entered."""
        return [taken.operation.state.value for taken in self.steps]

    @property
    def alerts(self) -> list[str]:
        return [alert for taken in self.steps for alert in taken.alerts]

    @property
    def ending(self) -> tuple[str, str, str | None]:
        """State, executed and basis."""
        return self.operation.state.value, self.operation.executed.value, self.operation.basis
