"""What keeps the log's heads elsewhere, and what became of each head there: recorded by the writer, between seals."""

import errno
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, Protocol

from audit.bodies import AnchorResult, Body, KeyChange
from audit.checkpoint import HISTORY, Checkpoint, Published
from audit.cosign import CosignerKey, cosigned_at, signature_lines
from audit.disk import Directory, DiskDirectory, DiskFile
from audit.head import Head
from audit.inputs import read_input
from audit.keyring import KeyProblem, SealKey
from audit.note import BadNote
from audit.record import Frame, Kind
from audit.seal import Sealer
from audit.trust import BadPolicy, TrustPolicy, Witness
from gateway.settings import AuditSettings
from gateway.store.port import Refused

DETAIL_BYTES_MAX: Final = 1024
HISTORY_BYTES_MAX: Final = 256 * 1024
"""How far back in the history of checkpoints a cosignature is looked for."""
_OVERLAP_BYTES: Final = 16 * 1024
"""More than a note has with the cosignatures of a hundred witnesses."""
_NOTE: Final = re.compile(r"(?:\A|(?<=\n\n))((?:[^\n]+\n){3}\n(?:\N{EM DASH} [^\n]+\n)+)")


class Taken(IntEnum):
    """What became of a checkpoint at an anchor, with the numbers of the log's format."""

    TAKEN = 1
    REFUSED = 2
    NOT_REACHED = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """One anchor's answer to one checkpoint; `detail` is a cosignature or a reason."""

    anchor: str
    taken: Taken
    detail: str = ""
    contradicts: bool = False
    """It has seen a larger or another tree of this log than ours."""


@dataclass(frozen=True, slots=True)
class Cosigned:
    """Signature lines that are new, and what each witness asked said."""

    lines: str
    answers: tuple[Answer, ...]


class Cosigners(Protocol):
    """Witnesses as the log keeper sees them."""

    @property
    def newest_ms(self) -> int | None:
        """Wall time of the newest cosignature that this log has, None if it has none."""
        ...

    def wants(self, published: Published) -> bool:
        """Whether it is time to ask about that checkpoint, for the first time or once more."""
        ...

    async def ask(self, published: Published) -> Cosigned:
        """Ask every witness, within seconds; what fails is an answer, never an error."""
        ...


class AnchorFolder(DiskDirectory):
    """Where checkpoints are kept elsewhere. A folder that the settings name is never made: it may be a disk that is not
    mounted, and an empty one in its place would look as if nothing had been kept there.
    """

    def __init__(self, path: Path, anchor: Path) -> None:
        """`path` is where this log's checkpoints lie, `anchor` the folder of the settings: itself, or one above it."""
        super().__init__(path)
        self._anchor = anchor

    def open(self, name: str, *, fresh: bool = False) -> DiskFile:
        if not self._anchor.is_dir():
            reason = "the folder is missing; put it back with what was in it, or mount its disk"
            raise FileNotFoundError(errno.ENOENT, reason, str(self._anchor))
        return super().open(name, fresh=fresh)


