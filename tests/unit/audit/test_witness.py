"""Witnesses: what they refuse, and what their word is worth to a verifier."""

from __future__ import annotations

import base64
import errno

import pytest

from audit.chain import CompactRange
from audit.checkpoint import CHECKPOINT, Checkpoint, Publisher
from audit.cosign import Cosigner, CosignerKey, cosigned_at, signature_lines
from audit.disk import LogError, LogLocked
from audit.keyring import KeyProblem
from audit.memory import MemoryDirectory
from audit.note import BadNote, NoteSigner
from audit.report import Exit
from audit.trust import BadPolicy, TrustPolicy
from audit.verify import VerifyOptions, verify
from audit.witness import SIZE_TYPE, request_of
from tests.unit.audit.logs import ORIGIN, START_MS, Journal, entries_of, entropy, sign_checkpoint
from tests.unit.audit.witnesses import NOW_S, Log, cosigner, policy_of, published, witness_of

# The example of c2sp.org/tlog-cosignature: its key is not published, so only its form can be compared.
EXAMPLE_LINE = (
    "\N{EM DASH} witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZ"
    "qhf5nNo0xUe+mbIUBkBIfZ+qnA=="
)


def test_a_cosignature_has_the_form_of_the_specification() -> None:
    text = Checkpoint(ORIGIN, 3, bytes(32)).to_text()
    line = cosigner().cosign(text, NOW_S)
    assert line.endswith("\n")
    assert cosigned_at(line[:-1], text, cosigner().key) == NOW_S
    assert cosigned_at(line[:-1], text + "x\n", cosigner().key) is None
    assert cosigned_at(line[:-1], text, cosigner("other").key) is None
    raw = base64.b64decode(EXAMPLE_LINE.split()[2])
    assert (len(raw), int.from_bytes(raw[4:12], "big")) == (76, 1679315147)
    late = cosigner().cosign(text, (1 << 63) - 1)
    assert cosigned_at(late[:-1], text, cosigner().key) == (1 << 63) - 1
    with pytest.raises(BadNote):
        cosigned_at("no signature", text, cosigner().key)
    with pytest.raises(BadNote):
        list(signature_lines(text))


def test_witness_keys_survive_their_lines() -> None:
    assert Cosigner.parse(cosigner().to_line()) == cosigner()
    assert CosignerKey.parse(str(cosigner().key)) == cosigner().key
    assert cosigner().private.hex() not in repr(cosigner())
    log_key = NoteSigner.generate("x", entropy("x"))
    for bad in ("", "x", str(log_key.key), str(cosigner().key)[:-4], str(cosigner().key).replace("w1", "w2")):
        with pytest.raises(KeyProblem):
            CosignerKey.parse(bad)
    for bad in ("", str(cosigner().key), log_key.to_line(), cosigner().to_line().replace("w1", "w2")):
        with pytest.raises(KeyProblem):
            Cosigner.parse(bad)


def test_a_witness_follows_a_log_that_grows() -> None:
    log = Log()
    witness = witness_of(log)
    for old, size in ((0, 3), (3, 3), (3, 8), (8, 40)):
        answer = witness.add(log.request(old, size), NOW_S)
        assert answer.status == 200, answer.body
        text = Checkpoint(ORIGIN, size, log.tree.root(size)).to_text()
        assert cosigned_at(answer.body[:-1], text, cosigner().key) == NOW_S
    latest = witness.latest(ORIGIN)
    assert latest is not None
    assert latest.size == 40


