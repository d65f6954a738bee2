"""What retention may drop: nothing that an anchor or a witness may ask for, nothing that the log does not say."""

import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from audit.bodies import ERASED_SEGMENTS, Erasure
from audit.checkpoint import Publisher
from audit.cosign import Cosigner
from audit.disk import DiskDirectory
from audit.export import Exporter
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.patience import SilentSink
from audit.retention import NotDroppable, recorded_end
from gateway.engine.anchoring import NotedSealer, witnessed_size
from gateway.engine.log_retention import DAY_MS, LogRetention, Shelf, tried
from tests.unit.audit.logs import START_MS, Journal, entropy
from tests.unit.engine.keeping import HandClock


@dataclass
class Hall:
    """A log of several small segments on a disk, three days old now."""

    path: Path
    journal: Journal = field(default_factory=Journal)
    clock: HandClock = field(default_factory=HandClock)

    def __post_init__(self) -> None:
        self.directory = DiskDirectory(self.path)
        self.exporter = Exporter(self.directory)
        self.publisher = Publisher(self.directory, self.journal.signer, [self.journal.anchor])
        self.notes = NotedSealer(self.journal.sealer)
        self.clock.now_ms = START_MS + 3 * DAY_MS
        self.journal.records(40)
        self.keep()
        self.publisher.publish()
        self.shelf = Shelf(self.directory, [self.journal.signer.key], [self.journal.anchor])

    def keep(self) -> None:
        self.journal.frames += self.notes.seal(self.journal.tick())
        self.exporter.export(self.journal.rows())
        self.journal.frames = []

    def retention(self, shelf: Shelf | None = None, *, keep_days: float = 1.0) -> LogRetention:
        return LogRetention(shelf or self.shelf, self.notes, self.clock, keep_days=keep_days)


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path / "log")


def test_whole_segments_go_after_the_log_and_a_checkpoint_behind_it_have_said_so(hall: Hall) -> None:
    retention, before = hall.retention(), segments(hall.directory)
    end = retention.plan()
    assert end == before[-1]
    with pytest.raises(NotDroppable, match="does not say yet"):
        retention.drop(end)
    retention.announce(end)
    retention.announce(end)
    hall.keep()
    assert recorded_end(hall.directory) == end
    assert segments(hall.directory) == before
    hall.publisher.publish()
    retention.drop(end)
    assert segments(hall.directory) == [end]
    assert retention.plan() == 0


def test_the_log_is_told_once_by_whom_and_how_far(hall: Hall) -> None:
    retention = hall.retention()
    retention.announce(12)
    retention.announce(12)
    waiting = [body for body, _ in hall.notes._waiting]
    assert waiting == [Erasure(ERASED_SEGMENTS, 0, 12, bytes(32), "audit.keep_days")]


def test_nothing_young_goes(hall: Hall) -> None:
    assert hall.retention(keep_days=4.0).plan() == 0


def test_what_an_anchor_or_a_witness_may_ask_for_stays(hall: Hall) -> None:
    firsts = segments(hall.directory)
    held = replace(hall.shelf, witnessed=lambda: firsts[1] + 1)
    assert hall.retention(held).plan() == firsts[1]
    assert hall.retention(replace(hall.shelf, witnessed=lambda: 1)).plan() == 0
    behind = MemoryDirectory()
    note = hall.journal.anchor.read("checkpoint", 0, 9999)
    file = behind.open("checkpoint")
    file.append(note.replace(b"\n", b"\r\n"))
    with pytest.raises(NotDroppable, match="cannot be trusted"):
        hall.retention(replace(hall.shelf, anchors=[behind])).plan()


def test_the_next_proof_for_a_witness_begins_where_it_cosigned_last(hall: Hall) -> None:
    one, two, never = (Cosigner.generate(f"w.test/{name}", entropy(name)) for name in ("one", "two", "never"))
    keys = [one.key, two.key, never.key]
    assert witnessed_size(hall.directory, keys) is None
    sizes = []
    for cosigners in ([one, two], [one], [one], []):
        hall.journal.records(2)
        hall.keep()
        published = hall.publisher.publish()
        assert published is not None
        sizes.append(published.checkpoint.size)
        text = published.checkpoint.to_text()
        hall.publisher.add_signatures("".join(f"{who.cosign(text, 5).strip()}\n" for who in cosigners))
    assert witnessed_size(hall.directory, keys) == sizes[0]
    assert witnessed_size(hall.directory, [one.key]) == sizes[2]


def test_a_blob_goes_only_when_its_record_is_gone_for_certain(hall: Hall) -> None:
    # The records of what stays are three days old: one of them may name a blob that is hardly older.
    ages = {4.5: b"old", 3.5: b"made a little before", 2.5: b"perhaps named by what stays", 0.5: b"young"}
    for days, content in ages.items():
        file = hall.directory.open(f"blobs/{hashlib.sha256(content).hexdigest()}")
        file.append(content)
        file.close()
        made_s = hall.clock.now_ms / 1000 - days * 86_400
        os.utime(hall.path / "blobs" / hashlib.sha256(content).hexdigest(), (made_s, made_s))
    retention = hall.retention()
    end = retention.plan()
    retention.announce(end)
    hall.keep()
    hall.publisher.publish()
    retention.drop(end)
    kept = [hashlib.sha256(content).hexdigest() for days, content in ages.items() if days < 4]
    assert hall.directory.names("blobs") == sorted(kept)


def test_a_failure_is_a_value_that_people_can_be_told(hall: Hall) -> None:
    (hall.path / segment_name(segments(hall.directory)[1])).write_bytes(b"")
    failed = tried(hall.retention().plan)
    assert not isinstance(failed, int)
    assert tried(lambda: None) == 0

    def silent() -> int:
        raise SilentSink("the disk did not answer")

    assert isinstance(tried(silent), SilentSink)
