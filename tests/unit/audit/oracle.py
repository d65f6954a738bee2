"""A second verifier, slow and simple, written from FORMAT.md alone: it shares no code with the package."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ZERO = bytes(32)
BLOB_MAX = 1_073_741_824
OK, TAMPERED, INCOMPLETE, NOT_PROVEN, UNREADABLE = 0, 1, 3, 4, 5
ORDER = (TAMPERED, INCOMPLETE, UNREADABLE, NOT_PROVEN)


class Broken(Exception):
    """Bytes that break the format."""


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def root_of(leaves: list[bytes]) -> bytes:
    """RFC 6962 by its definition, level by level: an odd one goes up as it is."""
    if not leaves:
        return sha(b"")
    level = leaves
    while len(level) > 1:
        paired = [sha(b"\x01" + level[at] + level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) - len(level) % 2 :]
    return level[0]


def peaks_of(leaves: list[bytes]) -> list[bytes]:
    found, at = [], 0
    for bit in reversed(range(64)):
        if len(leaves) >> bit & 1:
            found.append(root_of(leaves[at : at + (1 << bit)]))
            at += 1 << bit
    return found


def signed(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class Cut:
    """Fields off the front of a body."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        if len(self.data) < count:
            raise Broken
        head, self.data = self.data[:count], self.data[count:]
        return head

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def text(self, width: int) -> str:
        try:
            return self.take(self.number(width)).decode()
        except UnicodeDecodeError:
            raise Broken from None

    def done(self) -> None:
        if self.data:
            raise Broken


@dataclass
class Opening:
    origin: str
    number: int
    boot: str
    previous: int
    epoch: int
    key: bytes
    certificate: bytes
    suite: int
    peaks: list[bytes]


def read_opening(body: bytes) -> Opening:
    cut = Cut(body)
    origin, number, _writer, boot, previous = cut.text(2), cut.number(8), cut.text(1), cut.text(1), cut.number(1)
    epoch, key, certificate, suite = cut.number(4), cut.take(32), cut.take(64), cut.number(2)
    cut.take(32)
    for _ in range(cut.number(1)):
        cut.take(3)
        cut.text(1)
        cut.take(32)
        cut.take(cut.number(2))
    peaks = [cut.take(32) for _ in range(cut.number(1))]
    cut.done()
    if previous > 2:
        raise Broken
    return Opening(origin, number, boot, previous, epoch, key, certificate, suite, peaks)


def read_other(kind: int, body: bytes) -> None:
    """Kinds 5 to 9: exactly the bytes stated, values out of the stated lists."""
    cut = Cut(body)
    if kind == 5:
        cause = cut.number(1)
        if cause == 1:
            cut.take(8)
            old, offset = cut.number(8), cut.number(8)
            cut.take(32)
            cut.text(1)
            cut.text(1)
            if offset >= old:
                raise Broken
        elif cause == 2:
            cut.text(2)
            cut.take(72)
        else:
            raise Broken
    elif kind in {6, 7}:
        if cut.number(1) not in {1, 2}:
            raise Broken
        cut.take(48 if kind == 6 else 64)
        cut.text(1)
    elif kind == 8:
        if cut.number(1) not in {1, 2, 3}:
            raise Broken
        cut.take(40)
        cut.text(2)
        cut.take(cut.number(2))
    cut.done()


@dataclass
class Policy:
    """Pinned keys by origin, the sizes they speak for, witnesses, groups, and the quorum."""

    keys: dict[str, list[bytes]] = field(default_factory=dict)
    sizes: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    digests: set[bytes] = field(default_factory=set)
    witnesses: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    groups: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    quorum: str = "none"

    @classmethod
    def parse(cls, text: str) -> Policy:
        policy, sizes = cls(), (0, 1 << 64)
        for line in text.splitlines():
            words = line.split()
            if words[:2] == ["#agl1", "sizes"]:
                start, _, end = words[2].partition("-")
                sizes = int(start), int(end) if end else 1 << 64
            elif words[:1] == ["log"]:
                name, _, encoded = words[1].split("+", 2)
                public = base64.b64decode(encoded)[1:]
                policy.keys.setdefault(name, []).append(public)
                policy.sizes[public], sizes = sizes, (0, 1 << 64)
                policy.digests.add(sha(words[1].encode()))
            elif words[:1] == ["witness"]:
                name, _, encoded = words[2].split("+", 2)
                policy.witnesses[words[1]] = name, base64.b64decode(encoded)[1:]
            elif words[:1] == ["group"]:
                least = {"all": str(len(words) - 3), "any": "1"}.get(words[2], words[2])
                policy.groups[words[1]] = int(least), words[3:]
            elif words[:1] == ["quorum"]:
                policy.quorum = words[1]
        return policy

    def met(self, cosigned: set[str], name: str | None = None) -> bool:
        name = self.quorum if name is None else name
        if name in self.groups:
            least, members = self.groups[name]
            return sum(self.met(cosigned, member) for member in members) >= least
        return name == "none" or name in cosigned


