"""What a session and the runner's answer in it amount to: evidence, proof that nothing ran, or neither."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Hooks, HostExchange, HostTarget, HostVerb, Observation, Phase, Secret
from adapters.contract_ssh import Capture, SshExchange, SshObservation, Stage
from adapters.ssh.transport import RunnerTransport, call_of
from tests.unit.adapters.remote_host import Host

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nxyz\n-----END OPENSSH PRIVATE KEY-----\n"
TARGET = HostTarget("web-1", "192.0.2.7", 22, "deploy", Secret("ssh_key", "", KEY + "cert AAAA\n"), ("ssh-ed25519 A",))
HOOKS = Hooks(lambda: None)
NUMBERS = {"v": 1, "store_id": "s1", "machine": "m", "boot": "b", "uid": 0}
PRINTED = {"out_bytes": 0, "out_head": "", "out_tail": "", "err_bytes": 0, "err_head": "", "err_tail": ""}
CLAIMED = {**PRINTED, "output_complete": True, "digest": "", "began": 1, "cancel_asked": False, "timed_out": False}
OURS = {"operation": "op_1", "attempt": 1}


@dataclass
class Session:
    """Stands where SSH would: whatever is put on the standard input of a shell, `reply` says what comes of it."""

    reply: Callable[[SshExchange], SshObservation]
    asked: list[SshExchange] = field(default_factory=list)

    async def attempt(self, exchange: SshExchange, hooks: Hooks) -> SshObservation:
        self.asked.append(exchange)
        return self.reply(exchange)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Watch:
    now_ms: int = 5_000

    def wall_ms(self) -> int:
        return self.now_ms

    def boot_ms(self) -> int:
        return self.now_ms


def tokens() -> Callable[[], str]:
    made = iter(range(10_000_000, 20_000_000))
    return lambda: f"token{next(made)}"


def ended(output: bytes, **changes: Any) -> SshObservation:
    plain = SshObservation(
        stage=Stage.ENDED,
        nothing_left=False,
        started_ms=1,
        ended_ms=2,
        closed_boot_ms=None,
        summary="the command ended",
        exit_status=0,
        stdout=Capture(count=len(output), head=output),
        output_complete=True,
    )
    return replace(plain, **changes)


def exchange(verb: HostVerb = HostVerb.RUN, **changes: Any) -> HostExchange:
    words = ("true",)
    plain = HostExchange(
        verb=verb,
        argv=words if verb in {HostVerb.RUN, HostVerb.PROBE, HostVerb.ASK} else (),
        command=words,
        target=TARGET,
        store="/var/lib/gateway-runner",
        store_id="s1",
        operation="op_1",
        attempt=1,
        attempts_max=1,
        issued_ms=1_000,
        connect_seconds=2.0,
        request_seconds=9.0,
    )
    return replace(plain, **changes)


def frame(exchange: SshExchange, verb: str, phase: str, **fields: Any) -> bytes:
    nonce = exchange.stdin.partition(b"'nonce=")[2].partition(b"'")[0].decode()
    return f"motd\n\n@gw1 {nonce} {json.dumps({**NUMBERS, 'verb': verb, 'phase': phase, **fields})}\n".encode()


async def shown(asked: HostExchange, reply: Callable[[SshExchange], SshObservation]) -> Observation:
    return await RunnerTransport(Session(reply), Watch(), tokens()).attempt(asked, HOOKS)


async def told(verb: HostVerb, phase: str, **fields: Any) -> Observation:
    """What an answer of the runner becomes."""
    word = "probe" if verb in {HostVerb.ASK, HostVerb.PROBE} else verb.value.lower()
    return await shown(exchange(verb), lambda sent: ended(frame(sent, word, phase, **fields)))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path, "dash")
    made.init()
    return made


class OnHost:
    """The runner itself, on this machine, asked without SSH between."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.watch = Watch()
        self.transport = RunnerTransport(Session(self._run), self.watch, tokens())

    def _run(self, sent: SshExchange) -> SshObservation:
        output, _ = self.host.start(sent.stdin).communicate(timeout=40)
        return ended(output)

    async def ask(self, verb: HostVerb, *argv: str, **changes: Any) -> Observation:
        words = argv or ("sh", "-c", f'echo x >>"{self.host.ledger}"; echo out; echo err >&2; exit 3')
        asked = exchange(verb, store=self.host.store, store_id=self.host.store_id, command=words)
        if asked.argv:
            asked = replace(asked, argv=words)
        return await self.transport.attempt(replace(asked, **{"request_seconds": 45.0, **changes}), HOOKS)


