"""The SSH half of the fault alphabet: where a session ends, what was delivered by then, and what befell the host."""

from dataclasses import dataclass, replace

from adapters.contract_ssh import Stage
from tests.model.kinds import Kind


@dataclass(frozen=True, slots=True)
class HostFate:
    """What becomes of one session, and of what it asked for."""

    name: str
    until: Stage = Stage.ENDED
    """The last stage that we see. Below `ASKED` nothing was written."""
    hangs: bool = False
    """It ends only when its time is over."""
    refused: bool = False
    """The host said no, at `ASKED`: proof that nothing was delivered."""
    untrusted: bool = False
    arrives: str = "promptly"
    """promptly, never, late: some time after our socket was closed."""
    held: float = 0.0
    answer: str = "whole"
    """whole, none, torn, noisy, twice, another's, unframed: what of the runner's line came over the channel."""
    status: int | None = 0
    """What the session reported as its end. None: it returned without a status."""
    signal: str | None = None
    host: str = ""
    """What befell the host, its store, or its status command."""
    fails: bool = False
    lasts: str = "shortly"
    """shortly, long: longer than its request; for ages: past the recovery deadline."""


FINE_HOST = HostFate("fine")


def _cut(name: str, until: Stage, arrives: str = "promptly", **more: object) -> HostFate:
    made = HostFate(name, until=until, arrives=arrives, answer="none", status=None)
    return replace(made, **more)  # type: ignore[arg-type]  # a table's row


_WAYS = (
    FINE_HOST,
    _cut("ssh: connection refused", Stage.CONNECTING, "never"),
    _cut("ssh: login hangs", Stage.CONNECTING, "never", hangs=True),
    _cut("ssh: host key changed", Stage.CONNECTING, "never", untrusted=True),
    _cut("ssh: session refused", Stage.CONNECTED, "never"),
    _cut("ssh: session hangs", Stage.CONNECTED, "never", hangs=True),
    _cut("ssh: command refused", Stage.ASKED, "never", refused=True),
    _cut("ssh: asked, lost", Stage.ASKED, "never"),
    _cut("ssh: asked, lost, silent", Stage.ASKED, "never", hangs=True),
    _cut("ssh: asked, delivered", Stage.ASKED),
    _cut("ssh: asked, delivered, silent", Stage.ASKED, hangs=True),
    _cut("ssh: accepted, torn", Stage.ACCEPTED, "never"),
    _cut("ssh: accepted, torn, clean end", Stage.ACCEPTED, "never"),
    _cut("ssh: accepted, delivered, cut", Stage.ACCEPTED),
    _cut("ssh: accepted, delivered, silent", Stage.ACCEPTED, hangs=True),
    _cut("ssh: held a little", Stage.ASKED, "late", held=0.05),
    _cut("ssh: held, silent", Stage.ACCEPTED, "late", held=0.4, hangs=True),
    _cut("ssh: held beyond every deadline", Stage.ACCEPTED, "late", held=1.0),
    HostFate("ssh: output, no status", Stage.ACCEPTED, status=None),
    HostFate("ssh: output torn, no status", Stage.ACCEPTED, status=None, answer="torn"),
    HostFate("ssh: status, no output", answer="none"),
    HostFate("ssh: forced command", arrives="never", answer="none"),
    HostFate("ssh: forced command prints", arrives="never", answer="unframed"),
    HostFate("ssh: output torn", answer="torn"),
    HostFate("ssh: noise around the answer", answer="noisy"),
    HostFate("ssh: answer twice", answer="twice"),
    HostFate("ssh: answer to another call", answer="another's"),
    HostFate("ssh: shell killed", status=None, signal="KILL", answer="none"),
    HostFate("ssh: shell killed before", status=None, signal="KILL", answer="none", arrives="never"),
)
_AT_THE_HOST = (
    HostFate("host: command fails", fails=True),
    HostFate("host: command fails, lost", Stage.ACCEPTED, answer="none", status=None, fails=True),
    HostFate("host: long command", lasts="long"),
    HostFate("host: endless command", lasts="for ages"),
    HostFate("host: slow to begin", host="slow to begin"),
    HostFate("host: killed before the gate", host="killed before the gate"),
    HostFate("host: killed before it begins", host="killed before it begins"),
    HostFate("host: killed as it begins", host="killed as it begins"),
    HostFate("host: killed while it runs", host="killed while it runs"),
    HostFate("host: killed while it runs long", host="killed while it runs", lasts="long"),
    HostFate("host: rebooted before it begins", host="rebooted before it begins"),
    HostFate("host: rebooted while it runs", host="rebooted while it runs"),
    HostFate("host: disk full", host="disk full"),
    HostFate("host: other store", host="other store"),
    HostFate("host: lock busy", host="lock busy"),
    HostFate("host: below the floor", host="below the floor"),
)
_RUNNER_ONLY = frozenset({
    "killed before the gate", "killed before it begins", "killed as it begins", "killed while it runs",
    "slow to begin", "rebooted before it begins", "disk full", "other store", "below the floor",
})  # fmt: skip
HOST_SENDS: dict[str, HostFate] = {fate.name: fate for fate in (*_WAYS, *_AT_THE_HOST)}
HOST_FENCES: dict[str, HostFate] = {
    fate.name: fate for fate in (*_WAYS, HOST_SENDS["host: disk full"], HOST_SENDS["host: other store"])
}
_LOOK_WAYS = ("fine", "ssh: connection refused", "ssh: login hangs", "ssh: accepted, delivered, silent",
              "ssh: asked, delivered", "ssh: output torn", "ssh: noise around the answer", "ssh: answer twice",
              "ssh: answer to another call", "ssh: forced command prints", "ssh: output, no status")  # fmt: skip
_RECORD = tuple(HostFate(word, host=word) for word in ("hidden", "other store", "collected", "put back"))
_OWN = tuple(
    HostFate(word, host=word)
    for word in (
        "status: silent", "status: noise", "status: two objects", "status: cut", "status: another's",
        "status: done, and exit 1", "status: a word of its own", "status: denies it",
    )
)  # fmt: skip
HOST_LOOKS: dict[str, HostFate] = {
    fate.name: fate for fate in (*(HOST_SENDS[name] for name in _LOOK_WAYS), *_RECORD, *_OWN)
}


def host_lawful(kind: Kind, fate: HostFate, what: str) -> bool:
    """Whether a session of that kind of action can meet with it."""
    if kind.host is None:
        return False
    if what == "send":
        if fate.host == "lock busy":
            return kind.host.lock
        return kind.host.runner or fate.host not in _RUNNER_ONLY
    if what == "look":
        return fate not in (_RECORD if kind.host.own_status else _OWN)
    return True