NOTE = re.compile(rb"([^\n]+)\n(0|[1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n\n((?:\xe2\x80\x94 [^\n]+\n)+)", re.DOTALL)


def signature_of(line: str) -> tuple[str, bytes]:
    try:
        _, name, encoded = line.split(" ")
        raw = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise Broken from None
    if base64.b64encode(raw).decode() != encoded or len(raw) < 5:
        raise Broken
    return name, raw


def read_note(
    note: bytes, keys: dict[str, list[bytes]], sizes: dict[bytes, tuple[int, int]] | None = None
) -> tuple[int, bytes]:
    """Size and root of a checkpoint; Broken if it is not one, LookupError if only unknown keys signed it."""
    match = NOTE.fullmatch(note)
    if match is None:
        raise Broken
    root = base64.b64decode(match[3])
    if base64.b64encode(root) != match[3]:
        raise Broken
    origin = match[1].decode(errors="replace")
    text = note[: match.start(4) - 1]
    good = late = False
    for line in match[4].decode(errors="replace").splitlines():
        name, raw = signature_of(line)
        for public in keys.get(name, []):
            if raw[:4] != sha(name.encode() + b"\n\x01" + public)[:4]:
                continue
            if not signed(public, raw[4:], text):
                raise Broken
            if name == origin:
                first, last = (sizes or {}).get(public, (0, 1 << 64))
                in_force = first <= int(match[2]) <= last
                good, late = good or in_force, late or not in_force
    if not good and late:
        raise Broken
    if not good:
        raise LookupError
    return int(match[2]), root