async def test_a_run_answers_with_exit_status_and_output_and_is_told_the_same_later(host: Host) -> None:
    place = OnHost(host)
    ran = await place.ask(HostVerb.RUN)
    again = await place.ask(HostVerb.RUN)
    later = await place.ask(HostVerb.STATUS)

    assert ran.answered
    assert (ran.status, ran.header("Exited"), ran.header("Phase")) == (3, "3", "exited")
    assert json.loads(ran.body) == {
        "operation": "op_1",
        "phase": "exited",
        "reason": None,
        "exit": 3,
        "timed_out": False,
        "cancel_asked": False,
        "stdout": {"text": "out\n", "bytes": 4, "gap": 0, "tail": ""},
        "stderr": {"text": "err\n", "bytes": 4, "gap": 0, "tail": ""},
    }
    assert again.body == later.body == ran.body
    assert host.ledger.read_text() == "x\n"


async def test_what_is_fenced_never_runs(host: Host) -> None:
    place = OnHost(host)
    absent = await place.ask(HostVerb.STATUS)
    won = await place.ask(HostVerb.FENCE, attempts_max=3)
    late = await place.ask(HostVerb.RUN)
    forgotten = await place.ask(HostVerb.RUN, attempt=3)

    assert (absent.answered, absent.status, absent.header("Phase"), absent.header("Exited")) == (
        True,
        0,
        "absent",
        None,
    )
    assert (won.answered, won.header("Phase")) == (True, "fenced")
    # Also the attempt of which a restored store would know nothing.
    assert late.nothing_left
    assert forgotten.nothing_left
    assert not host.ledger.exists()


async def test_a_cancel_before_the_begin_is_a_fence_for_every_attempt(host: Host) -> None:
    place = OnHost(host)
    won = await place.ask(HostVerb.CANCEL, attempts_max=3)
    late = await place.ask(HostVerb.RUN, attempt=3)

    assert (won.answered, won.header("Phase"), late.nothing_left) == (True, "fenced", True)
    assert not host.ledger.exists()


async def test_a_cancel_of_what_runs_is_noted_signalled_and_no_end(host: Host) -> None:
    place = OnHost(host)
    words = ("sh", "-c", f"trap 'exit 7' TERM; echo x >>{host.ledger}; while :; do sleep 0.05; done")
    running = await place.ask(HostVerb.RUN, *words, request_seconds=4.0)
    assert running.header("Phase") == "running"

    told_so = await place.ask(HostVerb.CANCEL, *words)
    assert told_so.answered
    if told_so.header("Phase") == "running":
        assert "sent TERM; its end is still to come" in told_so.summary
        assert told_so.header("Exited") is None
    ended = await place.ask(HostVerb.RUN, *words)
    assert (ended.status, json.loads(ended.body)["cancel_asked"]) == (7, True)
    assert host.ledger.read_text() == "x\n"


async def test_what_was_taken_up_and_not_begun_is_told_apart_from_what_runs() -> None:
    fields = {**OURS, **CLAIMED, "supervised": True}
    seen = await told(HostVerb.STATUS, "running", **fields, begun=False)

    assert (seen.answered, seen.header("Phase"), json.loads(seen.body)["phase"]) == (True, "accepted", "accepted")


