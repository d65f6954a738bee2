"""Operations, records and a sealer to fill a store with; the sealer chains like the real one but encrypts nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from typing import Any

import orjson

from gateway.core.ids import format_id
from gateway.model.operation import Executed, Operation, State
from gateway.store.cipher import DataKeyCipher
from gateway.store.port import Admission, Change, PayloadKind, Record

START_MS = 1_790_000_000_000
ORIGIN = "gw.example/audit/test"
_numbers = count(1)


def new_id(at_ms: int = START_MS) -> str:
    """Rises like a UUIDv7."""
    return format_id(at_ms.to_bytes(6, "big") + next(_numbers).to_bytes(10, "big"))


def cipher() -> DataKeyCipher:
    nonces = count(1)
    return DataKeyCipher(b"k" * 32, lambda size: next(nonces).to_bytes(size, "big"))


def operation(**changes: Any) -> Operation:
    at = changes.get("created_ms", START_MS)
    made = {
        "id": new_id(at),
        "caller": "agent-a",
        "owner": "ann",
        "action": "deployments.create",
        "definition": "sha256:" + "d" * 64,
        "effect": "irreversible",
        "created_ms": at,
        "start_by_ms": at + 60_000,
        "target_service": "deploy",
        "target_url": "https://deploy.example/v1/deployments",
        "request_sha256": "a" * 64,
    } | changes
    made.setdefault("fingerprint", sha256(made["id"].encode()).hexdigest())
    return Operation(**made)


def record(of: Operation | None, event: str = "event", **body: Any) -> Record:
    return Record(event, {"action": "deployments.create", **body}, None if of is None else of.id)


def admission(of: Operation, *, is_read: bool = False, window_ms: int = 600_000, **more: Any) -> Admission:
    return Admission(
        operation=of,
        records=more.pop("records", (record(of, "admitted"),)),
        payloads=more.pop("payloads", {PayloadKind.ARGUMENTS: b"{}", PayloadKind.REQUEST: b"POST"}),
        definition=b'{"name":"deployments.create"}',
        repeat_window_ms=window_ms,
        is_read=is_read,
        **more,
    )


def change(of: Operation, event: str = "changed", **changes: Any) -> Change:
    extras = {name: changes.pop(name) for name in ("payloads", "seal_now", "records") if name in changes}
    image = replace(of, version=of.version + 1, **changes)
    return Change(image, of.version, extras.pop("records", (record(image, event),)), **extras)


def ended(of: Operation, *, at_ms: int = START_MS + 1000, executed: Executed = Executed.YES, **more: Any) -> Change:
    state = State.SUCCEEDED if executed is Executed.YES else State.FAILED
    return change(of, "ended", state=state, executed=executed, final_ms=at_ms, **more)


@dataclass(frozen=True, slots=True)
class PlainFrame:
    seq: int
    leaf: bytes
    segment: int
    data: bytes
    kind: str
    t_ms: int


@dataclass(frozen=True, slots=True)
class PlainHead:
    origin: str = ORIGIN
    size: int = 0
    leaf: bytes = bytes(32)

    def to_bytes(self) -> bytes:
        return orjson.dumps({"origin": self.origin, "size": self.size, "leaf": self.leaf.hex()})

    @classmethod
    def from_bytes(cls, data: bytes) -> "PlainHead":
        made = orjson.loads(data)
        return cls(made["origin"], made["size"], bytes.fromhex(made["leaf"]))


@dataclass(slots=True)
class PlainSealer:
    """Frames are JSON lines with the chain in them, so that tests can read what was sealed."""

    head: PlainHead = field(default_factory=PlainHead)
    segment: int = 0
    unsealed: int = 0
    calls: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return self.head.origin

    def start(self, t_ms: int) -> Sequence[PlainFrame]:
        self.segment = self.head.size
        return [self._frame("open", b"null", t_ms)]

    def record(self, plaintext: bytes, t_ms: int) -> Sequence[PlainFrame]:
        return [self._frame("data", plaintext, t_ms)]

    def erase_subject(self, tag: bytes, by: str, t_ms: int) -> Sequence[PlainFrame]:
        return [self._frame("erasure", orjson.dumps({"tag": tag.hex(), "by": by}), t_ms)]

    def seal(self, t_ms: int) -> Sequence[PlainFrame]:
        if not self.unsealed:
            return []
        frame = self._frame("seal", b"null", t_ms)
        self.unsealed = 0
        return [frame]

    def heartbeat(self, t_ms: int) -> Sequence[PlainFrame]:
        return [self._frame("heartbeat", b"null", t_ms), *self.seal(t_ms)]

    def close(self, t_ms: int) -> Sequence[PlainFrame]:
        return [self._frame("close", b"null", t_ms), *self.seal(t_ms)]

    def _frame(self, kind: str, body: bytes, t_ms: int) -> PlainFrame:
        self.calls.append(kind)
        seq = self.head.size
        data = b'{"kind":"%b","seq":%d,"prev":"%b","body":%b}' % (
            kind.encode(),
            seq,
            self.head.leaf.hex().encode(),
            body,
        )
        leaf = sha256(data).digest()
        self.head = PlainHead(self.head.origin, seq + 1, leaf)
        self.unsealed += 1
        return PlainFrame(seq, leaf, self.segment, data, kind, t_ms)


def check_tail(frames: Sequence[Any], head: bytes | None) -> list[dict[str, Any]]:
    """Assert that the frames chain without a gap up to the head, and each operation's own records as well."""
    assert head is not None
    prev, seq = None, None
    numbers: dict[str, tuple[int, str | None]] = {}
    bodies = []
    for item in frames:
        made = orjson.loads(item.frame)
        assert made["seq"] == item.seq
        assert seq is None or item.seq == seq + 1
        assert prev is None or made["prev"] == prev
        prev, seq = sha256(item.frame).hexdigest(), item.seq
        if made["kind"] != "data":
            continue
        body = made["body"]
        bodies.append(body)
        if "op" in body:
            op_n, op_prev = numbers.get(body["op"], (0, None))
            assert (body["op_n"], body["op_prev"]) == (op_n, op_prev)
            numbers[body["op"]] = (op_n + 1, prev)
    last = PlainHead.from_bytes(head)
    assert (last.size, last.leaf.hex()) == ((seq or 0) + 1, prev)
    return bodies


async def attach(store: Any, sealer: PlainSealer | None = None) -> PlainSealer:
    """Start-up as the gateway does it: head, sealer, first frames."""
    if sealer is None:
        head = await store.head()
        sealer = PlainSealer(PlainHead() if head is None else PlainHead.from_bytes(head))
    await store.attach(sealer, sealer.start(START_MS))
    return sealer
