"""The commands that disclose, check, export, make policies, change keys and hand secrets on, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit import arguments, cli_disclosure, cli_keys, cli_trust, machine
from audit.checkpoint import CHECKPOINT
from audit.cli import app
from audit.disk import DiskDirectory, log_folder
from audit.keyfiles import read_log_key, read_recipient_key, write_key
from audit.keyring import Recipient, RecipientKey, Role
from audit.log import segment_name
from audit.report import Exit
from audit.subjects import PersonalKey
from audit.trust import TrustPolicy
from tests.unit.audit.logs import ORIGIN, entropy
from tests.unit.audit.operations import Diary, interleaved

cli = CliRunner()


def run(*words: object) -> tuple[int, str, str]:
    result = cli.invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


class Desk:
    """A log on disk with its keys in files, as someone has it who runs a log without a gateway."""

    def __init__(self, root: Path, diary: Diary) -> None:
        self.root, self.diary = root, diary
        self.log = log_folder(root / "audit", ORIGIN)
        self.anchor = root / "anchor"
        for folder, files in ((self.log, diary.directory.files()), (self.anchor, diary.anchor.files())):
            for name, data in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        self.trust = root / "trust.policy"
        self.trust.write_text(diary.policy.to_text())
        self.key, self.log_key, self.seal_key = root / "auditor.key", root / "log.key", root / "seal.key"
        write_key(self.key, diary.auditor.to_line())
        write_key(self.log_key, diary.signer.to_line())
        write_key(self.seal_key, diary.seal_key.to_line())

    def verify(self, trust: Path | None = None, *more: object) -> int:
        return run("verify", self.log, "--trust", trust or self.trust, "--anchor", self.anchor, *AGE, *more)[0]


AGE = ("--max-anchor-age", "99999d")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    diary = interleaved()
    diary.close()
    diary.export()
    diary.publish()
    return Desk(tmp_path, diary)


def test_operation_is_disclosed_to_a_file_and_checked_by_a_stranger(desk: Desk, tmp_path: Path) -> None:
    out = tmp_path / "op-b.disclosure"
    code, told, _ = run("disclose", desk.log, "--op", "op-b", "--key", desk.key, "--out", out, "--json")
    assert code == 0
    facts = json.loads(told)
    assert (facts["op"], facts["records"], facts["origin"], len(facts["seqs"])) == ("op-b", 5, ORIGIN, 5)
    assert out.stat().st_mode & 0o777 == 0o600
    code, shown, _ = run("check-disclosure", out, "--trust", desk.trust)
    assert (code, shown.splitlines()[-1][:3]) == (0, "OK ")
    code, shown, _ = run("check-disclosure", out, "--trust", desk.trust, "--json")
    assert json.loads(shown)["verdict"] == {
        "exit": 0,
        "word": "OK",
        "sentence": "these are all records of op-b up to its end, in the log that was signed for by the pinned key"
        " of the log; no witness",
    }
    assert run("check-disclosure", out)[0] == Exit.NOT_PROVEN
    before = out.read_bytes()
    assert run("disclose", desk.log, "--op", "op-a", "--key", desk.key, "--out", out)[0] == Exit.USAGE
    assert out.read_bytes() == before
    code, printed, _ = run("disclose", desk.log, "--op", "op-b", "--key", desk.key, "--trust", desk.trust)
    assert (code, printed.encode()) == (0, before)
    out.write_bytes(before[:-9])
    assert run("check-disclosure", out, "--trust", desk.trust)[0] == Exit.INCOMPLETE
    assert run("check-disclosure", tmp_path / "absent", "--trust", desk.trust)[0] == Exit.UNREADABLE
    assert run("check-disclosure", out, "--trust", tmp_path / "absent")[0] == Exit.USAGE


def test_what_cannot_be_disclosed_ends_in_a_sentence_and_leaves_no_file(desk: Desk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stranger = tmp_path / "stranger.key"
    write_key(stranger, RecipientKey.generate(Role.AUDITOR, "stranger", entropy("stranger")).to_line())
    for op, key, word in (
        ("nowhere", desk.key, "no record of operation nowhere"),
        ("op-c", desk.key, "not final yet"),
        ("op-b", stranger, "this key opens no segment"),
    ):
        code, _, said = run("disclose", desk.log, "--op", op, "--key", key, "--out", out)
        assert (code, word in said) == (Exit.NOT_PROVEN, True), said
    other = tmp_path / "other.policy"
    other.write_text(Diary(seed="other").policy.to_text())
    code, _, said = run("disclose", desk.log, "--op", "op-b", "--key", desk.key, "--trust", other)
    assert (code, "no checkpoint that the trust policy accepts" in said) == (Exit.NOT_PROVEN, True)
    assert run("disclose", desk.log, "--op", "op-b", "--key", desk.key, "--json")[0] == Exit.USAGE
    assert run("disclose", tmp_path / "absent", "--op", "op-b", "--key", desk.key)[0] == Exit.UNREADABLE
    (desk.log / CHECKPOINT).unlink()
    (desk.log / "checkpoints.log").unlink()
    code, _, said = run("disclose", desk.log, "--op", "op-b", "--key", desk.key, "--out", out)
    assert (code, "no usable checkpoint" in said) == (Exit.NOT_PROVEN, True)
    assert not out.exists()
    # An anchor has kept a copy.
    assert run("disclose", desk.log, "--op", "op-b", "--key", desk.key, "--anchor", desk.anchor)[0] == 0
    (desk.log / segment_name(0)).write_bytes(b"x" * 500)
    assert run("disclose", desk.log, "--op", "op-b", "--key", desk.key, "--anchor", desk.anchor)[0] == Exit.TAMPERED


def test_export_marks_entries_and_exits_with_the_verdict(desk: Desk) -> None:
    code, out, _ = run(
        "export", desk.log, "--key", desk.key, "--trust", desk.trust, "--anchor", desk.anchor, *AGE, "--json"
    )
    entries = [json.loads(line) for line in out.splitlines()]
    assert (code, {entry["verified"] for entry in entries}) == (0, {"anchored"})
    assert len(entries) == desk.diary.sealer.head.size
    assert sum("record" in entry for entry in entries) == 14
    code, out, _ = run("export", desk.log)
    entries = [json.loads(line) for line in out.splitlines()]
    assert (code, {entry["verified"] for entry in entries}) == (Exit.NOT_PROVEN, {"unverified"})
    assert not any("record" in entry for entry in entries)
    code, out, said = run("export", desk.log, "--trust", desk.trust)
    assert (code, "no anchor" in said, "unverified" in out) == (Exit.NOT_PROVEN, True, True)
    code, out, _ = run("export", desk.log, "--trust", desk.trust, "--accept-unanchored")
    assert (code, {json.loads(line)["verified"] for line in out.splitlines()}) == (0, {"sealed"})
    assert run("export", desk.log, "--trust", desk.log / CHECKPOINT)[0] == Exit.USAGE
    first = desk.log / segment_name(0)
    first.write_bytes(first.read_bytes()[:-3] + b"abc")
    code, out, _ = run("export", desk.log, "--trust", desk.trust, "--anchor", desk.anchor, *AGE)
    assert code == Exit.TAMPERED
    assert {json.loads(line)["verified"] for line in out.splitlines()} <= {"unverified"}


def test_trust_is_made_and_shown(tmp_path: Path) -> None:
    log = run("keygen", "log", "--out", tmp_path / "log.key", "--origin", ORIGIN)[1].strip()
    (tmp_path / "w1.pub").write_text(run("keygen", "witness", "--out", tmp_path / "w1", "--name", "w1")[1])
    w2 = run("keygen", "witness", "--out", tmp_path / "w2", "--name", "w2")[1].strip()
    policy = tmp_path / "trust.policy"
    parts = ("--log", log, "--witness", tmp_path / "w1.pub", "--witness", w2)
    code, said, _ = run("trust", "make", *parts, "--quorum", "2", "--out", policy)
    assert (code, "all 2 of these cosigned it: w1, w2" in said) == (0, True)
    assert run("trust", "make", *parts, "--quorum", "2")[1] == policy.read_text()
    assert run("trust", "show", policy)[1] == said
    told = json.loads(run("trust", "show", policy, "--json")[1])
    assert (told["quorum"], len(told["witnesses"])) == ("witnesses", 2)
    assert json.loads(run("trust", "make", *parts, "--json")[1])["quorum"] is None
    for bad, word in (
        (("--quorum", "3"), "can never be met"),
        (("--quorum", "w3"), "line 4: no witness or group"),
        (("--quorum", "2", "--out", policy), "File exists"),
    ):
        code, _, problem = run("trust", "make", *parts, *bad)
        assert (code, word in problem) == (Exit.USAGE, True), problem
    assert run("trust", "show", tmp_path / "absent")[0] == Exit.USAGE
    # A policy may stand for the keys in it, as the one that is there when witnesses are to be added.
    bare = tmp_path / "bare.policy"
    assert run("trust", "make", "--log", log, "--out", bare)[0] == 0
    for known, named in ((bare, parts[2:]), (policy, ("--witness", policy))):
        code, made, problem = run("trust", "make", "--log", known, *named, "--quorum", "2")
        assert (code, made, problem) == (0, policy.read_text(), "")
    # What of it is not taken over is never dropped in silence.
    code, made, problem = run("trust", "make", "--log", policy)
    assert (code, made) == (0, bare.read_text())
    assert [word in problem for word in ("w1, w2; --witness", "say whom with --quorum")] == [True, True]
    code, _, problem = run("trust", "make", "--log", policy, "--witness", w2, "--quorum", "1")
    assert (code, "given: w1; --witness" in problem, "--quorum" in problem) == (0, True, False)
    code, _, problem = run("trust", "make", "--log", policy, "--witness", policy)
    assert (code, "w1" in problem, "say whom with --quorum" in problem) == (0, False, True)
    code, _, problem = run("trust", "make", "--log", log, "--witness", bare)
    assert (code, "has no witness line" in problem) == (Exit.USAGE, True)


def test_keys_are_told_as_json_and_hybrid_ones_are_longer(tmp_path: Path) -> None:
    code, out, _ = run("keygen", "auditor", "--out", tmp_path / "a", "--hybrid", "--name", "long", "--json")
    facts = json.loads(out)
    recipient = Recipient.parse(facts["public"])
    assert (code, facts["kem"], facts["key_id"], len(recipient.public)) == (0, "0x647a", recipient.key_id.hex(), 1216)
    assert read_recipient_key(tmp_path / "a").recipient == recipient
    facts = json.loads(run("keygen", "log", "--out", tmp_path / "l", "--origin", ORIGIN, "--json")[1])
    assert facts["public"] == f"log {read_log_key(tmp_path / 'l').key}"
    facts = json.loads(run("keygen", "seal", "--out", tmp_path / "s", "--log-key", tmp_path / "l", "--json")[1])
    assert (facts["name"], facts["epoch"]) == (ORIGIN, 0)
    facts = json.loads(run("keygen", "witness", "--out", tmp_path / "w", "--json")[1])
    assert facts["kind"] == "witness"
    code, _, said = run("keygen", "log", "--out", tmp_path / "x", "--origin", ORIGIN, "--hybrid")
    assert (code, "--hybrid is for readers' keys" in said) == (Exit.USAGE, True)


def test_a_key_for_personal_data_belongs_to_one_log_and_prints_nothing_secret(tmp_path: Path) -> None:
    assert run("keygen", "personal", "--out", tmp_path / "p")[0] == Exit.USAGE
    code, out, _ = run("keygen", "personal", "--out", tmp_path / "p", "--origin", ORIGIN)
    line = (tmp_path / "p").read_text()
    assert (code, PersonalKey.parse(line).origin) == (0, ORIGIN)
    assert line.strip().rpartition("+")[2] not in out


def test_readers_and_log_key_change_and_the_old_reader_hands_on(desk: Desk, tmp_path: Path) -> None:
    newcomer = run("keygen", "auditor", "--out", tmp_path / "new.key", "--name", "newcomer", "--hybrid")[1].strip()
    run("keygen", "log", "--out", tmp_path / "new-log.key", "--origin", ORIGIN)
    (tmp_path / "readers").write_text(f"# from 2026 on\n{newcomer}\n{desk.diary.recovery.recipient}\n")
    keys = (
        "--log-key",
        desk.log_key,
        "--seal-key",
        desk.seal_key,
        "--recipient",
        tmp_path / "readers",
        "--by",
        "board",
    )
    change = ("rotate-keys", desk.log, *keys, "--new-log-key", tmp_path / "new-log.key", "--anchor", desk.anchor)
    code, out, said = run(*change, "--trust", desk.trust, "--json")
    assert code == 0, said
    facts = json.loads(out)
    assert (facts["recipients_changed"], facts["log_key_changed"]) == (True, True)
    after = tmp_path / "after.policy"
    after.write_text(facts["policy"])
    assert len(TrustPolicy.parse(facts["policy"]).logs) == 2
    assert desk.verify(after) == 0
    only_new = tmp_path / "only-new.policy"
    only_new.write_text(f"log {read_log_key(tmp_path / 'new-log.key').key}\n")
    assert desk.verify(only_new) == Exit.NOT_PROVEN
    # The old policy does not know the key that signs now.
    assert desk.verify() == Exit.NOT_PROVEN
    assert run("show", desk.log, "--key", tmp_path / "new.key")[1] == ""
    handed = tmp_path / "handed"
    give = ("reshare", desk.log, "--key", desk.key, "--to", newcomer, "--out", handed)
    told = json.loads(run(*give, "--json")[1])
    assert (told["to"], told["segments"], told["origin"]) == ("newcomer", 3, ORIGIN)
    assert run(*give)[0] == Exit.USAGE
    with_it = ("--key", tmp_path / "new.key", "--reshared", handed)
    assert len(run("show", desk.log, *with_it)[1].splitlines()) == 14
    assert desk.verify(after, *with_it) == 0
    assert desk.verify(after, "--key", tmp_path / "new.key") == Exit.NOT_PROVEN
    code, out, _ = run("disclose", desk.log, "--op", "op-b", *with_it)
    (tmp_path / "d").write_text(out)
    assert run("check-disclosure", tmp_path / "d", "--trust", after)[0] == 0
    assert run("export", desk.log, *with_it)[1].count('"record"') == 14
    assert run("show", desk.log, "--key", desk.key, "--reshared", handed)[0] == Exit.USAGE
    handed.write_text("something else\n")
    assert run("show", desk.log, *with_it)[0] == Exit.USAGE


def test_change_of_keys_prints_the_policy_and_refuses_what_is_none(desk: Desk, tmp_path: Path) -> None:
    run("keygen", "log", "--out", tmp_path / "new-log.key", "--origin", ORIGIN)
    readers = [str(desk.diary.auditor.recipient), str(desk.diary.recovery.recipient)]
    keys = ["--log-key", desk.log_key, "--seal-key", desk.seal_key, "--by", "board"]
    keys += [word for reader in readers for word in ("--recipient", reader)]
    code, _, said = run("rotate-keys", desk.log, *keys)
    assert (code, "nothing changes" in said) == (Exit.USAGE, True)
    new = ("--new-log-key", tmp_path / "new-log.key")
    stranger = tmp_path / "stranger.policy"
    stranger.write_text(Diary(seed="stranger").policy.to_text())
    code, _, said = run("rotate-keys", desk.log, *keys, *new, "--trust", stranger)
    assert (code, "does not pin the log key" in said) == (Exit.USAGE, True)
    writer = DiskDirectory(desk.log)
    writer.lock()
    code, _, said = run("rotate-keys", desk.log, *keys, *new)
    assert (code, "being written by another process" in said) == (Exit.USAGE, True)
    writer.unlock()
    assert run("rotate-keys", desk.log, *keys, "--new-log-key", desk.key)[0] == Exit.USAGE
    assert run("rotate-keys", desk.log, *keys, "--recipient", tmp_path / "absent")[0] == Exit.USAGE
    assert run("rotate-keys", tmp_path / "absent", *keys, *new)[0] == Exit.UNREADABLE
    code, out, said = run("rotate-keys", desk.log, *keys, *new, "--anchor", desk.anchor)
    assert (code, "the new keys are in force" in said) == (0, True)
    after = tmp_path / "after.policy"
    after.write_text(out)
    assert desk.verify(after) == 0


@pytest.mark.parametrize("module", [arguments, cli_disclosure, cli_keys, cli_trust])
def test_modules_of_commands_say_what_they_are(module: object) -> None:
    assert module.__doc__


def test_machine_gives_time_and_chance() -> None:
    assert abs(machine.now_ms() // 1000 - machine.now_s()) <= 1
    assert len(machine.entropy(7)) == 7
    assert machine.boot_id() != machine.boot_id()


def test_every_command_says_in_one_sentence_what_it_does() -> None:
    """And has --json where it prints facts."""
    for name in ("verify", "show", "keygen", "disclose", "check-disclosure", "export", "rotate-keys", "reshare"):
        code, out, _ = run(name, "--help")
        assert (code, "--json" in out) == (0, True), name
    for name in ("make", "show"):
        assert "--json" in run("trust", name, "--help")[1]
