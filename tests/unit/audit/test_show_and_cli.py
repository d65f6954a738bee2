from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app, main
from audit.disk import log_folder
from audit.keyfiles import read_key_line, read_log_key, read_recipient_key, read_seal_key, write_key
from audit.keyring import KeyProblem, Recipient, RecipientKey, Role, SealKey, WrongKey
from audit.log import segment_name
from audit.report import Exit
from audit.show import BadDocument, read_document, show
from audit.trust import BadPolicy, TrustPolicy
from tests.unit.audit.logs import ORIGIN, Journal, entropy, refile, sealed_journal
from tests.unit.audit.test_tamper import flip

cli = CliRunner()


def test_every_record_is_shown_in_order() -> None:
    journal = sealed_journal()
    shown = list(show(journal.directory, journal.auditor))
    assert len(shown) == 32
    assert [record.seq for record in shown] == sorted({record.seq for record in shown})
    assert [record.content["n"] for record in shown] == sorted({record.content["n"] for record in shown})
    some = list(show(journal.directory, journal.recovery, op="op-1"))
    assert {record.content["op"] for record in some} == {"op-1"}
    assert [record.seq for record in some] == [record.seq for record in shown if record.content["op"] == "op-1"]


def test_clear_entries_are_shown_on_request() -> None:
    journal = sealed_journal()
    shown = list(show(journal.directory, journal.auditor, clear=True))
    assert [record.seq for record in shown] == list(range(journal.sealer.head.size))
    opening = shown[0].to_json()
    assert opening["kind"] == "segment_open"
    assert [share["label"] for share in opening["entry"]["shares"]] == ["auditor", "recovery"]
    json.dumps([record.to_json() for record in shown])


def test_wrong_key_is_a_clear_error() -> None:
    journal = sealed_journal()
    stranger = RecipientKey.generate(Role.AUDITOR, "stranger", entropy("stranger"))
    with pytest.raises(WrongKey, match="not sealed to stranger"):
        list(show(journal.directory, stranger))


def test_changed_record_does_not_decrypt() -> None:
    journal = sealed_journal()
    from tests.unit.audit.test_tamper import bodies_swapped, reorder

    reorder(bodies_swapped, repaired=True)(journal)
    with pytest.raises(WrongKey, match="does not decrypt"):
        list(show(journal.directory, journal.auditor))


def test_torn_end_is_skipped_with_a_word() -> None:
    journal = sealed_journal()
    last = journal.sealer.head.segment
    refile(journal.directory, lambda data: data[:-5], last)
    words: list[str] = []
    assert len(list(show(journal.directory, journal.auditor, skipped=words.append))) == 31
    assert "no entry" in words[0]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":"\\ud800"}',
        b'{"\\udfff":1}',
        b"{} {}",
        b"[]",
        b"",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_record_that_is_not_strict_json_is_refused(text: bytes) -> None:
    with pytest.raises(BadDocument):
        read_document(text)


def test_document_is_read() -> None:
    assert read_document(b'{"a":[1,null,"\xc3\xa9"]}') == {"a": [1, None, "é"]}


def test_keys_survive_their_files(tmp_path: Path) -> None:
    journal = Journal()
    for name, line in (
        ("auditor", journal.auditor.to_line()),
        ("log", journal.signer.to_line()),
        ("seal", journal.seal_key.to_line()),
    ):
        write_key(tmp_path / name, line)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        with pytest.raises(FileExistsError):
            write_key(tmp_path / name, "other")
    assert read_recipient_key(tmp_path / "auditor") == journal.auditor
    assert read_log_key(tmp_path / "log") == journal.signer
    assert read_seal_key(tmp_path / "seal") == journal.seal_key
    assert Recipient.parse(str(journal.auditor.recipient)) == journal.auditor.recipient


def test_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_key(path, "x")
    path.chmod(0o640)
    with pytest.raises(KeyProblem, match="chmod 600"):
        read_key_line(path)


def test_private_parts_never_show() -> None:
    journal = Journal()
    for key in (journal.auditor, journal.signer, journal.seal_key):
        assert key.private.hex() not in repr(key)
        assert repr(key.private) not in repr(key)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_damaged_keys_are_refused(cut: int) -> None:
    journal = Journal()
    for parse, line in (
        (RecipientKey.parse, journal.auditor.to_line()),
        (Recipient.parse, str(journal.auditor.recipient)),
        (SealKey.parse, journal.seal_key.to_line()),
    ):
        for bad in (line[:-cut], line.replace("+", " "), line.replace("auditor", "owner", 1)[: len(line) - cut], ""):
            with pytest.raises(KeyProblem):
                parse(bad)