def test_what_a_witness_refuses() -> None:
    log, other = Log(), Log("another tree")
    witness = witness_of(log)
    assert witness.add(log.request(0, 8), NOW_S).status == 200
    stranger = NoteSigner.generate(ORIGIN, entropy("stranger"))
    unknown = NoteSigner.generate("gw.example/else", entropy("else"))
    good = log.request(8, 12)
    foreign = request_of(8, [], sign_checkpoint(stranger, 12, log.tree.root(12)).decode())
    elsewhere = request_of(0, [], sign_checkpoint(unknown, 1, bytes(32), "gw.example/else").decode())
    cases = [
        (elsewhere, 404),
        (foreign, 403),
        (good.replace(b"\n12\n", b"\n13\n"), 403),
        (log.request(0, 12), 409),
        (log.request(7, 12), 409),
        (request_of(8, [], log.note(5)), 400),
        (other.request(8, 12), 422),
        (request_of(8, log.tree.consistency(8, 12)[:-1], log.note(12)), 422),
        (request_of(8, [*log.tree.consistency(8, 12), bytes(32)], log.note(12)), 422),
        (other.request(8, 8), 409),
        (b"", 400),
        (b"old 8\n", 400),
        (good.replace(b"old 8", b"old 08"), 400),
        (good.replace(b"old 8", b"old -8"), 400),
        (good.replace(b"old 8", b"older 8"), 400),
        (good.replace(b"old 8\n", b"old 8\nnot base64\n"), 400),
        (request_of(8, [bytes(32)] * 64, log.note(12)), 400),
        (good[:-1], 400),
        (good.replace(b"\n", b"\r\n"), 400),
        (b"old 8\n\n\xff\xff", 404),
    ]
    for request, status in cases:
        answer = witness.add(request, NOW_S)
        assert answer.status == status, (request, answer)
        if status == 409:
            assert (answer.body, answer.content_type) == ("8\n", SIZE_TYPE)
    assert witness.add(good, NOW_S).status == 200


def test_an_empty_old_tree_takes_no_proof() -> None:
    log = Log()
    assert witness_of(log).add(request_of(0, [bytes(32)], log.note(8)), NOW_S).status == 422


def test_what_was_cosigned_is_stored_before_it_is_given_out() -> None:
    log, directory = Log(), MemoryDirectory()
    witness = witness_of(log, directory)

    def full(operation: str, _name: str, _length: int) -> None:
        if operation == "sync":
            raise OSError(errno.ENOSPC, "No space left on device")

    directory.hook = full
    with pytest.raises(OSError, match="space"):
        witness.add(log.request(0, 8), NOW_S)
    directory.hook = None
    assert witness.add(log.request(0, 12), NOW_S).status == 200
    # The power goes right after the answer: the next process must still know.
    again = witness_of(log, directory.after_power_loss(lambda _: 0))
    assert again.add(log.request(0, 8), NOW_S).body == "12\n"


def test_one_witness_at_a_time_uses_a_folder_and_a_damaged_record_stops_it() -> None:
    log, directory = Log(), MemoryDirectory()
    witness = witness_of(log, directory)
    with pytest.raises(LogLocked):
        witness_of(log, directory)
    assert witness.add(log.request(0, 8), NOW_S).status == 200
    (name,) = directory.files()
    for record in (b"damaged", b"\xff", b""):
        directory.put(name, record)
        with pytest.raises(LogError, match="damaged"):
            witness.add(log.request(8, 12), NOW_S)
    witness.close()
    witness_of(log, directory)


@pytest.mark.parametrize(
    ("lines", "exit_code"),
    [
        ("w1 w2", Exit.OK),
        ("", Exit.NOT_PROVEN),
        ("w1", Exit.NOT_PROVEN),
        ("w1 w1", Exit.NOT_PROVEN),
        ("w1 w2:future", Exit.NOT_PROVEN),
        ("w1 w2:origin", Exit.NOT_PROVEN),
        ("w1 w2:soon", Exit.OK),
        ("w1 w3", Exit.NOT_PROVEN),
        ("w1 w2:renamed", Exit.NOT_PROVEN),
    ],
)
def test_25_only_a_quorum_of_different_witnesses_anchors_a_log(lines: str, exit_code: Exit) -> None:
    journal = Journal()
    publisher, note = published(journal)
    text = note.partition("\n\n")[0] + "\n"
    journal.now_ms = START_MS
    made = ""
    for item in lines.split():
        name, _, fault = item.partition(":")
        time_s = NOW_S + {"future": 100_000, "soon": 60}.get(fault, 0)
        body = text.replace("test-1", "test-2") if fault == "origin" else text
        signer = Cosigner("witness.example/w3", cosigner(name).private) if fault == "renamed" else cosigner(name)
        made += signer.cosign(body, time_s)
    publisher.add_signatures(made)
    report = journal.verify(anchored=False, policy=policy_of(journal))
    assert report.exit is exit_code, report.to_lines()
    assert journal.verify(anchored=False).exit is Exit.NOT_PROVEN