async def test_a_host_says_what_it_offers_what_its_store_holds_and_who_has_a_lock(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, lock="deploy")
    offered = json.loads((await place.ask(HostVerb.CHECK, command=())).body)
    listed = json.loads((await place.ask(HostVerb.LIST, operation="", command=())).body)
    later = json.loads((await place.ask(HostVerb.LIST, operation="op_1", command=())).body)
    locked = json.loads((await place.ask(HostVerb.LOCK, operation="", command=(), lock="deploy")).body)

    assert (offered["store_id"], offered["initialised"], offered["missing"]) == (host.store_id, True, [])
    assert [(item["operation"], item["phase"]) for item in listed["operations"]] == [("op_1", "exited")]
    assert (later["operations"], later["more"]) == ([], False)
    assert (locked["state"], locked["holder"], locked["number"]) == ("free", "op_1", 1)


async def test_a_host_without_a_store_says_that_it_cannot_write_there(host: Host) -> None:
    seen = await OnHost(host).ask(HostVerb.CHECK, store="/dev/null", command=())

    assert (seen.answered, seen.header("Phase"), json.loads(seen.body)["reason"]) == (True, "refused", "store_write")


async def test_a_fence_that_finds_one_attempt_taken_says_so(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, attempt=2)
    fenced = await place.ask(HostVerb.FENCE, attempts_max=3)

    assert (fenced.header("Phase"), fenced.status) == ("exited", 3)


async def test_a_record_of_another_command_is_no_answer(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, "sh", "-c", "exit 0")
    seen = await place.ask(HostVerb.STATUS)
    again = await place.ask(HostVerb.RUN)

    for other in (seen, again):
        assert other.contradictions
        assert not other.answered
        assert not other.nothing_left


async def test_a_status_command_answers_in_its_own_words(host: Host) -> None:
    place = OnHost(host)
    good = await place.ask(HostVerb.ASK, "echo", '{"phase": "done"}')

    assert good.answered
    assert (good.status, good.body) == (0, b'{"phase": "done"}\n')


@pytest.mark.parametrize(
    "script",
    [
        'echo "{}"; exit 1',
        "exit 127",
        "true",
        'echo "{} {}"',
        "echo '[]'",
        "echo nonsense",
        'echo "{}"; echo more',
        "head -c 100000 /dev/zero | tr '\\0' ' '; echo '{}'",
    ],
)
async def test_a_status_command_that_is_not_clear_is_no_evidence(host: Host, script: str) -> None:
    seen = await OnHost(host).ask(HostVerb.ASK, "sh", "-c", script)

    assert not seen.answered
    assert not seen.nothing_left
    assert "status command" in seen.summary


async def test_a_probe_runs_without_a_record(host: Host) -> None:
    place = OnHost(host)
    first, second = await place.ask(HostVerb.PROBE), await place.ask(HostVerb.PROBE)

    assert first.status == second.status == 3
    assert first.header("Exited") == "3"
    assert host.ledger.read_text() == "x\nx\n"
    assert (await place.ask(HostVerb.STATUS)).header("Phase") == "absent"


async def test_long_output_keeps_both_ends_and_bytes_that_are_no_text_are_replaced(host: Host) -> None:
    script = "printf 'begin\\377'; head -c 3000000 /dev/zero | tr '\\0' x; printf end"
    seen = json.loads((await OnHost(host).ask(HostVerb.RUN, "sh", "-c", script)).body)["stdout"]

    assert seen["text"].startswith("begin\ufffdxxx")
    assert seen["tail"].endswith("xxxend")
    assert seen["bytes"] == 3_000_009
    assert seen["gap"] > 2_900_000


