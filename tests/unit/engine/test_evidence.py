"""What is taken elsewhere as proof is read from the files alone, and whatever is wrong with them is said in words."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from audit.checkpoint import CHECKPOINT
from audit.disk import log_folder
from audit.keyfiles import write_key
from audit.keyring import RecipientKey, Role
from audit.log import segment_name, segments
from gateway.engine.evidence import Proof, prove
from gateway.store.port import Refused
from tests.unit.audit.logs import ORIGIN, entropy
from tests.unit.audit.operations import Diary, checked, interleaved


@dataclass
class Desk:
    """The files of a log on disk, and keys beside them."""

    logs: Path
    diary: Diary
    keys: Path

    def key(self, name: str, key: RecipientKey) -> Path:
        write_key(self.keys / name, key.to_line())
        return self.keys / name

    @property
    def auditor(self) -> Path:
        return self.key("auditor.key", self.diary.auditor)

    @property
    def files(self) -> Path:
        return log_folder(self.logs, ORIGIN)

    def prove(self, key: Path | None = None, operation_id: str = "op-b") -> Proof:
        return prove(self.logs, ORIGIN, operation_id, key, skipped=self.skipped.append)

    def __post_init__(self) -> None:
        self.skipped: list[str] = []
        for name, content in self.diary.directory.files().items():
            path = self.files / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "keys").mkdir()
    return Desk(tmp_path / "logs", interleaved(), tmp_path / "keys")


def test_without_a_key_there_is_the_signed_head_and_no_record_is_opened(desk: Desk) -> None:
    proof = desk.prove()

    assert proof.disclosure is None
    assert proof.checkpoint == (desk.files / CHECKPOINT).read_text()


def test_with_a_key_there_are_the_operation_s_records_and_nobody_else_s(desk: Desk) -> None:
    proof = desk.prove(desk.auditor)

    assert proof.disclosure is not None
    report = checked(proof.disclosure.encode(), desk.diary.policy, desk.diary.now_ms)
    assert len(report.records) == 5
    opened = repr(report.records)
    assert [word in opened for word in ("beta-0", "beta-end", "alpha", "gamma")] == [True, True, False, False]


def test_a_log_without_a_checkpoint_proves_nothing_yet(desk: Desk) -> None:
    for path in (*desk.files.rglob("*checkpoint*"), *desk.files.rglob("checkpoints/*")):
        if path.is_file():
            path.unlink()

    assert desk.prove() == Proof(None)
    with pytest.raises(Refused, match="checkpoint"):
        desk.prove(desk.auditor)


@pytest.mark.parametrize("operation_id", ["op-nothing", "op-d"])
def test_what_is_not_there_or_not_over_cannot_be_disclosed(operation_id: str, desk: Desk) -> None:
    with pytest.raises(Refused, match="cannot be disclosed"):
        desk.prove(desk.auditor, operation_id)


def test_a_key_that_does_not_fit_is_refused_in_words_that_show_no_key(desk: Desk) -> None:
    stranger = RecipientKey.generate(Role.AUDITOR, "auditor", entropy("stranger"))
    path = desk.key("stranger.key", stranger)
    with pytest.raises(Refused) as refused:
        desk.prove(path)

    assert path.read_text().split()[-1] not in str(refused.value)


def test_files_that_cannot_be_read_are_named(desk: Desk) -> None:
    with pytest.raises(Refused, match=r"missing\.key"):
        desk.prove(desk.keys / "missing.key")


def test_damaged_files_are_no_proof(desk: Desk) -> None:
    segment = desk.files / segment_name(segments(desk.diary.directory)[1])
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)

    with pytest.raises(Refused):
        desk.prove(desk.auditor)