class Oracle:
    """One verification."""

    def __init__(self, files: dict[str, bytes], policy: Policy, anchors: list[bytes], now_ms: int) -> None:
        self.files, self.policy, self.anchors, self.now_ms = files, policy, anchors, now_ms
        self.exits: set[int] = set()
        self.leaves: list[bytes] = []
        self.times: list[int] = []
        self.known = True
        self.opening: Opening | None = None
        self.end = 0
        self.epoch, self.key = -1, b""
        self.pinned = False
        self.closed = 0
        self.sealed = 0
        self.seal: tuple[bytes, bytes, bytes] | None = None
        self.unsealed_since: int | None = None
        self.coarse = False
        self.full = False
        self.seals = 0
        self.after_opening = False
        self.foreign = self.old_key = self.new_key = False
        self.announced = self.announced_sealed = False

    def run(self, unsealed_max: int, anchor_age_ms: int, *, unanchored: bool) -> int:
        names = sorted(name for name in self.files if re.fullmatch(r"segments/[0-9a-f]{16}\.agl", name))
        for name in names:
            self.segment(name, last=name == names[-1])
        if self.full:
            self.exits.add(INCOMPLETE)
        for name, data in self.files.items():
            if re.fullmatch(r"blobs/[0-9a-f]{64}", name) and (len(data) > BLOB_MAX or sha(data).hex() != name[6:]):
                self.exits.add(TAMPERED)
        self.tail(unsealed_max)
        self.checkpoints(anchor_age_ms, unanchored=unanchored)
        if self.old_key or self.new_key:
            self.exits.add(NOT_PROVEN)
        elif self.foreign:
            self.exits.add(TAMPERED)
        if not self.end or not self.pinned:
            self.exits.add(NOT_PROVEN)
        return next((code for code in ORDER if code in self.exits), OK)

    def segment(self, name: str, *, last: bool) -> None:
        first, data, at = int(name[9:25], 16), self.files[name], 0
        if first < self.end:
            self.exits.add(TAMPERED)
            return
        if first > self.end:
            self.exits.add(INCOMPLETE)
            self.known, self.closed, self.end = False, 0, first
        before, self.full = self.closed, False
        self.closed = 0
        count = 0
        if len(data) > 134_217_728:
            self.exits.add(TAMPERED)
            self.known = False
            return
        while at < len(data):
            size = self.frame(data, at)
            if size is None:
                self.rest(data, at, last=last, empty=at == 0)
                break
            self.entry(data[at + 5 : at + size - 8], first, count, before)
            at += size
            count += 1
        if not data:
            self.exits.add(INCOMPLETE if last else TAMPERED)
        self.check_seal()

    @staticmethod
    def frame(data: bytes, at: int) -> int | None:
        """Length of the whole, right frame at a place."""
        if len(data) - at < 4:
            return None
        size = 4 + int.from_bytes(data[at : at + 4], "big")
        if not 109 <= size <= 65_548 or at + size > len(data) or data[at + 4]:
            return None
        return size if sha(data[at + 4 : at + size - 8])[:8] == data[at + size - 8 : at + size] else None

    def rest(self, data: bytes, at: int, *, last: bool, empty: bool) -> None:
        """Bytes that are no frame (section 12, item 4)."""
        tail = data[at:]
        if len(tail) >= 4 and not any(tail):
            if empty:
                self.exits.add(INCOMPLETE)
            return
        later = any(
            self.frame(data, place) and data[place + 5] and data[place + 6] for place in range(at + 1, len(data))
        )
        torn = last and not later and self.torn(tail)
        self.exits.add(INCOMPLETE if torn else TAMPERED)
        if not torn:
            # What follows damage is not looked at: one contradiction is enough for the verdict.
            self.known = False

    @staticmethod
    def torn(tail: bytes) -> bool:
        if len(tail) < 4:
            return True
        size = 4 + int.from_bytes(tail[:4], "big")
        if not 109 <= size <= 65_548 or (len(tail) > 4 and tail[4]):
            return False
        return len(tail) != size or not any(tail[size - 8 : size])

    def entry(self, raw: bytes, first: int, count: int, before: int) -> None:
        version, kind, flags, seq, t_ms, nonce, commit, prev = struct.unpack(">BBHQQ12s32s32s", raw[:96])
        leaf, body = sha(b"\x00" + raw), raw[96:]
        if version != 1 or not 1 <= kind <= 9 or flags > 1:
            self.exits.add(UNREADABLE)
        if seq != self.end or (self.known and prev != (self.leaves[-1] if self.leaves else ZERO)):
            self.exits.add(TAMPERED)
        if 2 <= kind <= 9 and (any(nonce) or any(commit)):
            self.exits.add(TAMPERED)
        if (count == 0) != (kind == 2) or (self.closed and (kind != 3 or self.closed > 1)):
            self.exits.add(TAMPERED)
        self.closed += bool(self.closed)
        self.coarse = self.coarse or flags == 1
        if kind == 2 or (kind == 5 and self.after_opening):
            self.after_opening = True
        else:
            self.after_opening = False
            if kind == 5:
                self.exits.add(TAMPERED)
        try:
            self.clear(kind, raw, body, first, before)
        except Broken:
            self.exits.add(TAMPERED)
        if kind != 3 and self.unsealed_since is None:
            self.unsealed_since = t_ms
        self.leaves.append(leaf)
        self.times.append(t_ms)
        self.end += 1

    def clear(self, kind: int, raw: bytes, body: bytes, first: int, before: int) -> None:
        if kind == 2:
            self.open(read_opening(body), first, before)
        elif kind == 3:
            self.take_seal(raw, body)
        elif kind == 4:
            cut = Cut(body)
            number, start, entries, reason = cut.number(8), cut.number(8), cut.number(8), cut.number(1)
            cut.done()
            opened = self.opening.number if self.opening else number
            if reason not in {1, 2, 3} or (number, start, entries) != (opened, first, self.end - first):
                raise Broken
            self.closed, self.full = 1, reason != 2
        elif 5 <= kind <= 9:
            read_other(kind, body)
            if kind == 7 and body[0] == 2:
                pinned = self.policy.digests
                self.old_key = self.old_key or (body[33:65] in pinned and body[1:33] not in pinned)
                self.announced = self.announced or (body[1:33] in pinned and body[33:65] not in pinned)

    def open(self, opened: Opening, first: int, before: int) -> None:
        earlier, self.opening = self.opening, opened
        if opened.suite != 1:
            self.exits.add(UNREADABLE)
        message = b"agw/epoch/1\0" + struct.pack(">H", len(opened.origin.encode())) + opened.origin.encode()
        message += struct.pack(">I", opened.epoch) + opened.key
        pinned = [
            public
            for public in self.policy.keys.get(opened.origin if earlier is None else earlier.origin, [])
            if self.policy.sizes[public][0] <= first < self.policy.sizes[public][1]
        ]
        asked = bool(self.policy.keys.get(opened.origin if earlier is None else earlier.origin, []))
        certified = any(signed(public, opened.certificate, message) for public in pinned)
        if (opened.epoch, opened.key) != (self.epoch, self.key):
            bare = not self.known and not any(opened.certificate)
            strange = asked and not certified and not bare and self.epoch >= 0
            if opened.epoch <= self.epoch or (strange and not self.announced_sealed):
                self.exits.add(TAMPERED)
            elif strange:
                self.new_key = True
            if self.epoch < 0:
                self.pinned = certified
                self.foreign = self.foreign or bool(asked and not certified and not bare)
            self.epoch, self.key = opened.epoch, opened.key
        if earlier is not None and earlier.origin != opened.origin:
            self.exits.add(TAMPERED)
        if not self.known:
            return
        expected = 0 if earlier is None else (1 if before else 2)
        number = 0 if earlier is None else earlier.number + 1
        if (opened.previous, opened.number) != (expected, number) or opened.peaks != peaks_of(self.leaves):
            self.exits.add(TAMPERED)

    def take_seal(self, raw: bytes, body: bytes) -> None:
        cut = Cut(body)
        epoch, size, root, following, signature = (
            cut.number(4), cut.number(8), cut.take(32), cut.take(32), cut.take(64),
        )  # fmt: skip
        cut.done()
        if size != self.end or epoch != self.epoch or (self.known and root != root_of(self.leaves)):
            self.exits.add(TAMPERED)
        origin = (self.opening.origin if self.opening else "").encode()
        message = b"agw/seal/1\0" + struct.pack(">H", len(origin)) + origin + raw[:96] + body[:-64]
        self.seal = (self.key, signature, message)
        self.seals += 1
        self.announced_sealed = self.announced
        self.sealed, self.unsealed_since = self.end + 1, None
        if following != ZERO:
            self.check_seal()
            self.epoch, self.key = self.epoch + 1, following

    def check_seal(self) -> None:
        """The last seal of a segment or an epoch."""
        if self.seal is not None and not signed(*self.seal):
            self.exits.add(TAMPERED)
        self.seal = None

    def tail(self, unsealed_max: int) -> None:
        if not self.times:
            return
        since = self.unsealed_since
        gap_ms = 0 if since is None or self.coarse else self.times[-1] - since
        if not self.seals or self.end - self.sealed > unsealed_max or gap_ms > 60_000:
            self.exits.add(INCOMPLETE)

    def checkpoints(self, anchor_age_ms: int, *, unanchored: bool) -> None:
        origin = self.opening.origin if self.opening else ""
        keys = {origin: self.policy.keys.get(origin, [])} if origin else self.policy.keys
        newest: int | None = None
        for note in self.anchors:
            try:
                size, root = read_note(note, keys, self.policy.sizes)
            except (Broken, LookupError):
                self.exits.add(NOT_PROVEN)
                continue
            if self.compare(size, root):
                newest = max(newest or 0, size)
        if any(keys.values()):
            self.own(keys)
        fresh = newest is not None and self.now_ms - self.times[newest - 1] <= anchor_age_ms
        if not fresh and not unanchored:
            self.exits.add(NOT_PROVEN)

    def own(self, keys: dict[str, list[bytes]]) -> None:
        history = self.files.get("checkpoints.log", b"")
        *notes, rest = re.split(rb"(?<=\n)\n(?![^\n]*\xe2\x80\x94)(?=[^\n]|$)", history) if history else [b""]
        if rest:
            self.exits.add(INCOMPLETE)
        latest = self.files.get("checkpoint")
        before = 0
        for place, note in enumerate([*notes, *([] if latest is None else [latest])]):
            try:
                size, root = read_note(note, keys, self.policy.sizes)
                if place < len(notes) and size < before:
                    raise Broken
                before = size
                self.compare(size, root)
            except LookupError:
                self.foreign = True
            except Broken:
                self.exits.add(TAMPERED)
                return

    def compare(self, size: int, root: bytes) -> bool:
        if not size:
            return False
        if not self.known:
            self.exits.add(INCOMPLETE)
            return False
        if size > self.end or root != root_of(self.leaves[:size]):
            self.exits.add(TAMPERED)
            return False
        return True