def test_policy_is_read_and_what_is_not_checked_is_refused() -> None:
    journal = Journal()
    text = f"# pinned by hand\n\nlog {journal.signer.key} https://gw.example\nquorum none\n"
    assert TrustPolicy.parse(text) == journal.policy
    assert TrustPolicy.parse(journal.policy.to_text()) == journal.policy
    for bad, word in (
        ("", "pins no log"),
        ("quorum none", "pins no log"),
        (f"log {journal.signer.key}x", "line 1"),
        ("log", "line 1"),
        (f"log {journal.signer.key}\nlog {journal.signer.key}", "line 2"),
        (f"log {journal.signer.key}\nwitness w {journal.signer.key}", "line 2"),
        (f"log {journal.signer.key}\nquorum w", "line 2"),
        (f"log {journal.signer.key}\nquorum none\nquorum none", "line 3"),
        ("trust me", "line 1"),
    ):
        with pytest.raises(BadPolicy, match=word):
            TrustPolicy.parse(bad)


class Office:
    """An auditor's desk: keys made with the command, a log on disk, a policy and an anchor."""

    def __init__(self, root: Path) -> None:
        self.journal = sealed_journal()
        self.log = log_folder(root / "audit", ORIGIN)
        self.anchor = root / "anchor"
        for folder, files in ((self.log, self.journal.directory.files()), (self.anchor, self.journal.anchor.files())):
            for name, data in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        self.trust = root / "trust.policy"
        self.trust.write_text(self.journal.policy.to_text())
        self.key = root / "auditor.key"
        write_key(self.key, self.journal.auditor.to_line())

    def verify(self, *more: str) -> tuple[int, str]:
        result = cli.invoke(app, ["verify", str(self.log), "--trust", str(self.trust), *more])
        return result.exit_code, result.output


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_verify_command_prints_the_report_and_exits_with_the_verdict(office: Office) -> None:
    code, output = office.verify("--anchor", str(office.anchor), "--max-anchor-age", "99999d")
    assert code == 0, output
    assert [line.split()[0] for line in output.splitlines()][:8] == [
        "log", "records", "chain", "root", "seals", "anchors", "tail", "restarts",
    ]  # fmt: skip
    assert output.splitlines()[-1].startswith("OK ")
    code, output = office.verify("--json", "--accept-unanchored")
    assert (code, json.loads(output)["verdict"]["word"]) == (0, "OK")
    code, output = office.verify("--json")
    assert (code, json.loads(output)["verdict"]["exit"]) == (4, 4)
    (office.log / segment_name(0)).write_bytes(b"x" * 500)
    assert office.verify()[0] == 1


def test_verify_command_finds_the_one_log_below_a_folder(office: Office) -> None:
    office.log = office.log.parents[2]
    assert office.verify("--accept-unanchored")[0] == 0
    (office.log / "second" / "segments").mkdir(parents=True)
    code, output = office.verify("--accept-unanchored")
    assert (code, "2 logs" in output) == (2, True)


def test_verify_command_refuses_bad_arguments(office: Office, tmp_path: Path) -> None:
    assert office.verify("--max-anchor-age", "soon")[0] == 2
    assert office.verify("--max-unsealed", "-1")[0] == 2
    assert office.verify("--nonsense")[0] == 2
    beside = office.log / "trust.policy"
    beside.write_text(office.trust.read_text())
    assert cli.invoke(app, ["verify", str(office.log), "--trust", str(beside)]).exit_code == 2
    assert office.verify("--anchor", str(office.log / "checkpoint"))[0] == 2
    assert office.verify("--anchor", str(office.log))[0] == 2
    office.trust.write_text("trust me\n")
    assert office.verify()[0] == 2
    office.trust = tmp_path / "absent"
    assert office.verify()[0] == 2
    assert cli.invoke(app, ["verify", str(tmp_path / "absent")]).exit_code == 5


def test_show_command(office: Office, tmp_path: Path) -> None:
    result = cli.invoke(app, ["show", str(office.log), "--key", str(office.key), "--json", "--op", "op-2"])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert {line["record"]["op"] for line in lines} == {"op-2"}
    readable = cli.invoke(app, ["show", str(office.log), "--key", str(office.key), "--all"])
    assert readable.exit_code == 0
    assert len(readable.output.splitlines()) == office.journal.sealer.head.size
    wrong = tmp_path / "wrong.key"
    write_key(wrong, RecipientKey.generate(Role.AUDITOR, "wrong", entropy("wrong")).to_line())
    result = cli.invoke(app, ["show", str(office.log), "--key", str(wrong)])
    assert (result.exit_code, "not sealed to wrong" in result.output) == (4, True)
    assert cli.invoke(app, ["show", str(office.log), "--key", str(office.trust)]).exit_code == 2
    assert cli.invoke(app, ["show", str(tmp_path / "absent"), "--key", str(office.key)]).exit_code == 5


