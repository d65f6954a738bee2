"""What can be read of a data folder's audit log without opening it, also while a gateway serves: keys, and damage."""

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from audit import history, machine
from audit.checkpoint import CHECKPOINT, Checkpoint
from audit.disk import Directory, DiskDirectory, log_folder
from audit.keyring import KeyProblem
from audit.log import SEGMENTS
from audit.note import BadNote
from audit.report import Exit, Finding
from audit.subjects import PersonalKey, Subject
from audit.trust import TrustPolicy, Witness
from audit.verify import Extra, VerifyOptions, verify
from gateway.engine.anchoring import newest_cosignature_ms
from gateway.engine.log_keys import LOG_KEYS_META, KeyFile, policy_of
from gateway.engine.log_opening import ORIGIN_META, QUARANTINE_META, WITNESSED_META, LogPaths, anchor_folder
from gateway.settings import Settings
from gateway.store.peek import Peek
from gateway.store.port import Refused
from gateway.store.threaded import database_path

DAMAGE = frozenset({Exit.TAMPERED, Exit.INCOMPLETE, Exit.UNREADABLE})
BAD_ANCHOR = "bad_anchor"


class LookPaths(LogPaths, Protocol):
    """Where else to look in a data folder."""

    @property
    def database(self) -> str: ...
    @property
    def personal_key(self) -> Path: ...


class KeptSubjects:
    """Subject keys as they stand in the store at each question. Fills `audit.subjects.KeptKeys`."""

    def __init__(self, peek: Peek) -> None:
        self._peek = peek

    def of_tag(self, tag: bytes) -> Subject | None:
        try:
            kept = self._peek.subject_of_tag(tag)
        except Refused as refused:
            raise OSError(errno.EIO, str(refused)) from refused
        return None if kept is None else Subject(kept.handle, kept.tag, kept.wrapped)


@dataclass(frozen=True, slots=True)
class Behind:
    """An anchor that did not get what was signed before the newest checkpoint. Sizes are numbers of entries."""

    place: Path
    held: int
    signed: int