def oracle(
    files: dict[str, bytes],
    policy: str,
    anchors: list[bytes],
    now_ms: int,
    *,
    unsealed_max: int = 4096,
    unanchored: bool = False,
) -> int:
    """The exit code that FORMAT.md asks for."""
    run = Oracle(files, Policy.parse(policy), anchors, now_ms)
    return run.run(unsealed_max, 24 * 3_600_000, unanchored=unanchored)


def strict_base64(value: bytes) -> bytes:
    try:
        raw = base64.b64decode(value, validate=True)
    except ValueError:
        raise Broken from None
    if base64.b64encode(raw) != value:
        raise Broken
    return raw


class Short(Exception):
    """A text that ends too early."""


class Lines:
    """The lines of a disclosure, one after the other."""

    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0

    def next(self) -> bytes:
        end = self.text.find(b"\n", self.at)
        if end < 0:
            raise Broken if len(self.text) - self.at >= 90_000 else Short
        line, self.at = self.text[self.at : end], end + 1
        return line

    def after(self, word: bytes) -> bytes:
        line = self.next()
        if not line.startswith(word + b" "):
            raise Broken
        return line[len(word) + 1 :]

    def number(self, word: bytes) -> int:
        digits = self.after(word)
        if not re.fullmatch(rb"0|[1-9][0-9]{0,18}", digits):
            raise Broken
        return int(digits)