class NotedSealer:
    """A sealer that also seals what anchors answered: each entry comes with the next seal, so that it is signed.

    An entry is made only when an anchor's answer differs from its last one. Otherwise each entry would be a new head to
    anchor, whose answer would be the next entry, and an idle log would grow for ever.
    """

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        # The writer calls this for each record.
        self.record = sealer.record
        self.erase_subject = sealer.erase_subject
        self._waiting: deque[tuple[Body, Kind]] = deque()
        self._last: dict[str, Taken] = {}

    @property
    def head(self) -> Head:
        return self._sealer.head

    @property
    def origin(self) -> str:
        return self._sealer.origin

    def tell(self, checkpoint: Checkpoint, answers: Iterable[Answer]) -> None:
        """Have answers recorded. Called on another thread than the writer's."""
        for answer in answers:
            if self._last.get(answer.anchor) is answer.taken:
                continue
            self._last[answer.anchor] = answer.taken
            detail = answer.detail.encode()[:DETAIL_BYTES_MAX]
            entry = AnchorResult(int(answer.taken), checkpoint.size, checkpoint.root, answer.anchor, detail)
            self.note(entry, Kind.ANCHOR_RESULT)

    def note(self, body: Body, kind: Kind) -> None:
        """Have a clear entry made with the next seal. Called on another thread than the writer's."""
        self._waiting.append((body, kind))

    def rekey(self, change: KeyChange, fresh: SealKey, t_ms: int) -> Sequence[Frame]:
        return [*self._noted(t_ms), *self._sealer.rekey(change, fresh, t_ms)]

    def seal(self, t_ms: int) -> Sequence[Frame]:
        return [*self._noted(t_ms), *self._sealer.seal(t_ms)]

    def heartbeat(self, t_ms: int) -> Sequence[Frame]:
        return [*self._noted(t_ms), *self._sealer.heartbeat(t_ms)]

    def close(self, t_ms: int) -> Sequence[Frame]:
        return [*self._noted(t_ms), *self._sealer.close(t_ms)]

    def _noted(self, t_ms: int) -> list[Frame]:
        frames: list[Frame] = []
        while self._waiting:
            frames += self._sealer.note(*self._waiting.popleft(), t_ms)
        return frames


def witnesses_of(audit: AuditSettings) -> dict[str, Witness]:
    """Those with a URL, of the settings and of the policy that they name. Raises `store.port.Refused`."""
    found: dict[str, Witness] = {}
    try:
        if audit.witness_policy is not None:
            found |= TrustPolicy.parse(read_input(Path(audit.witness_policy))).witnesses
        for item in audit.witnesses:
            key = CosignerKey.parse(item.vkey)
            if key.name in found or any(known.key.public == key.public for known in found.values()):
                raise Refused(f"Two witnesses have the name or the key of {key.name}; each counts once only.")
            found[key.name] = Witness(key, item.url)
    except (KeyProblem, BadPolicy, UnicodeDecodeError) as error:
        raise Refused(f"The witnesses of the audit log cannot be asked: {error}.") from error
    except OSError as error:
        raise Refused(f"The policy {audit.witness_policy} cannot be read: {error.strerror}.") from error
    return {name: witness for name, witness in found.items() if witness.url}


def newest_cosignature_ms(directory: Directory, keys: Sequence[CosignerKey]) -> int | None:
    """Wall time of the newest cosignature by these keys in a log's own history; None if there is none near its end."""
    try:
        size = directory.size(HISTORY)
        start = max(0, size - HISTORY_BYTES_MAX)
        text = directory.read(HISTORY, start, size - start).decode(errors="replace")
    except OSError:
        return None
    notes = (match[1] for match in _NOTE.finditer(text))
    times = [time_s for note in notes for time_s in _times(note, keys)]
    return max(times) * 1000 if times else None


def witnessed_size(directory: Directory, keys: Sequence[CosignerKey]) -> int | None:
    """The smallest size that one of these witnesses cosigned last, for its next proof begins there.

    None if none of them ever did. The history is read backwards, no further than to the last one of them.
    """
    try:
        end = directory.size(HISTORY)
    except FileNotFoundError:
        return None
    missing = {key.public: key for key in keys}
    sizes = []
    while end > 0 and missing:
        start = max(0, end - HISTORY_BYTES_MAX)
        text = directory.read(HISTORY, start, end - start).decode(errors="replace")
        for match in reversed(list(_NOTE.finditer(text))):
            for key in [key for key in missing.values() if _times(match[1], [key])]:
                sizes.append(int(match[1].split("\n")[1]))
                del missing[key.public]
        # A note across the border is read with the earlier part.
        end = start + _OVERLAP_BYTES if start and end - start > 2 * _OVERLAP_BYTES else start
    return min(sizes, default=None)


def _times(note: str, keys: Sequence[CosignerKey]) -> list[int]:
    text = note.rpartition("\n\n")[0] + "\n"
    found = []
    for line in signature_lines(note):
        for key in keys:
            try:
                time_s = cosigned_at(line, text, key)
            except BadNote:
                continue
            if time_s is not None:
                found.append(time_s)
    return found