def test_help_says_what_is_shown_for_an_erased_subject() -> None:
    assert "`[shredded]`" in cli.invoke(app, ["show", "--help"]).stdout


def test_keygen_command(tmp_path: Path) -> None:
    made = cli.invoke(app, ["keygen", "recovery", "--out", str(tmp_path / "r"), "--name", "safe"])
    assert made.exit_code == 0
    recipient = Recipient.parse(made.output)
    assert (recipient.role, recipient.label) == (Role.RECOVERY, "safe")
    assert read_recipient_key(tmp_path / "r").recipient == recipient
    made = cli.invoke(app, ["keygen", "log", "--out", str(tmp_path / "l"), "--origin", ORIGIN])
    assert TrustPolicy.parse(made.output).logs == (read_log_key(tmp_path / "l").key,)
    made = cli.invoke(app, ["keygen", "seal", "--out", str(tmp_path / "s"), "--log-key", str(tmp_path / "l")])
    assert made.exit_code == 0
    assert read_seal_key(tmp_path / "s").origin == ORIGIN
    before = (tmp_path / "r").read_bytes()
    again = cli.invoke(app, ["keygen", "auditor", "--out", str(tmp_path / "r")])
    assert (again.exit_code, "never overwritten" in again.output) == (2, True)
    assert (tmp_path / "r").read_bytes() == before
    for arguments in (["log"], ["seal"], ["auditor", "--name", "a b"], ["seal", "--log-key", str(tmp_path / "r")]):
        assert cli.invoke(app, ["keygen", *arguments, "--out", str(tmp_path / "new")]).exit_code == 2
    assert not (tmp_path / "new").exists()


def test_module_runs_as_a_program(office: Office) -> None:
    command = [sys.executable, "-m", "audit", "verify", str(office.log), "--trust", str(office.trust), "--json"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["data_records"] == 32


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("program", [["audit"], ["gateway", "audit"]], ids=["audit", "gateway audit"])
def test_an_answer_that_nobody_could_take_accuses_no_log(
    tmp_path: Path, form: list[str], program: list[str], *, gone: bool
) -> None:
    office = Office(tmp_path)
    command = [sys.executable, "-m", *program, "verify", str(office.log), "--trust", str(office.trust), *form]
    if gone:
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, text=True)
    finally:
        os.close(writing)
    assert done.returncode == Exit.UNREADABLE, done.stderr
    assert "could not be written" in done.stderr


@pytest.mark.parametrize("command", ["show", "export"])
def test_a_reader_who_goes_away_is_not_taken_for_a_fault_of_the_log(tmp_path: Path, command: str) -> None:
    office = Office(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    asked = [sys.executable, "-m", "audit", command, str(office.log), "--key", str(office.key)]
    try:
        done = subprocess.run(asked, stdout=writing, stderr=subprocess.PIPE, check=False, text=True)
    finally:
        os.close(writing)
    told = "audit: the answer could not be written: whoever should read it is gone\n"
    assert (done.returncode, done.stderr) == (Exit.UNREADABLE, told)


def test_a_fault_of_the_program_accuses_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("made up")

    told: list[str] = []
    monkeypatch.setattr("audit.cli.app", fail)
    monkeypatch.setattr("audit.cli.drop_output", lambda: None)
    monkeypatch.setattr("audit.cli.warn", told.append)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == Exit.UNREADABLE
    assert "says nothing about the log" in told[0]


def test_a_verdict_of_tampering_ends_with_its_own_code(tmp_path: Path) -> None:
    office = Office(tmp_path)
    segment = min((office.log / "segments").iterdir())
    segment.write_bytes(flip(200)(segment.read_bytes()))
    command = [sys.executable, "-m", "audit", "verify", str(office.log), "--trust", str(office.trust)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == Exit.TAMPERED


@pytest.mark.parametrize("listen", ["127.0.0.1:99999", "127.0.0.1:²", "127.0.0.1", "127.0.0.1:-1"])
def test_a_witness_refuses_what_is_no_address(office: Office, tmp_path: Path, listen: str) -> None:
    key = tmp_path / "witness.key"
    assert cli.invoke(app, ["keygen", "witness", "--name", "w.example/w", "--out", str(key)]).exit_code == 0
    command = ["witness", "serve", str(tmp_path / "state"), "--key", str(key), "--trust", str(office.trust)]
    assert cli.invoke(app, [*command, "--listen", listen]).exit_code == Exit.USAGE