def leads_to(leaf: bytes, index: int, size: int, path: list[bytes], root: bytes) -> bool:
    """RFC 6962, 2.1.1, read from the root downwards: split, and use the proof from its end."""

    def climb(start: int, end: int, left: list[bytes]) -> bytes:
        if end - start == 1:
            if left:
                raise Broken
            return leaf
        if not left:
            raise Broken
        split = 1
        while split * 2 < end - start:
            split *= 2
        middle = start + split
        if index < middle:
            return sha(b"\x01" + climb(start, middle, left[:-1]) + left[-1])
        return sha(b"\x01" + left[-1] + climb(middle, end, left[:-1]))

    if not index < size:
        return False
    try:
        return climb(0, size, path) == root
    except Broken:
        return False


def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise Broken
    return dict(pairs)


def document_of(entry: bytes, key: bytes) -> dict[str, object]:
    """Section 6: commitment, tag, padding, strict JSON."""
    if sha(b"agw/commit/1" + key) != entry[32:64]:
        raise Broken
    try:
        padded = AESGCM(key).decrypt(entry[20:32], entry[96:], entry[:96])
    except (InvalidTag, ValueError):
        raise Broken from None
    plain = padded.rstrip(b"\0")
    if len(padded) % 64 or not plain.endswith(b"\x80") or len(padded) - len(plain) > 63:
        raise Broken
    try:
        text = plain[:-1].decode()
        found = json.loads(text, object_pairs_hook=unique, parse_constant=lambda _: bad())
        json.dumps(found, ensure_ascii=False).encode()
    except ValueError:
        raise Broken from None
    if not isinstance(found, dict):
        raise Broken
    return found


def bad() -> None:
    raise Broken


