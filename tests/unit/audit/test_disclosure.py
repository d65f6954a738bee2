"""One operation can be shown to a stranger, whole and alone; whatever is changed about it shows."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from audit.chain import leaf_hash
from audit.checkpoint import Checkpoint
from audit.cosign import Cosigner
from audit.discloser import newest_signed
from audit.disclosure import DisclosedRecord
from audit.keyring import Ratchet, commit_to, open_record, open_secret
from audit.log import read_open, segments
from audit.record import ENTRY_HEADER, HEADER_BYTES, Header, Kind, pad
from audit.report import Exit
from audit.tlog_proof import MAGIC, BadForm, TlogProof, decimal, decode, read_proof
from audit.trust import Group, TrustPolicy, Witness
from tests.unit.audit.logs import entries_of, entropy
from tests.unit.audit.operations import Diary, checked, disclosed, interleaved, text_of, verdicts
from tests.unit.audit.oracle import oracle_disclosure

Records = list[DisclosedRecord]


def test_stranger_accepts_a_whole_operation() -> None:
    diary = interleaved()
    text = text_of("op-b", disclosed(diary, "op-b"))
    assert verdicts(diary, text) == Exit.OK
    report = checked(text, diary.policy, diary.now_ms)
    assert [record.document["secret"] for record in report.records] == [
        "beta-0",
        "beta-1",
        "beta-2",
        "beta-3",
        "beta-end",
    ]
    assert report.sentence().startswith("these are all records of op-b up to its end")
    told = report.to_json()
    assert (told["verdict"]["word"], told["checked"], told["later"]) == ("OK", 5, 0)
    json.dumps(told)
    assert report.to_lines()[-1].startswith("OK ")


def test_other_records_stay_closed() -> None:
    """No neighbour's key stands in the file, and none can be computed from the keys that do."""
    diary = interleaved()
    records = disclosed(diary, "op-b")
    text = text_of("op-b", records)
    for other in (b"alpha", b"gamma", b"op-a", b"op-c"):
        assert other not in text
    given = {record.proof.index: record.proof.extra for record in records}
    keys: dict[int, bytes] = {}
    for first in segments(diary.directory):
        ratchet = Ratchet.from_secret(open_secret(diary.auditor, read_open(diary.directory, first), first))
        following = [seq for seq in segments(diary.directory) if seq > first]
        for entry in entries_of(diary.directory):
            if entry.header.kind == Kind.DATA and first <= entry.header.seq < (following or [1 << 62])[0]:
                keys[entry.header.seq], ratchet = ratchet.peek()
    raw = b"".join(decode(line.rpartition(" ")[2]) for line in text.decode().split("\n") if _is_base64(line))
    for seq, key in keys.items():
        assert (key in raw) == (seq in given)
    # A key is one half of a step, the other half leads on. Taken for that other half, a key leads nowhere.
    derived = {derive for key in given.values() for derive in _reachable(key)}
    assert not derived & {key for seq, key in keys.items() if seq not in given}


def _is_base64(line: str) -> bool:
    try:
        return len(decode(line.rpartition(" ")[2])) > 0
    except BadForm:
        return False


def _reachable(key: bytes) -> set[bytes]:
    found, ratchet = {key}, Ratchet(key)
    for _ in range(40):
        record_key, ratchet = ratchet.peek()
        found |= {record_key, ratchet._chain}
    return found


def test_the_proofs_are_tlog_proofs_by_themselves() -> None:
    diary = interleaved()
    text = text_of("op-b", disclosed(diary, "op-b")).decode()
    pieces = text.split(f"\n{MAGIC}\n")[1:]
    assert len(pieces) == 5
    for piece in pieces:
        lines = iter(f"{MAGIC}\n{piece}".split("\n"))
        proof = read_proof(lines.__next__)
        assert f"{MAGIC}\n{piece}".startswith(proof.to_text())


# What a liar with the auditor's key may do to the records before he writes the file.


def second_key(records: Records) -> Records:
    """Case 34: a key that opens the ciphertext to other text, or here to anything at all."""
    other = bytes(32)
    return [*records[:2], replace(records[2], proof=replace(records[2].proof, extra=other)), *records[3:]]


