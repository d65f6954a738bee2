"""What a session and the runner's answer in it amount to: evidence, proof that nothing ran, or neither."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from adapters.contract import HostExchange, HostVerb, Observation, Phase
from adapters.contract_ssh import SshExchange, SshObservation, Stage
from adapters.ssh.transport import RunnerTransport, call_of
from tests.unit.adapters.transporting import CLAIMED, HOOKS, KEY, NUMBERS, OURS, Session, Watch, ended, exchange, tokens


def frame(exchange: SshExchange, verb: str, phase: str, **fields: Any) -> bytes:
    nonce = exchange.stdin.partition(b"'nonce=")[2].partition(b"'")[0].decode()
    return f"motd\n\n@gw1 {nonce} {json.dumps({**NUMBERS, 'verb': verb, 'phase': phase, **fields})}\n".encode()


async def shown(asked: HostExchange, reply: Callable[[SshExchange], SshObservation]) -> Observation:
    return await RunnerTransport(Session(reply), Watch(), tokens()).attempt(asked, HOOKS)


async def told(verb: HostVerb, phase: str, **fields: Any) -> Observation:
    """What an answer of the runner becomes."""
    word = "probe" if verb in {HostVerb.ASK, HostVerb.PROBE} else verb.value.lower()
    return await shown(exchange(verb), lambda sent: ended(frame(sent, word, phase, **fields)))


async def test_what_was_taken_up_and_not_begun_is_told_apart_from_what_runs() -> None:
    fields = {**OURS, **CLAIMED, "supervised": True}
    seen = await told(HostVerb.STATUS, "running", **fields, begun=False)

    assert (seen.answered, seen.header("Phase"), json.loads(seen.body)["phase"]) == (True, "accepted", "accepted")


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