class LogLook:
    """One data folder, whoever has it open."""

    def __init__(self, settings: Settings, paths: LookPaths) -> None:
        """Nothing is read before it is asked for; what cannot be read is `store.port.Refused`."""
        self._settings = settings
        self._paths = paths

    def origin(self) -> str:
        """The log that is written now."""
        with self._peek() as peek:
            stored = peek.meta(ORIGIN_META)
        return self._settings.audit.origin if stored is None else stored.decode()

    def held(self) -> str | None:
        """Why writes are held, or None."""
        with self._peek() as peek:
            reason = peek.meta(QUARANTINE_META)
        return None if reason is None else reason.decode()

    def folder(self, origin: str) -> Path:
        """Where a log's files lie."""
        return log_folder(self._paths.audit, origin)

    def anchors(self, origin: str) -> list[Path]:
        """Where checkpoints of that log are kept elsewhere."""
        return [anchor_folder(Path(anchor), self._settings, origin) for anchor in self._settings.audit.anchors]

    def policy(self, origin: str) -> TrustPolicy:
        """The keys of that log as this installation knows them; an auditor must have them from elsewhere."""
        with self._peek() as peek:
            return policy_of(KeyFile(self._paths.log_key), origin, peek.meta(LOG_KEYS_META))

    @contextmanager
    def subject_keys(self, folder: Path) -> Iterator[tuple[PersonalKey, KeptSubjects] | None]:
        """What opens the personal fields of the log in that folder; None if it is none of this installation's."""
        keys = [key for key in self._personal_keys() if self.folder(key.origin).resolve() == folder.resolve()]
        if not keys:
            yield None
            return
        with self._peek() as peek:
            yield keys[-1], KeptSubjects(peek)

    def _personal_keys(self) -> list[PersonalKey]:
        try:
            lines = self._paths.personal_key.read_text(encoding="ascii").splitlines()
            return [PersonalKey.parse(line) for line in lines if line.strip()]
        except FileNotFoundError:
            return []
        except (OSError, KeyProblem, UnicodeDecodeError) as error:
            raise Refused(
                f"The keys for personal data in {self._paths.personal_key} cannot be used: {error}."
            ) from error

    def damage(
        self,
        now_ms: int,
        *,
        started: Callable[[int], None] | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[Finding]:
        """What is wrong with the present log's files and its anchors, every byte read; nothing is proven by that.

        `started` is told how many bytes there are, `progress` how many more were read.
        """
        origin = self.origin()
        folder = self.folder(origin)
        if not (folder / SEGMENTS).is_dir():
            return []
        report = verify(
            DiskDirectory(folder),
            policy=self.policy(origin),
            anchors=[path for path in self.anchors(origin) if (path / CHECKPOINT).exists()],
            now_ms=now_ms,
            options=VerifyOptions(accept_unanchored=True),
            settle=machine.settle,
            extra=Extra(started=started, progress=progress),
        )
        return [finding for finding in report.findings if finding.exit in DAMAGE or finding.code == BAD_ANCHOR]

    def cosigned_ms(self, witnesses: Mapping[str, Witness]) -> int | None:
        """Wall time of the newest cosignature of the present log; those of a log before it vouch for nothing in it."""
        keys = [witness.key for witness in witnesses.values()]
        return newest_cosignature_ms(DiskDirectory(self.folder(self.origin())), keys)

    def start_witnessed(self) -> str | None:
        """What witnesses said when they were last asked at a start; None if they never were."""
        with self._peek() as peek:
            said = peek.meta(WITNESSED_META)
        return None if said is None else said.decode()

    def emptied_anchors(self) -> list[Path]:
        """Anchors that are there and hold nothing, although this log has been signed for."""
        origin = self.origin()
        if not (self.folder(origin) / CHECKPOINT).exists():
            return []
        anchors = zip(self._settings.audit.anchors, self.anchors(origin), strict=True)
        return [place for root, place in anchors if Path(root).is_dir() and not (place / CHECKPOINT).exists()]

    def anchors_behind(self) -> list[Behind]:
        """Anchors that hold less than the last checkpoint but one: the newest may be on its way at this moment."""
        origin = self.origin()
        signed = _sizes(DiskDirectory(self.folder(origin)), origin)
        if len(signed) < 2:
            return []
        held = [(place, _size(_note(place), origin)) for place in self.anchors(origin)]
        return [Behind(place, size, signed[0]) for place, size in held if size is not None and size < signed[1]]

    @contextmanager
    def _peek(self) -> Iterator[Peek]:
        with Peek.open(database_path(self._settings.store.url or self._paths.database)) as peek:
            yield peek


def _sizes(directory: Directory, origin: str) -> list[int]:
    """What the two newest different checkpoints of a log's own history cover, newest first."""
    found: list[int] = []
    try:
        for note in history.backwards(directory):
            size = _size(note, origin)
            if size is not None and size not in found:
                found.append(size)
            if len(found) == 2:
                break
    except OSError as error:
        raise Refused(f"The history of checkpoints cannot be read: {error.strerror or error}.") from error
    return found


def _note(anchor: Path) -> bytes:
    try:
        return DiskDirectory(anchor).read(CHECKPOINT, 0, history.NOTE_BYTES_MAX)
    except OSError:
        # Missing or unreadable is told of elsewhere.
        return b""


def _size(note: bytes, origin: str) -> int | None:
    """The size that a checkpoint of that log names. Whether it is signed is for the verifier to say."""
    try:
        checkpoint = Checkpoint.from_text(note.decode().partition("\n\n")[0] + "\n")
    except (BadNote, UnicodeDecodeError):
        return None
    return checkpoint.size if checkpoint.origin == origin else None