@pytest.mark.parametrize(
    ("phase", "fields", "nothing_left"),
    [
        ("fenced", {**OURS, "reason": "lock_busy"}, True),
        ("refused", {"reason": "store_write"}, True),
        ("refused", {"reason": "below_gc_floor"}, True),
        ("refused", {"reason": "store_mismatch"}, False),
        ("refused", {"reason": "digest_conflict"}, False),
        ("lost", {**OURS, **CLAIMED, "begun": True, "rebooted": True}, False),
        ("absent", {**OURS, "authoritative": True}, None),
    ],
)
async def test_what_a_run_that_gave_no_end_proves(
    phase: str, fields: dict[str, Any], nothing_left: bool | None
) -> None:
    seen = await told(HostVerb.RUN, phase, **fields)

    assert seen.nothing_left is bool(nothing_left)
    assert seen.answered is (nothing_left is None)
    assert not (seen.nothing_left and seen.bytes_written)


@pytest.mark.parametrize(
    ("verb", "phase", "reason", "words"),
    [
        (HostVerb.RUN, "fenced", "lock_busy", "another command holds its lock; `gateway host unlock"),
        (HostVerb.STATUS, "fenced", "lock_busy", "another command holds its lock; `gateway host unlock"),
        (HostVerb.RUN, "refused", "store_write", "could not write in its store; `gateway host check web-1`"),
        (
            HostVerb.RUN,
            "refused",
            "store_mismatch",
            "not the declared one, or another user's; see `gateway host",
        ),
        (HostVerb.STATUS, "refused", "store_mismatch", "`gateway host check web-1`"),
        (HostVerb.RUN, "refused", "no_digest_tool", "names what is missing"),
    ],
)
async def test_why_a_host_refused_is_told_in_words_with_what_to_do(
    verb: HostVerb, phase: str, reason: str, words: str
) -> None:
    seen = await told(verb, phase, **(OURS if phase == "fenced" else {}), reason=reason)

    assert words in seen.summary
    assert reason.replace("_", " ") not in seen.summary


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        (
            {"exit": 143, "cancel_asked": True},
            "told to stop because it was cancelled, and ended with exit status 143",
        ),
        ({"exit": 143, "timed_out": True}, "because it reached its time limit, and ended with exit status 143"),
        ({"exit": 127}, "ended with exit status 127: a program was not found, itself or one that it calls"),
        ({"exit": 3}, "the command ended with exit status 3"),
    ],
)
async def test_how_a_command_ended_is_told(signs: dict[str, Any], words: str) -> None:
    seen = await told(HostVerb.STATUS, "exited", **{**OURS, **CLAIMED, "ended": 9, "lock_number": 0, **signs})

    assert seen.header("Exited") == str(signs["exit"])
    assert seen.summary.endswith(words)


@pytest.mark.parametrize("phase", ["running", "unverifiable"])
async def test_what_still_runs_is_a_whole_answer_without_an_end(phase: str) -> None:
    more = {"supervised": True} if phase == "running" else {}
    seen = await told(HostVerb.RUN, phase, **OURS, **CLAIMED, begun=True, **more)

    assert (seen.answered, seen.status, seen.header("Exited")) == (True, 0, None)
    assert json.loads(seen.body)["phase"] == phase


async def test_a_host_that_holds_an_earlier_attempt_is_believed_rather_than_what_was_thought_of_it(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, attempt=1)
    seen = await place.ask(HostVerb.RUN, attempt=2)

    assert not seen.nothing_left
    # The host knows it, so that no fence of a later attempt can claim that it never ran.
    assert (seen.answered, seen.header("Phase"), seen.header("Exited")) == (True, "unverifiable", None)
    assert host.ledger.read_text() == "x\n"


async def test_an_absence_without_authority_is_no_evidence() -> None:
    seen = await told(HostVerb.STATUS, "absent", **OURS, authoritative=False)

    assert not seen.answered
    assert not seen.nothing_left


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_status": 0},
        {"exit_status": 1},
        {"exit_status": None, "exit_signal": "KILL"},
        {"exit_status": None, "stage": Stage.ACCEPTED, "output_complete": False},
    ],
)
async def test_without_a_frame_of_ours_no_status_of_a_session_is_an_answer(changes: dict[str, Any]) -> None:
    forged = b'@gw1 token999 {"v": 1}\n{"phase": "exited", "exit": 0}\n'
    seen = await shown(exchange(), lambda _sent: ended(forged, **changes))

    assert not seen.answered
    assert not seen.nothing_left
    assert seen.status is None


