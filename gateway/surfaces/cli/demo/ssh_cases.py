"""What the demo lets happen to commands on hosts, and how each must end whatever the machine's speed."""

from dataclasses import dataclass
from typing import Final

from gateway.surfaces.cli.demo.cases import Case

BEGUN: Final = "begun"
"""A stage that the demo announces to a proxy: the command itself has left its line."""


@dataclass(frozen=True, slots=True)
class HostCase(Case):
    """One command of the demo. `fault` is one of the host's, `toxic` one of its proxy's, struck at `toxic_stage`."""

    host: str = "web-1"
    version: str = "v7"
    toxic_stage: str = ""

    @property
    def arguments(self) -> dict[str, str]:
        """What the agent asks for."""
        return {"version": self.version}


def _case(name: str, title: str, ends: str, host: str, **more: object) -> HostCase:
    return HostCase(name, title, f"{host}.release", ends, host=host, **more)  # type: ignore[arg-type]  # a table's row


HOST_CASES: Final[tuple[HostCase, ...]] = (
    _case("good-day", "runs, and its end is reported", "success", "web-1", doubtful=False),
    _case("fails", "runs, and fails: exit status 3", "error", "web-1", doubtful=False, version="bad-1"),
    _case("ran", "runs, but the session dies", "success", "web-2", version="slow-1",
          toxic="cut_at", toxic_stage=BEGUN),
    _case("never-ran", "session dies before it could run", "error", "web-3", fault="ssh_accept_abort"),
    _case("late", "held up on the way, delivered later", "error", "web-4",
          toxic="hold_at", toxic_stage="accepted"),
    _case("killed", "runs while the gateway is killed", "success", "web-1", stage="in_flight", version="slow-2"),
    _case("refused-first", "session refused, so asked once more", "success", "web-1", doubtful=False,
          stage="afterwards", fault="ssh_refuse_session", version="v8"),
)  # fmt: skip

HOST_BY_NAME: Final = {case.name: case for case in HOST_CASES}
HOSTS: Final = tuple(sorted({case.host for case in HOST_CASES}))
HONEST: Final = "web-1"
"""Nothing happens to the sessions of this one by itself."""