class DisclosureOracle:
    """One check of a disclosure (section 14)."""

    def __init__(self, text: bytes, policy: str, now_s: int) -> None:
        self.lines, self.text, self.now_s = Lines(text), text, now_s
        self.policy = Policy.parse(policy)
        self.exits: set[int] = set()
        self.note: bytes | None = None
        self.tree: tuple[int, bytes] | None = None
        self.before, self.final = b"", False

    def run(self) -> int:
        try:
            self.whole()
        except Short:
            self.exits.add(INCOMPLETE)
        except Broken:
            self.exits.add(TAMPERED)
        return next((code for code in ORDER if code in self.exits), OK)

    def whole(self) -> None:
        if not self.text.startswith(b"agl1-disclosure@v1\n"):
            self.exits.add(UNREADABLE)
            return
        self.lines.next()
        shown = self.lines.after(b"op")
        try:
            op = json.loads(shown.decode())
        except ValueError:
            raise Broken from None
        if not isinstance(op, str) or json.dumps(op).encode() != shown:
            raise Broken
        count = self.lines.number(b"records")
        if not 1 <= count <= 1 << 20 or self.lines.next():
            raise Broken
        for number in range(count):
            self.record(op, number)
        total = sha(self.text[: self.lines.at]).hex().encode()
        if self.lines.after(b"end") != total or self.lines.at != len(self.text):
            raise Broken
        if not self.final:
            self.exits.add(INCOMPLETE)

    def record(self, op: str, number: int) -> None:
        entry = strict_base64(self.lines.after(b"entry"))
        if self.lines.next() != b"c2sp.org/tlog-proof@v1" or not 96 <= len(entry) <= 65_535:
            raise Broken
        key, index = strict_base64(self.lines.after(b"extra")), self.lines.number(b"index")
        path = []
        while line := self.lines.next():
            path.append(strict_base64(line))
        if any(len(item) != 32 for item in path) or len(path) > 63 or len(key) != 32:
            raise Broken
        self.take_note([self.lines.next() for _ in range(4)])
        leaf, before, self.before = sha(b"\x00" + entry), self.before, sha(b"\x00" + entry)
        if self.tree is not None and not leads_to(leaf, index, *self.tree[:1], path, self.tree[1]):
            self.exits.add(TAMPERED)
        version, kind, flags, seq = struct.unpack(">BBHQ", entry[:12])
        if version != 1 or not 1 <= kind <= 9 or flags > 1:
            self.exits.add(UNREADABLE)
            return
        try:
            if kind != 1 or seq != index:
                raise Broken
            self.place(document_of(entry, key), op, number, before)
        except Broken:
            self.exits.add(TAMPERED)

    def place(self, found: dict[str, object], op: str, number: int, before: bytes) -> None:
        self.final = self.final or found.get("op_final") is True
        told = found.get("op_n")
        if found.get("op") != op or type(told) is not int or told != number:
            raise Broken
        if found.get("op_prev") != (before.hex() if number else None):
            raise Broken

    def take_note(self, lines: list[bytes]) -> None:
        while line := self.lines.next():
            lines.append(line)
            if not line.startswith("\N{EM DASH} ".encode()):
                raise Broken
        if lines[3] or not all(lines[:3]) or len(lines) > 104:
            raise Broken
        note = b"".join(line + b"\n" for line in lines)
        if self.note is None:
            self.note = note
            self.judge_note(note)
        elif self.note != note:
            self.exits.add(TAMPERED)

    def judge_note(self, note: bytes) -> None:
        match = NOTE.fullmatch(note)
        if match is None or int(match[2]) >= 1 << 63 or base64.b64encode(base64.b64decode(match[3])) != match[3]:
            self.exits.add(TAMPERED)
            return
        self.tree = int(match[2]), base64.b64decode(match[3])
        try:
            read_note(note, self.policy.keys, self.policy.sizes)
        except Broken:
            self.exits.add(TAMPERED)
            return
        except LookupError:
            self.exits.add(NOT_PROVEN)
            return
        if not self.policy.met(cosigners(note, self.policy, self.now_s)):
            self.exits.add(NOT_PROVEN)


def cosigners(note: bytes, policy: Policy, now_s: int) -> set[str]:
    """Names of the witnesses whose cosignatures fit (section 10)."""
    text, _, lines = note.rpartition(b"\n\n")
    found = set()
    for line in lines.decode(errors="replace").splitlines():
        name, raw = signature_of(line)
        for own, (shown, public) in policy.witnesses.items():
            if name != shown or raw[:4] != sha(name.encode() + b"\n\x04" + public)[:4] or len(raw) != 76:
                continue
            time_s = int.from_bytes(raw[4:12], "big")
            message = f"cosignature/v1\ntime {time_s}\n".encode() + text + b"\n"
            if time_s <= now_s + 300 and signed(public, raw[12:], message):
                found.add(own)
    return found


def oracle_disclosure(text: bytes, policy: str, now_s: int) -> int:
    """The exit code that FORMAT.md asks for."""
    return DisclosureOracle(text, policy, now_s).run()
