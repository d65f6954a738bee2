"""The hosts: what a runner's store holds, what runs there, and what is lost with a process, a boot or a disk.

The rules are those that the head of `runner.sh` names; how the shipped script keeps them is tried on real shells.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.model.calls import Call, line, printed
from tests.model.history import Effect, History
from tests.model.host_faults import HostFate
from tests.model.loop import VirtualLoop

Reply = Callable[[bytes | None], None]
"""Takes what came over the channel: a line of the runner's; None where the host went down."""
SLOW_SECONDS = 20.0
ENDLESS_SECONDS = 200.0
BEGIN_SECONDS_MAX = 0.3
"""From the gate to the begin: the time in which a fence can still come between."""


@dataclass(eq=False, slots=True)
class Claim:
    """A gate with its token, and everything that hangs on it."""

    attempt: int
    digest: str
    boot: int
    at: int
    issued: int = 0
    fence: bool = False
    begun: str = ""
    """Who owns the begin: nobody, `run` or `fence`."""
    supervised: bool = True
    working: bool = False
    """Its command lives."""
    record: tuple[str, Any] | None = None
    """("exited", code) or ("notrun", reason)."""
    cancel_asked: bool = False
    lock: str | None = None
    waiters: list[Callable[[], None]] = field(default_factory=list)