def second_key_and_commitment(records: Records) -> Records:
    """The same with header and ciphertext made to fit: then the entry is not the one in the log."""
    header = Header(*ENTRY_HEADER.unpack_from(records[2].entry))
    key = bytes(32)
    header = header._replace(commit=commit_to(key))
    old = json.loads(_plain(records[2]))
    plaintext = json.dumps({**old, "secret": "changed"}).encode()
    body = AESGCM(key).encrypt(header.nonce, pad(plaintext), header.to_bytes())
    proof = replace(records[2].proof, extra=key)
    return [*records[:2], DisclosedRecord(header.to_bytes() + body, proof), *records[3:]]


def _plain(record: DisclosedRecord) -> bytes:
    header = Header(*ENTRY_HEADER.unpack_from(record.entry))
    return open_record(record.proof.extra, header, record.entry[HEADER_BYTES:])


def left_out(number: int) -> Callable[[Records], Records]:
    return lambda records: [*records[:number], *records[number + 1 :]]


def swapped(records: Records) -> Records:
    return [records[0], records[2], records[1], *records[3:]]


def doubled(records: Records) -> Records:
    return [*records[:2], records[1], *records[2:]]


def proofs_swapped(records: Records) -> Records:
    first, second = replace(records[0], proof=records[1].proof), replace(records[1], proof=records[0].proof)
    return [first, second, *records[2:]]


def other_index(records: Records) -> Records:
    return [replace(records[0], proof=replace(records[0].proof, index=0)), *records[1:]]


def hash_more(records: Records) -> Records:
    proof = records[0].proof
    return [replace(records[0], proof=replace(proof, hashes=(*proof.hashes, bytes(32)))), *records[1:]]


def hash_less(records: Records) -> Records:
    proof = records[0].proof
    return [replace(records[0], proof=replace(proof, hashes=proof.hashes[:-1])), *records[1:]]


def body_changed(records: Records) -> Records:
    entry = records[1].entry
    return [records[0], replace(records[1], entry=entry[:-1] + bytes([entry[-1] ^ 1])), *records[2:]]


def newer(records: Records) -> Records:
    return [replace(record, entry=b"\x02" + record.entry[1:]) for record in records]


LIES: list[tuple[str, Callable[[Records], Records], Exit]] = [
    ("34 second key", second_key, Exit.TAMPERED),
    ("34 second key with its own commitment", second_key_and_commitment, Exit.TAMPERED),
    ("35 first record left out", left_out(0), Exit.TAMPERED),
    ("35 middle record left out", left_out(2), Exit.TAMPERED),
    ("last record left out", left_out(4), Exit.INCOMPLETE),
    ("records swapped", swapped, Exit.TAMPERED),
    ("record twice", doubled, Exit.TAMPERED),
    ("proofs swapped", proofs_swapped, Exit.TAMPERED),
    ("another index", other_index, Exit.TAMPERED),
    ("proof too long", hash_more, Exit.TAMPERED),
    ("proof too short", hash_less, Exit.TAMPERED),
    ("ciphertext changed", body_changed, Exit.TAMPERED),
    ("newer entry", newer, Exit.TAMPERED),
]


@pytest.mark.parametrize(("lie", "code"), [case[1:] for case in LIES], ids=[case[0] for case in LIES])
def test_lie_about_an_operation_is_found(lie: Callable[[Records], Records], code: Exit) -> None:
    diary = interleaved()
    text = text_of("op-b", lie(disclosed(diary, "op-b")))
    assert verdicts(diary, text) == code
    if code is Exit.TAMPERED:
        assert checked(text, diary.policy, diary.now_ms).to_json()["records"] == []


def test_left_out_record_is_named_as_a_gap_and_a_second_key_as_a_commitment() -> None:
    diary = interleaved()
    records = disclosed(diary, "op-b")
    gap = checked(text_of("op-b", left_out(2)(records)), diary.policy, diary.now_ms)
    assert gap.findings[0].code == "gap"
    key = checked(text_of("op-b", second_key(records)), diary.policy, diary.now_ms)
    assert "the one committed to" in key.findings[0].message


def test_records_of_another_operation_cannot_stand_in() -> None:
    diary = interleaved()
    assert verdicts(diary, text_of("op-b", disclosed(diary, "op-a"))) == Exit.TAMPERED


