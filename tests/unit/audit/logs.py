"""Small logs for the tests: a deterministic writer, and the tools of someone who tampers with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.bodies import Seal, SegmentClose, SegmentOpen, seal_message
from audit.chain import ZERO_HASH, CompactRange
from audit.checkpoint import CHECKPOINT, Checkpoint, Publisher
from audit.claims import AnchorSource
from audit.epochs import EpochKeys, EpochLimits, SealKeyFile
from audit.export import Exporter, Row, rows_of
from audit.keyring import RecipientKey, Role, SealKey
from audit.log import segment_name, segments
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from audit.record import Entry, Frame, Header, Kind, encode_frame, parse
from audit.report import Report
from audit.seal import Sealer, SegmentLimits
from audit.trust import TrustPolicy
from audit.verify import VerifyOptions, verify

ORIGIN = "gw.example/audit/test-1"
CLOSE_BYTES = 25
START_MS = 1_750_000_000_000


def entropy(seed: str) -> Callable[[int], bytes]:
    """Bytes that look random and are the same in every run."""
    count = 0

    def draw(length: int) -> bytes:
        nonlocal count
        count += 1
        return sha256(f"{seed}/{count}".encode()).digest()[:length]

    return draw


class Journal:
    """A log as a gateway would write it, in memory, with its keys and one anchor folder."""

    def __init__(
        self,
        origin: str = ORIGIN,
        *,
        seed: str = "journal",
        limits: SegmentLimits | None = None,
        coarse_time: bool = False,
        epochs: EpochLimits | None = None,
    ) -> None:
        self.coarse_time = coarse_time
        self.draw = entropy(seed)
        self.origin = origin
        self.signer = NoteSigner.generate(origin, self.draw)
        self.seal_key = SealKey.issue(self.signer.signer, origin, self.draw)
        self.auditor = RecipientKey.generate(Role.AUDITOR, "auditor", self.draw)
        self.recovery = RecipientKey.generate(Role.RECOVERY, "recovery", self.draw)
        self.policy = TrustPolicy((self.signer.key,))
        self.directory = MemoryDirectory()
        self.keys = MemoryDirectory()
        self.epochs: EpochKeys | None = None
        if epochs is not None:
            store = SealKeyFile(self.keys, "seal.key")
            store.save(origin, [self.seal_key])
            self.epochs = EpochKeys(store, origin, epochs)
        self.anchor = MemoryDirectory()
        self.limits = limits or SegmentLimits(entries_max=12)
        self.now_ms = START_MS
        self.frames: list[Frame] = []
        self.boots = 0
        self.sealer: Sealer
        self.boot()

    def boot(self) -> Sealer:
        """A new process: a fresh sealer over the stored head."""
        head = self.sealer.head if self.boots else None
        self.boots += 1
        self.sealer = Sealer(
            origin=self.origin,
            recipients=[self.auditor.recipient, self.recovery.recipient],
            seal_key=self.epochs or self.seal_key,
            head=head,
            entropy=self.draw,
            writer_id="writer-1",
            boot_id=f"boot-{self.boots}",
            limits=self.limits,
            coarse_time=self.coarse_time,
        )
        self.frames += self.sealer.start(self.tick())
        return self.sealer

    def tick(self) -> int:
        self.now_ms += 100
        return self.now_ms

    def records(self, count: int) -> None:
        for _ in range(count):
            text = f'{{"op":"op-{self.sealer.head.size % 3}","n":{self.sealer.head.size}}}'
            self.frames += self.sealer.record(text.encode(), self.tick())

    def seal(self) -> None:
        self.frames += self.sealer.seal(self.tick())

    def close(self) -> None:
        self.frames += self.sealer.close(self.tick())

    def export(self) -> None:
        exporter = Exporter(self.directory)
        try:
            exporter.export(self.rows())
            if self.epochs is not None:
                self.epochs.confirm(exporter.durable_size)
        finally:
            exporter.close()
        self.frames = []

    def rows(self) -> list[Row]:
        return rows_of(self.frames)

    def publish(self) -> None:
        Publisher(self.directory, self.signer, [self.anchor]).publish()

    def anchors(self) -> list[AnchorSource]:
        return [AnchorSource("anchor", self.anchor, CHECKPOINT)]

    def verify(
        self,
        *,
        anchored: bool = True,
        policy: TrustPolicy | None = None,
        options: VerifyOptions | None = None,
        now_ms: int | None = None,
    ) -> Report:
        return verify(
            self.directory,
            policy=policy or self.policy,
            anchors=self.anchors() if anchored else (),
            now_ms=self.now_ms + 1000 if now_ms is None else now_ms,
            options=options,
        )


def sealed_journal(*, tail: int = 3) -> Journal:
    """Four segments, a restart without a clean end, a checkpoint before the last records, `tail` unsealed entries."""
    journal = Journal()
    for _ in range(4):
        journal.records(5)
        journal.seal()
    journal.boot()
    journal.records(6)
    journal.seal()
    journal.export()
    journal.publish()
    journal.records(3)
    journal.seal()
    journal.records(tail)
    journal.export()
    return journal


def entries_of(directory: MemoryDirectory) -> list[Entry]:
    """Every entry in the files, in order."""
    found = []
    for first in segments(directory):
        buffer = directory.files()[segment_name(first)]
        parsed = parse(buffer)
        assert parsed.fault is None
        found += list(parsed.entries(buffer))
    return found


def put_frames(directory: MemoryDirectory, frames: Iterable[Frame]) -> None:
    """Replace all segment files by these frames."""
    for first in segments(directory):
        directory.remove(segment_name(first))
    files: dict[int, bytes] = {}
    for frame in frames:
        files[frame.segment] = files.get(frame.segment, b"") + frame.data
    for first, data in files.items():
        directory.put(segment_name(first), data)


def rechain(
    entries: Sequence[Entry],
    *,
    seal_key: SealKey | None = None,
    origin: str = ORIGIN,
    lie_at: int | None = None,
    own_epoch: bool = False,
) -> list[Frame]:
    """What an attacker writes who repairs everything that needs no key: seqs, links, trailers, roots, stated trees.

    With a seal key the seals are signed again as well (`own_epoch`: only those of its epoch); the one at seq `lie_at`
    signs a root that is not the log's.
    """
    frames: list[Frame] = []
    tree, prev, segment = CompactRange(), ZERO_HASH, 0
    for seq, entry in enumerate(entries):
        header = entry.header._replace(seq=seq, prev=prev)
        body = entry.body
        if header.kind == Kind.SEGMENT_OPEN:
            segment = seq
            body = replace(SegmentOpen.from_bytes(body), range_hashes=tree.hashes).to_bytes()
        elif header.kind == Kind.SEGMENT_CLOSE and len(body) == CLOSE_BYTES:
            body = replace(SegmentClose.from_bytes(body), first_seq=segment, entries=seq - segment).to_bytes()
        elif header.kind == Kind.SEAL:
            root = bytes(32) if seq == lie_at else tree.root()
            seal = replace(Seal.from_bytes(body), size=seq, root=root)
            signs = seal_key is not None and (not own_epoch or seal.epoch == seal_key.epoch)
            body = _resign(seal, header, seal_key if signs else None, origin)
        frame = encode_frame(header, body, segment)
        frames.append(frame)
        tree.append(frame.leaf)
        prev = frame.leaf
    return frames


def _resign(seal: Seal, header: Header, key: SealKey | None, origin: str) -> bytes:
    if key is not None:
        private = Ed25519PrivateKey.from_private_bytes(key.private)
        signature = private.sign(seal_message(origin, header.to_bytes(), seal.unsigned()))
        seal = replace(seal, signature=signature)
    return seal.to_bytes()


def refile(directory: MemoryDirectory, change: Callable[[bytes], bytes], segment: int = 0) -> None:
    """Change the bytes of one segment file."""
    name = segment_name(segment)
    directory.put(name, change(directory.files()[name]))


def sign_checkpoint(signer: NoteSigner, size: int, root: bytes, origin: str = ORIGIN) -> bytes:
    return signer.sign(Checkpoint(origin, size, root).to_text()).encode()
