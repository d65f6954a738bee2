"""Both verifiers, the package's and the one written from the page alone, come to the same verdict on every case."""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha256

import pytest

from audit.checkpoint import CHECKPOINT, HISTORY
from audit.epochs import EpochLimits
from audit.log import segment_name, segments
from audit.report import Exit
from audit.seal import SegmentLimits
from audit.verify import VerifyOptions
from tests.unit.audit.logs import Journal, sealed_journal
from tests.unit.audit.oracle import oracle
from tests.unit.audit.test_tamper import CASES, IN_OWN_CHECKPOINTS, STRICT, drop_own_checkpoints


def verdict(journal: Journal, *, anchored: bool, options: VerifyOptions) -> int:
    anchors = [journal.anchor.files()[CHECKPOINT]] if anchored else []
    return oracle(
        journal.directory.files(),
        journal.policy.to_text(),
        anchors,
        journal.now_ms + 1000,
        unsealed_max=options.unsealed_max,
        unanchored=options.accept_unanchored,
    )


@pytest.mark.parametrize("tamper", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_both_verifiers_agree_on_every_case(tamper: Callable[[Journal], None]) -> None:
    journal = sealed_journal()
    tamper(journal)
    assert verdict(journal, anchored=True, options=STRICT) == journal.verify(options=STRICT).exit
    if tamper not in IN_OWN_CHECKPOINTS:
        drop_own_checkpoints(journal)
    assert verdict(journal, anchored=False, options=STRICT) == journal.verify(anchored=False, options=STRICT).exit


def test_both_agree_on_evolving_keys_and_a_clean_end() -> None:
    journal = Journal(epochs=EpochLimits(entries_max=5))
    for _ in range(4):
        journal.records(5)
        journal.seal()
        journal.export()
    journal.close()
    journal.export()
    journal.publish()
    assert journal.sealer.head.epoch >= 3
    options = VerifyOptions()
    assert verdict(journal, anchored=True, options=options) == journal.verify().exit == Exit.OK


@pytest.mark.parametrize("part", range(4))
def test_both_agree_on_random_damage(part: int) -> None:
    chance = random.Random(f"damage {part}")
    journal = Journal(limits=SegmentLimits(entries_max=5), epochs=EpochLimits(entries_max=4))
    for _ in range(3):
        journal.records(4)
        journal.seal()
        journal.export()
    journal.publish()
    files = journal.directory.files()
    for _ in range(60):
        name = chance.choice(sorted(files))
        start = chance.randrange(len(files[name]))
        end = min(len(files[name]), start + chance.choice([1, 1, 4, 40]))
        filling = chance.choice([b"", bytes(end - start), chance.randbytes(end - start)])
        changed = files[name][:start] + filling + files[name][end:]
        journal.directory.put(name, changed)
        options = VerifyOptions(accept_unanchored=True)
        found = journal.verify(anchored=False, options=options)
        told = verdict(journal, anchored=False, options=options)
        # Which of two faults is worse may be judged differently where both are there; whether it is sound may not.
        assert (told == Exit.OK) == (found.exit is Exit.OK), (name, start, end, filling, told, found.to_lines())
        journal.directory.put(name, files[name])


def framed(entry: bytes) -> bytes:
    leaf = sha256(b"\0" + entry).digest()
    return (1 + len(entry) + 8).to_bytes(4, "big") + b"\0" + entry + leaf[:8]


LENGTH = (105).to_bytes(4, "big")
HEADER = b"\0" + b"h" * 96
ENDS = {
    "three impossible bytes": (b"\xff\xff\xff", Exit.INCOMPLETE),
    "three zeros": (bytes(3), Exit.INCOMPLETE),
    "four zeros": (bytes(4), Exit.OK),
    "four impossible bytes": (b"\xff\xff\xff\xff", Exit.TAMPERED),
    "a byte behind zeros": (bytes(9) + b"x", Exit.TAMPERED),
    "a length alone": (LENGTH, Exit.INCOMPLETE),
    "a length and another mark": (LENGTH + b"\1", Exit.TAMPERED),
    "another mark before zeros": (LENGTH + b"\1" + bytes(104), Exit.TAMPERED),
    "half a frame": (LENGTH + HEADER[:50], Exit.INCOMPLETE),
    "a trailer of zeros": (LENGTH + HEADER + bytes(8), Exit.INCOMPLETE),
    "another trailer": (LENGTH + HEADER + b"trailers", Exit.TAMPERED),
    "another trailer and a byte": (LENGTH + HEADER + b"trailers" + b"x", Exit.INCOMPLETE),
    "half a frame, then a whole one": (LENGTH + b"\0" + framed(b"\1\x09" + bytes(94)), Exit.TAMPERED),
    "half a frame, then one of version 0": (LENGTH + b"\0" + framed(b"\0\x09" + b"h" * 94), Exit.INCOMPLETE),
}


@pytest.mark.parametrize(("behind", "told"), ENDS.values(), ids=ENDS)
def test_both_agree_on_what_a_crash_leaves_behind_the_last_entry(behind: bytes, told: Exit) -> None:
    journal = sealed_journal(tail=0)
    name = segment_name(segments(journal.directory)[-1])
    journal.directory.put(name, journal.directory.files()[name] + behind)
    assert verdict(journal, anchored=True, options=STRICT) == journal.verify(options=STRICT).exit == told


def test_both_agree_that_a_history_does_not_go_back() -> None:
    journal = sealed_journal(tail=0)
    journal.publish()
    history = journal.directory.files()[HISTORY]
    assert journal.verify().exit is Exit.OK
    journal.directory.put(HISTORY, history + history)
    assert verdict(journal, anchored=True, options=STRICT) == journal.verify(options=STRICT).exit == Exit.TAMPERED
