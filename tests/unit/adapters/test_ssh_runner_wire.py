"""The answers of the runner: what counts as evidence, what it means, and everything else that does not count."""

import json
from typing import Any

import pytest

from adapters.ssh.runner_call import RunnerCall, Verb
from adapters.ssh.runner_wire import FIELDS, Meaning, RemotePhase, meaning, read_answer

NONCE = "nonce12345"
FRAME = {"v": 1, "verb": "status", "phase": "", "store_id": "s1", "machine": "m", "boot": "b", "uid": 0}
SAMPLE: dict[str, Any] = {
    "operation": "op_1",
    "attempt": 1,
    "reason": "fence",
    "digest": "0" * 64,
    "out_head": "61",
    "out_tail": "",
    "err_head": "",
    "err_tail": "",
    "out_bytes": 1,
    "err_bytes": 0,
    "exit": 3,
    "filesystem": "ext4",
    "missing": [],
    "lock": "web",
    "state": "held",
    "holder": "",
    "holder_phase": "lost",
    "operations": [],
}
FLAGS = frozenset(
    (
        "authoritative",
        "begun",
        "supervised",
        "rebooted",
        "cancel_asked",
        "timed_out",
        "output_complete",
        "initialised",
        "volatile",
        "writable",
        "detaches",
        "witness",
        "more",
    )
)


def _document(phase: RemotePhase, verb: Verb = Verb.STATUS) -> dict[str, Any]:
    shape = FIELDS[verb if phase is RemotePhase.OK else phase]
    rest = {name: SAMPLE.get(name, name in FLAGS or 7) for name in shape}
    return {**FRAME, "verb": verb.value, "phase": phase.value, **rest}


def _line(document: object) -> bytes:
    return f"@gw1 {NONCE} {json.dumps(document)}\n".encode()


def _call(verb: Verb = Verb.STATUS) -> RunnerCall:
    return RunnerCall(verb=Verb.STATUS, store="/s", nonce=NONCE, store_id="s1", operation="op_1")


ATTEMPT_PHASES = [phase for phase in RemotePhase if phase is not RemotePhase.OK]


@pytest.mark.parametrize("phase", ATTEMPT_PHASES)
def test_an_answer_is_found_in_whatever_noise_surrounds_it(phase: RemotePhase) -> None:
    noise = b'motd \xff\n{"phase":"exited"}\n@gw1 othernonce {"v":1}\nno line end before: \n'
    answer = read_answer(noise + _line(_document(phase)) + b"bye\n", _call())

    assert answer is not None
    assert answer.phase is phase


@pytest.mark.parametrize("phase", ATTEMPT_PHASES)
def test_an_answer_that_holds_more_or_less_than_its_phase_is_no_evidence(phase: RemotePhase) -> None:
    document = _document(phase)
    for name in document:
        less = {key: value for key, value in document.items() if key != name}
        assert read_answer(_line(less), _call()) is None, name
        wrongs: tuple[Any, ...] = (None, -2, 1.5, [], {}, "a b", '"', True if name not in FLAGS else 1)
        for wrong in wrongs:
            assert read_answer(_line({**document, name: wrong}), _call()) is None, (name, wrong)
    assert read_answer(_line({**document, "extra": 1}), _call()) is None


GOOD = _line(_document(RemotePhase.EXITED))


@pytest.mark.parametrize(
    "output",
    [
        b"",
        GOOD[:-1],
        GOOD[:40] + b"\n",
        GOOD + GOOD,
        GOOD.replace(NONCE.encode(), b"othernonce"),
        b"x" + GOOD,
        GOOD.replace(b'"exit": 3', b'"exit": 3, "exit": 0'),
        GOOD.replace(b'"exit": 3', b'"exit": NaN'),
        GOOD.replace(b'"exit": 3', b'"exit": 256'),
        GOOD.replace(b'"exit": 3', b'"exit": "3"'),
        GOOD.replace(b'"out_head": "61"', b'"out_head": "6"'),
        GOOD.replace(b'"out_head": "61"', b'"out_head": "6161"'),
        GOOD.replace(b'"op_1"', b'"op_2"'),
        GOOD.replace(b'"attempt": 1', b'"attempt": 2'),
        GOOD.replace(b'"s1"', b'"s2"'),
        GOOD.replace(b'"status"', b'"fence"'),
        GOOD.replace(b'"exited"', b'"done"'),
        GOOD.replace(b'"exited"', b'"running"'),
        GOOD.replace(b'"exited"', b'"ok"'),
        GOOD.replace(b'"v": 1', b'"v": 2'),
        GOOD.replace(b"\n", b" {}\n"),
        f"@gw1 {NONCE} []\n".encode(),
        f"@gw1 {NONCE} {'[' * 100_000}\n".encode(),
        f"@gw1 {NONCE} ".encode() + b'{"a": "\xc3\xa9"}\n',
        GOOD[:-1] + b" " * 2_000_000 + b"\n",
    ],
)
def test_what_is_cut_doubled_twisted_or_about_something_else_is_no_evidence(output: bytes) -> None:
    assert read_answer(GOOD, _call()) is not None
    assert read_answer(output, _call()) is None


def test_every_cut_of_an_answer_is_no_evidence() -> None:
    assert {read_answer(GOOD[:length], _call()) for length in range(len(GOOD))} == {None}


MEANINGS = [
    (RemotePhase.EXITED, Meaning.EXITED),
    (RemotePhase.FENCED, Meaning.NEVER_RAN),
    (RemotePhase.ABSENT, Meaning.FENCE_FIRST),
    (RemotePhase.RUNNING, Meaning.PENDING),
    (RemotePhase.UNVERIFIABLE, Meaning.PENDING),
    (RemotePhase.LOST, Meaning.LOST),
]


@pytest.mark.parametrize(("phase", "expected"), MEANINGS)
def test_each_phase_has_one_meaning(phase: RemotePhase, expected: Meaning) -> None:
    assert meaning(read_answer(_line(_document(phase)), _call())) is expected


def test_absence_below_the_floor_and_silence_mean_nothing() -> None:
    document = {**_document(RemotePhase.ABSENT), "authoritative": False}

    assert meaning(read_answer(_line(document), _call())) is Meaning.NO_EVIDENCE
    assert meaning(None) is Meaning.NO_EVIDENCE


@pytest.mark.parametrize(
    ("reason", "to_run", "to_status"),
    [
        ("store_write", Meaning.LAUNCHED_NOTHING, Meaning.NO_EVIDENCE),
        ("payload_digest", Meaning.LAUNCHED_NOTHING, Meaning.NO_EVIDENCE),
        ("below_gc_floor", Meaning.LAUNCHED_NOTHING, Meaning.NO_EVIDENCE),
        ("attempt_not_fenced", Meaning.LAUNCHED_NOTHING, Meaning.NO_EVIDENCE),
        ("no_digest_tool", Meaning.LAUNCHED_NOTHING, Meaning.NO_EVIDENCE),
        ("digest_conflict", Meaning.CONFLICT, Meaning.CONFLICT),
        ("store_mismatch", Meaning.NO_EVIDENCE, Meaning.NO_EVIDENCE),
        ("something_new", Meaning.NO_EVIDENCE, Meaning.NO_EVIDENCE),
    ],
)
def test_a_refusal_speaks_of_its_own_delivery_only(reason: str, to_run: Meaning, to_status: Meaning) -> None:
    from dataclasses import replace

    answer = read_answer(_line({**_document(RemotePhase.REFUSED), "reason": reason}), _call())

    assert answer is not None
    assert meaning(answer) is to_status
    assert meaning(replace(answer, verb=Verb.RUN)) is to_run