class SimHost:
    """One host with one store."""

    def __init__(self, name: str, loop: VirtualLoop, random: Random, history: History) -> None:
        self.name = name
        self.loop = loop
        self.random = random
        self.history = history
        self.store_id = f"store-{name}"
        self.boot = 1
        self.floor = 0
        self.claims: dict[str, dict[int, Claim]] = {}
        self.told: dict[str, str] = {}
        """What a status command of its own says of an operation: working, done or failed."""
        self.snapshot: dict[str, dict[int, Claim]] | None = None
        self.seen: dict[str, int] = {}
        """Operations whose end the gateway was told, and when first, by its clock."""
        self.listeners: dict[Reply, None] = {}
        """Whoever waits for an answer."""

    # --- what a delivery brings

    def serve(self, call: Call, fate: HostFate, place: int, reply: Reply) -> None:
        """A whole delivery has come, and its shell runs the runner."""
        if fate.host == "put back":
            self._put_back()
        self.listeners[reply] = None

        def answer(text: bytes | None) -> None:
            if self.listeners.pop(reply, 0) is None:
                reply(text)

        if call.verb == "probe":
            self._probe(call, fate, place, answer)
        elif fate.host == "other store" or call.words["store_id"] != self.store_id:
            self._refuse(call, "store_mismatch", answer)
        elif call.verb == "run":
            self._run(call, fate, place, answer)
        else:
            self._look(call, fate, answer)

    def _look(self, call: Call, fate: HostFate, answer: Reply) -> None:
        if fate.host == "collected":
            self._collect(call)
        if call.verb in {"fence", "cancel"}:
            if fate.host == "disk full":
                self._refuse(call, "store_write", answer)
                return
            self._place_fence(call.op, call.attempt, call)
        claim = self._claim(call.op, call.attempt)
        if call.verb == "cancel" and self._phase(claim)[0] == "running" and claim is not None:
            claim.cancel_asked = True
            if self.random.random() < 0.7:
                self.loop.call_later(0.2, self._end, call.op, claim, 143)
        answer(self._report(call, hidden=fate.host == "hidden"))

    def _run(self, call: Call, fate: HostFate, place: int, answer: Reply) -> None:
        if int(call.words["issued"]) <= self.floor or fate.host == "below the floor":
            self.floor = max(self.floor, int(call.words["issued"]))
            self._refuse(call, "below_gc_floor", answer)
            return
        claim = self._claim(call.op, call.attempt)
        if claim is None:
            if fate.host == "killed before the gate":
                answer(self._report(call))
                return
            if fate.host == "disk full":
                self._refuse(call, "store_write", answer)
                return
            for earlier in range(1, call.attempt):
                self._place_fence(call.op, earlier, call)
                if self._phase(self._claim(call.op, earlier))[0] != "fenced":
                    self.history.reached("host: an earlier attempt is not fenced")
                    self._refuse(call, "attempt_not_fenced", answer)
                    return
            claim = self._take_gate(call, fate, place)
        elif claim.digest and claim.digest != call.words["digest"]:
            self._refuse(call, "digest_conflict", answer)
            return
        else:
            late = self._phase(claim)[0] == "fenced"
            self.history.reached(f"host: a late delivery {'meets a fence' if late else 'joins the first'}")
        self._follow(call, claim, answer)

    def _take_gate(self, call: Call, fate: HostFate, place: int) -> Claim:
        claim = Claim(
            call.attempt,
            call.words["digest"],
            self.boot,
            int(self.loop.now),
            int(call.words["issued"]),
            lock=call.words.get("lock"),
        )
        self.claims.setdefault(call.op, {})[call.attempt] = claim
        if claim.lock is not None and (fate.host == "lock busy" or self._lock_held(claim)):
            claim.record, claim.supervised = ("notrun", "lock_busy"), False
        elif fate.host == "killed before it begins":
            claim.supervised = False
        else:
            if fate.host == "rebooted before it begins":
                self.loop.call_later(0.0, self.reboot)
            most = SLOW_SECONDS if fate.host == "slow to begin" else BEGIN_SECONDS_MAX
            wait = self.random.random() * most
            self.loop.call_later(wait, self._begin, call.op, claim, fate, place)
        return claim

    def _lock_held(self, claim: Claim) -> bool:
        others = (item for claims in self.claims.values() for item in claims.values() if item is not claim)
        return any(item.lock == claim.lock and self._phase(item)[0] in {"running", "lost"} for item in others)

    def _begin(self, op: str, claim: Claim, fate: HostFate, place: int) -> None:
        if not claim.supervised or claim.boot != self.boot:
            return
        if claim.begun:
            self.history.reached("host: a fence came between gate and begin")
            claim.record, claim.supervised = ("notrun", "fence"), False
            self._wake(claim)
            return
        claim.begun = "run"
        if fate.host == "killed as it begins":
            claim.supervised = False
            self._wake(claim)
            return
        self._execute(op, place)
        claim.working = True
        seconds = self._seconds(fate)
        self.loop.call_later(seconds, self._end, op, claim, 3 if fate.fails else 0)
        if fate.host == "killed while it runs":
            self.loop.call_later(seconds / 2, self._kill_supervisor, claim)
        elif fate.host == "rebooted while it runs":
            self.loop.call_later(seconds / 2, self.reboot)

    def _seconds(self, fate: HostFate) -> float:
        if fate.lasts == "long":
            return SLOW_SECONDS * (0.5 + self.random.random())
        return ENDLESS_SECONDS if fate.lasts == "for ages" else 0.05 + self.random.random() * 1.5

    def _execute(self, op: str, place: int) -> None:
        """The command is started: the one line that the ledger of this host consists of."""
        self.history.effects.append(Effect(self.loop.now, op, place, repeated=False))
        self.told[op] = "working"

    def _end(self, op: str, claim: Claim, code: int) -> None:
        if not claim.working or claim.boot != self.boot:
            return
        claim.working = False
        self._ended(op, code)
        if claim.supervised:
            claim.record, claim.supervised = ("exited", code), False
        self._wake(claim)

    def _ended(self, op: str, code: int) -> None:
        self.history.exits[op] = code
        self.told[op] = "failed" if code else "done"

    def _kill_supervisor(self, claim: Claim) -> None:
        claim.supervised = False
        self._wake(claim)

    def _probe(self, call: Call, fate: HostFate, place: int, answer: Reply) -> None:
        """A question, or a command that nothing remembers but itself."""
        if call.argv[0] == "status":
            answer(self._printed(call, *self._status(call, fate)))
            return
        boot, limit = self.boot, float(call.words["limit"])
        if call.argv[0] != "read-thing":
            self._execute(call.op, place)
        seconds = self._seconds(fate)
        code = 3 if fate.fails else 0
        if fate.host == "rebooted while it runs":
            self.loop.call_later(seconds / 2, self.reboot)

        def ended() -> None:
            if boot != self.boot:
                return
            cut_off = seconds > limit
            if not cut_off:
                self._ended(call.op, code)
            answer(self._printed(call, 143 if cut_off else code, b"", timed_out=cut_off))

        self.loop.call_later(min(seconds, limit), ended)

    def _status(self, call: Call, fate: HostFate) -> tuple[int, bytes]:
        state = self.told.get(call.op, "unheard of")
        honest = json.dumps({"operation": call.op, "state": state}).encode()
        done = json.dumps({"operation": call.op, "state": "done"}).encode()
        return {
            "status: silent": (0, b""),
            "status: noise": (0, b"bash: warning\n"),
            "status: two objects": (0, done + b"\n" + done),
            "status: cut": (0, done[:-4]),
            "status: another's": (0, json.dumps({"operation": call.op[:-1] + "#", "state": "done"}).encode()),
            "status: done, and exit 1": (1, done),
            "status: a word of its own": (0, json.dumps({"operation": call.op, "state": "okay-ish"}).encode()),
            "status: denies it": (0, json.dumps({"operation": call.op, "state": "unheard of"}).encode()),
        }.get(fate.host, (0, honest))

    # --- what the store says

    def _claim(self, op: str, attempt: int) -> Claim | None:
        return self.claims.get(op, {}).get(attempt)

    def _phase(self, claim: Claim | None, *, hidden: bool = False) -> tuple[str, dict[str, Any]]:
        if claim is None:
            return "absent", {}
        if claim.fence or claim.begun == "fence":
            return "fenced", {"reason": "fence"}
        begun = {"begun": claim.begun == "run"}
        if claim.record is not None:
            what, value = claim.record
            if what == "notrun":
                return "fenced", {"reason": value}
            return "exited", {"exit": value, "ended": int(self.loop.now), "lock_number": 0}
        if hidden:
            return "unverifiable", begun
        if claim.supervised or claim.working:
            return "running", begun | {"supervised": claim.supervised}
        return "lost", begun | {"rebooted": claim.boot != self.boot}

    def _place_fence(self, op: str, attempt: int, call: Call) -> None:
        claim = self._claim(op, attempt)
        if claim is None:
            if int(call.words["issued"]) > self.floor:
                self.claims.setdefault(op, {})[attempt] = Claim(attempt, "", self.boot, 0, fence=True, supervised=False)
        elif not claim.begun and claim.record is None and not claim.fence and claim.boot == self.boot:
            claim.begun = "fence"

    def _collect(self, call: Call) -> None:
        """Somebody cleared the store away, up to this operation."""
        self.floor = max(self.floor, int(call.words["issued"]))
        kept = self.claims.get(call.op, {})
        for claim in list(kept.values()):
            if self._phase(claim)[0] in {"exited", "fenced"}:
                del kept[claim.attempt]

    def keep_snapshot(self) -> None:
        """The disk as it is now, for a later day. What is running then is dead when it is put back."""
        self.snapshot = {
            op: {
                number: replace(claim, supervised=False, working=False, waiters=[]) for number, claim in claims.items()
            }
            for op, claims in self.claims.items()
        }

    def gateway_saw_the_end(self, call: Call, at_ms: int) -> None:
        """An answer that tells of an end has come to the gateway."""
        self.seen.setdefault(call.op, at_ms)

    def _put_back(self) -> None:
        """Somebody restores the host: store and all, under its old identity, in a new boot.

        Only where the gateway can find out: for each run that is forgotten and that it has not seen the end of, one
        that it has is forgotten too, the last before it or the first after.
        """
        kept = self.snapshot
        if kept is None:
            return
        for op, claims in self.claims.items():
            ran = [claim for claim in claims.values() if claim.begun == "run"]
            if ran and op not in kept and op not in self.seen:
                before = [name for name, at in self.seen.items() if at <= ran[0].issued]
                after = [name for name, at in self.seen.items() if at > ran[0].issued]
                if not any(name not in kept for name in (*before[-1:], *after[:1])):
                    return
                self.history.reached("host: put back, and a run is forgotten")
        self.reboot()
        self.claims, self.snapshot = kept, None

    def _follow(self, call: Call, claim: Claim, answer: Reply) -> None:
        done = False

        def report() -> None:
            nonlocal done
            if not done:
                done = True
                answer(self._report(call))

        if self._phase(claim)[0] != "running":
            report()
            return
        claim.waiters.append(report)
        self.loop.call_later(float(call.words["follow"]), report)

    def _wake(self, claim: Claim) -> None:
        if self._phase(claim)[0] == "running":
            return
        waiters, claim.waiters = claim.waiters, []
        for waiter in waiters:
            waiter()

    def reboot(self) -> None:
        """Everything that ran is gone, and every session with it. What was written stays."""
        self.boot += 1
        self.history.reached("host: rebooted")
        for claims in self.claims.values():
            for claim in claims.values():
                claim.supervised = claim.working = False
                claim.waiters.clear()
        listeners, self.listeners = self.listeners, {}
        for reply in listeners:
            reply(None)

    # --- how it is said

    def _refuse(self, call: Call, reason: str, answer: Reply) -> None:
        self.history.reached(f"host refuses: {reason}")
        answer(line(call, {"phase": "refused", "store_id": "", "reason": reason}))

    def _report(self, call: Call, *, hidden: bool = False) -> bytes:
        claim = self._claim(call.op, call.attempt)
        phase, more = self._phase(claim, hidden=hidden)
        said: dict[str, Any] = {"phase": phase, "operation": call.op, "attempt": call.attempt} | more
        if phase == "absent":
            said["authoritative"] = int(call.words["issued"]) > self.floor
        elif phase != "fenced" and claim is not None:
            said |= {"digest": claim.digest, "began": claim.at, "cancel_asked": claim.cancel_asked, "timed_out": False}
            said |= printed(b"out", whole=phase == "exited")
        self.history.reached(f"host says: {phase}")
        return line(call, said)

    def _printed(self, call: Call, code: int, output: bytes, *, timed_out: bool = False) -> bytes:
        said = {"phase": "ok", "exit": code, "timed_out": timed_out}
        return line(call, said | printed(output, whole=not timed_out))