async def test_a_frame_is_evidence_though_the_session_was_lost_after_it() -> None:
    fields = {**OURS, **CLAIMED, "exit": 0, "ended": 2, "lock_number": 0}
    seen = await shown(
        exchange(),
        lambda sent: ended(frame(sent, "run", "exited", **fields), exit_status=None, stage=Stage.ACCEPTED),
    )

    assert (seen.answered, seen.status) == (True, 0)


@pytest.mark.parametrize(
    ("stage", "nothing_left", "refused", "phase"),
    [
        (Stage.CONNECTING, True, False, Phase.CONNECTING),
        (Stage.CONNECTING, True, True, Phase.CONNECTING),
        (Stage.CONNECTED, True, False, Phase.CONNECTED),
        (Stage.ASKED, True, False, Phase.REQUEST_STARTED),
        (Stage.ASKED, False, False, Phase.REQUEST_STARTED),
        (Stage.ACCEPTED, False, False, Phase.REQUEST_WRITTEN),
    ],
)
async def test_a_session_without_an_answer_says_how_far_it_came(
    stage: Stage, nothing_left: bool, refused: bool, phase: Phase
) -> None:
    lost = ended(
        b"", stage=stage, nothing_left=nothing_left, host_key_refused=refused, exit_status=None, summary="lost"
    )
    seen = await shown(exchange(), lambda _sent: lost)

    assert (seen.nothing_left, seen.untrusted, seen.phase, seen.summary) == (nothing_left, refused, phase, "lost")
    assert not seen.answered


async def test_looks_take_a_connection_of_their_own_and_attempts_the_pool() -> None:
    session = Session(lambda _sent: ended(b""))
    transport = RunnerTransport(session, Watch(), tokens())
    for verb in HostVerb:
        await transport.attempt(exchange(verb), HOOKS)

    assert [sent.fresh for sent in session.asked] == [verb not in {HostVerb.RUN, HostVerb.PROBE} for verb in HostVerb]
    assert {sent.command for sent in session.asked} == {"sh -s"}
    assert {sent.route.credential.private_key for sent in session.asked} == {KEY}
    assert {sent.route.credential.certificate for sent in session.asked} == {"cert AAAA"}
    assert {sent.run_seconds for sent in session.asked} == {9.0}


async def test_a_fence_ends_within_its_time() -> None:
    watch = Watch()

    def slow(sent: SshExchange) -> SshObservation:
        watch.now_ms += 5_000
        number = int(sent.stdin.partition(b"'attempt=")[2].partition(b"'")[0])
        return ended(frame(sent, "fence", "fenced", operation="op_1", attempt=number, reason="fence"))

    session = Session(slow)
    seen = await RunnerTransport(session, watch, tokens()).attempt(exchange(HostVerb.FENCE, attempts_max=9), HOOKS)

    assert [sent.run_seconds for sent in session.asked] == [9.0, 4.0]
    assert not seen.answered


async def test_what_cannot_be_handed_over_is_never_sent() -> None:
    session = Session(lambda _sent: ended(b""))
    seen = await RunnerTransport(session, Watch(), tokens()).attempt(exchange(argv=("a\0b",)), HOOKS)

    assert seen.nothing_left
    assert session.asked == []


def test_a_command_is_followed_for_as_long_as_the_deadline_leaves_room_for_the_answer() -> None:
    assert call_of(exchange(), "nonce12345").follow_seconds == 6
    assert call_of(exchange(request_seconds=0.5), "nonce12345").follow_seconds == 1
    assert call_of(exchange(HostVerb.ASK), "nonce12345").limit_seconds == 8
    assert call_of(exchange(lock="deploy"), "nonce12345").lock == "deploy"
    assert call_of(exchange(HostVerb.STATUS, lock="deploy"), "nonce12345").lock is None