def test_an_anchor_without_the_witnesses_asked_for_still_shows_a_rollback() -> None:
    journal = Journal()
    published(journal)
    journal.anchor.put(CHECKPOINT, journal.directory.files()[CHECKPOINT])
    policy = policy_of(journal)
    assert journal.verify(policy=policy).exit is Exit.NOT_PROVEN
    journal.anchor.put(CHECKPOINT, sign_checkpoint(journal.signer, 999, bytes(32)))
    assert journal.verify(policy=policy).exit is Exit.TAMPERED


def test_policies_with_witnesses_are_read_and_bad_ones_refused() -> None:
    journal = Journal()
    policy = policy_of(journal)
    assert TrustPolicy.parse(policy.to_text()) == policy
    base = f"log {journal.signer.key}\nwitness a {cosigner('a').key}\nwitness b {cosigner('b').key}\n"
    for good in ("quorum a", "quorum none", "group g any a b\nquorum g", "group g 2 a b\ngroup h all g\nquorum h"):
        TrustPolicy.parse(base + good)
    nested = TrustPolicy.parse(base + f"witness c {cosigner('c').key}\ngroup g any a b\ngroup h all g c\nquorum h")
    assert [nested.met_by(found) for found in ({"a", "c"}, {"b", "c"}, {"a", "b"}, {"c"}, set[str]())] == [
        True, True, False, False, False,
    ]  # fmt: skip
    for bad in (
        "",
        "quorum c",
        "quorum",
        "quorum a\nquorum a",
        "quorum g\ngroup g any a",
        "group g any\nquorum a",
        "group g 0 a\nquorum g",
        "group g 3 a b\nquorum g",
        "group g any a a\nquorum g",
        "group g any a\ngroup h any a b\nquorum h",
        "group g any c\nquorum g",
        "group g some a\nquorum g",
        "group none any a\nquorum a",
        "group a any b\nquorum a",
        f"witness a {cosigner('d').key}\nquorum a",
        f"witness d {cosigner('a').key}\nquorum a",
        f"witness none {cosigner('d').key}\nquorum a",
        "witness d\nquorum a",
        "mirror x\nquorum a",
    ):
        with pytest.raises(BadPolicy):
            TrustPolicy.parse(base + bad)


def test_a_sink_gets_each_checkpoint_once_and_its_failure_is_named() -> None:
    journal = Journal()
    printed: list[str] = []

    def broken(_note: str) -> None:
        raise OSError(errno.EPIPE, "Broken pipe")

    publisher = Publisher(journal.directory, journal.signer, [journal.anchor], [printed.append, broken])
    journal.export()
    found = publisher.publish()
    assert found is not None
    assert found.failed == ((2, "Broken pipe"),)
    assert publisher.publish() is None
    assert printed == [found.note]
    tree = CompactRange()
    tree.extend([entry.leaf for entry in entries_of(journal.directory)])
    assert found.checkpoint.root == tree.root()
    publisher.add_signatures("")
    with pytest.raises(BadNote):
        publisher.add_signatures("no signature\n")


def test_options_of_a_verifier_do_not_replace_witnesses() -> None:
    journal = Journal()
    published(journal)
    options = VerifyOptions(accept_unanchored=True)
    report = verify(journal.directory, policy=policy_of(journal), now_ms=journal.now_ms, options=options)
    assert report.exit is Exit.OK
    assert any("cosignatures" in note for note in report.notes)