def test_every_changed_byte_of_a_small_disclosure_is_noticed() -> None:
    """Also in the cosignature of a witness that the policy does not know."""
    diary = Diary()
    diary.step("o", final=True)
    diary.seal()
    diary.export()
    diary.witnessed(Cosigner.generate("stranger", entropy("stranger")))
    text = text_of("o", disclosed(diary, "o"))
    assert b"stranger" in text
    assert checked(text, diary.policy, diary.now_ms).exit is Exit.OK
    for offset, byte in enumerate(text):
        for mask in (1, 1 << (offset % 7 + 1), 0xFF):
            changed = text[:offset] + bytes([byte ^ mask]) + text[offset + 1 :]
            assert checked(changed, diary.policy, diary.now_ms).exit != Exit.OK, (offset, mask)
    for offset in range(0, len(text), 7):
        changed = text[:offset] + b"\xff" + text[offset + 1 :]
        verdicts_differ = oracle_disclosure(changed, diary.policy.to_text(), diary.now_ms // 1000)
        assert verdicts_differ != Exit.OK


def test_every_cut_of_a_disclosure_is_incomplete_or_worse() -> None:
    diary = interleaved()
    text = text_of("op-b", disclosed(diary, "op-b"))
    for end in range(0, len(text), 37):
        assert verdicts(diary, text[:end]) in {Exit.TAMPERED, Exit.INCOMPLETE, Exit.UNREADABLE}
    assert verdicts(diary, text[:2000]) == Exit.INCOMPLETE
    assert verdicts(diary, text + b"x") == Exit.TAMPERED
    assert verdicts(diary, text + b"\n") == Exit.TAMPERED


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", Exit.UNREADABLE),
        (b"something else\n", Exit.UNREADABLE),
        (b"agl1-disclosure@v2\n", Exit.UNREADABLE),
        (b"agl1-disclosure@v1\n", Exit.INCOMPLETE),
        (b"agl1-disclosure@v1\nop b\n", Exit.TAMPERED),
        (b'agl1-disclosure@v1\nop "\\u0062"\n', Exit.TAMPERED),
        (b'agl1-disclosure@v1\nop "b"\nrecords 0\n\n', Exit.TAMPERED),
        (b'agl1-disclosure@v1\nop "b"\nrecords 01\n\n', Exit.TAMPERED),
        (b'agl1-disclosure@v1\nop "b"\nrecords 9999999\n\n', Exit.TAMPERED),
        (b'agl1-disclosure@v1\nop "b"\nrecords 1\nx\n', Exit.TAMPERED),
        (b'agl1-disclosure@v1\nop "b"\nrecords 1\n\n' + b"x" * 100_000 + b"\n", Exit.TAMPERED),
        (b'agl1-disclosure@v1\r\nop "b"\nrecords 1\n\n', Exit.UNREADABLE),
    ],
)
def test_other_files_are_refused_by_what_is_wrong_with_them(text: bytes, code: Exit) -> None:
    assert verdicts(interleaved(), text) == code


def test_disclosure_of_another_log_or_another_size_proves_nothing() -> None:
    diary, other = interleaved(), Diary(origin="gw.example/audit/other", seed="other")
    for number in range(3):
        other.step("op-b", n=number, final=number == 2)
    other.finish()
    foreign = disclosed(other, "op-b")
    # Another log's disclosure: whole in itself, but no pinned key signed for it.
    assert verdicts(diary, text_of("op-b", foreign)) == Exit.NOT_PROVEN
    # Its records under this log's checkpoint.
    note = disclosed(diary, "op-b")[0].proof.note
    moved = [replace(record, proof=replace(record.proof, note=note)) for record in foreign]
    assert verdicts(diary, text_of("op-b", moved)) == Exit.TAMPERED
    # Proofs that were made for a smaller tree than their checkpoint's.
    before = disclosed(diary, "op-b")
    diary.step("op-d", final=True)
    diary.finish()
    signed = newest_signed(diary.directory)
    assert signed is not None
    aged = [replace(record, proof=replace(record.proof, note=signed.note)) for record in before]
    assert verdicts(diary, text_of("op-b", aged)) == Exit.TAMPERED
    mixed = [aged[0], *before[1:]]
    assert verdicts(diary, text_of("op-b", mixed)) == Exit.TAMPERED
    assert verdicts(diary, text_of("op-b", before)) == Exit.OK


