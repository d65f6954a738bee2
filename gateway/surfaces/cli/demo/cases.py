"""What the demo lets happen to requests, and how each must end whatever the machine's speed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Stage = Literal["together", "in_flight", "afterwards"]


@dataclass(frozen=True, slots=True)
class Case:
    """One operation of the demo. `fault` is a name of the fault kit's alphabet, `toxic` one of its proxy."""

    name: str
    title: str
    action: str
    ends: Literal["success", "error"]
    fault: str | None = None
    toxic: str | None = None
    doubtful: bool = True
    """Whether its caller must be told `unknown` first."""
    stage: Stage = "together"
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The caller's own key, so that its lost answers can be asked for."""
        return f"demo-{self.name}"

    @property
    def path(self) -> str:
        """Where its request arrives: how the fault kit tells the cases apart."""
        match self.action:
            case "payments.create":
                return "/payments"
            case "environments.get":
                return f"/environments/{self.args['environment']}"
            case _:
                return f"/deployments/{self.name}"

    @property
    def arguments(self) -> dict[str, Any]:
        """What the agent asks for."""
        return dict(self.args) or {"name": self.name, "revision": "abc1234"}


PUT: Final = "deployments.put"

CASES: Final[tuple[Case, ...]] = (
    Case("good-day", "answered", PUT, "success", doubtful=False),
    Case("refused", "refused by the service: 400", PUT, "error", doubtful=False, args={"name": "refused"}),
    Case("no-connection", "connection refused", "deployments.put_gone", "error", doubtful=False),
    Case("lost-done", "carried out, answer lost", PUT, "success", "commit_then_drop"),
    Case("lost-undone", "not carried out, same break", PUT, "error", "read_then_drop"),
    Case("cut-done", "carried out, answer cut in the body", PUT, "success", "commit_then_cut_body"),
    Case("cut-undone", "not carried out, same cut", PUT, "error", "read_then_cut_body"),
    Case("500-done", "carried out, answered 500", PUT, "success", "500_with_effect"),
    Case("500-undone", "not carried out, answered 500", PUT, "error", "500_without_effect"),
    Case("hang-done", "carried out, silence past the deadline", PUT, "success", "commit_then_hang"),
    Case("late", "held up, delivered after the deadline", "deployments.put_far", "success", toxic="hold_request"),
    Case("late-fenced", "the same, its place occupied first", "deployments.put_fenced", "error", "late_on_release"),
    Case("accepted", "answered 202, done later", "deployments.start", "success"),
    Case("again", "not carried out, may be sent again", "deployments.put_again", "success", "read_then_reset"),
    Case(
        "same-key", "carried out, answer lost, no look-up", "deployments.put_same_key", "success",
        "commit_then_reset", doubtful=False,
    ),
    Case(
        "nobody-knows", "carried out, answer lost, nothing to ask", "payments.create", "success", "commit_then_drop",
        args={"account": "alice", "amount": 500},
    ),
    Case("killed-done", "carried out while the gateway was killed", "deployments.put_slow", "success",
         "commit_then_hang", stage="in_flight"),
    Case("killed-undone", "not carried out, same kill", "deployments.put_slow", "error", "read_then_hang",
         stage="in_flight"),
    Case("read", "a read", "environments.get", "success", doubtful=False, stage="afterwards",
         args={"environment": "good-day"}),
)  # fmt: skip

BY_NAME: Final = {case.name: case for case in CASES}