def test_trust_decides_between_proven_and_not() -> None:
    diary = interleaved()
    text = text_of("op-b", disclosed(diary, "op-b"))
    assert checked(text, None, diary.now_ms).exit is Exit.NOT_PROVEN
    stranger = Diary(seed="forger").policy
    assert verdicts(diary, text, stranger) == Exit.NOT_PROVEN
    # The pinned key's name and id with a signature that is not its own.
    line = next(line for line in text.decode().split("\n") if line.startswith("\N{EM DASH}"))
    raw = decode(line.split(" ")[2])
    forged = f"{line.rpartition(' ')[0]} {base64.b64encode(raw[:4] + bytes(64)).decode()}"
    records = [
        replace(item, proof=replace(item.proof, note=item.proof.note.replace(line, forged)))
        for item in disclosed(diary, "op-b")
    ]
    assert verdicts(diary, text_of("op-b", records)) == Exit.TAMPERED


def test_witnesses_of_the_policy_must_have_cosigned() -> None:
    diary = interleaved()
    one, two = Cosigner.generate("one", entropy("one")), Cosigner.generate("two", entropy("two"))
    witnesses = {"one": Witness(one.key), "two": Witness(two.key)}
    needs_one = TrustPolicy(diary.policy.logs, witnesses, {}, "one")
    needs_both = TrustPolicy(diary.policy.logs, witnesses, {"both": Group(2, ("one", "two"))}, "both")
    assert verdicts(diary, text_of("op-b", disclosed(diary, "op-b")), needs_one) == Exit.NOT_PROVEN
    assert newest_signed(diary.directory, policy=needs_one, now_s=diary.now_ms // 1000) is None
    diary.step("op-d", final=True)
    diary.seal()
    diary.export()
    diary.witnessed(one)
    diary.step("op-e", final=True)
    diary.finish()
    # The newest checkpoint has no cosignature: with the policy an older one that has is taken.
    text = text_of("op-b", disclosed(diary, "op-b", policy=needs_one))
    assert verdicts(diary, text, needs_one) == Exit.OK
    assert checked(text, needs_one, diary.now_ms).witnesses == ["one"]
    assert verdicts(diary, text, needs_both) == Exit.NOT_PROVEN
    assert verdicts(diary, text_of("op-b", disclosed(diary, "op-b")), needs_one) == Exit.NOT_PROVEN
    early = diary.now_ms - 3_600_000
    assert checked(text, needs_one, early).exit is Exit.NOT_PROVEN
    assert oracle_disclosure(text, needs_one.to_text(), early // 1000) == Exit.NOT_PROVEN


def test_proofs_must_carry_the_same_checkpoint_to_the_byte() -> None:
    """Also where only a signature by someone unknown differs: a reader must not have to choose."""
    diary = interleaved()
    records = disclosed(diary, "op-b")
    note = records[1].proof.note
    more = note + Cosigner.generate("unknown", entropy("unknown")).cosign(note.rpartition("\n\n")[0] + "\n", 1)
    records[1] = replace(records[1], proof=replace(records[1].proof, note=more))
    assert verdicts(diary, text_of("op-b", records)) == Exit.TAMPERED


def test_entry_that_says_another_seq_than_its_place_is_refused_although_signed_for() -> None:
    """Only whoever holds the log key could make such a log; still nothing in it may count."""
    diary = Diary()
    key, nonce = bytes(32), bytes(12)
    for seq, code in ((0, Exit.OK), (7, Exit.TAMPERED)):
        header = Header(1, Kind.DATA, 0, seq, 0, nonce, commit_to(key), bytes(32))
        body = AESGCM(key).encrypt(nonce, pad(b'{"op":"o","op_n":0,"op_final":true}'), header.to_bytes())
        entry = header.to_bytes() + body
        note = diary.signer.sign(Checkpoint(diary.origin, 1, leaf_hash(entry)).to_text())
        record = DisclosedRecord(entry, TlogProof(0, (), note, key))
        assert verdicts(diary, text_of("o", [record])) == code


@pytest.mark.parametrize("value", ["", "01", "-1", "+1", " 1", "1e3", "١", "9" * 19, "9" * 20])
def test_numbers_have_one_form(value: str) -> None:
    with pytest.raises(BadForm):
        decimal(value)


def test_every_second_record_of_a_pair_follows_the_first() -> None:
    diary = interleaved()
    report = checked(text_of("op-b", disclosed(diary, "op-b")), diary.policy, diary.now_ms)
    for before, after in pairwise(report.records):
        assert after.document["op_prev"] == before.leaf.hex()
