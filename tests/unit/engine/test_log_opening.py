"""Names of logs and of the folders where their checkpoints lie; an anchor that is away is never made anew."""

from pathlib import Path

import pytest

from gateway.engine.anchoring import AnchorFolder
from gateway.engine.log_keys import KeyFile
from gateway.engine.log_opening import anchor_folder, next_origin
from gateway.office import Paths
from gateway.settings import AuditSettings, Settings
from tests.unit.engine.keeping import CountedChance

SETTINGS = Settings(audit=AuditSettings(origin="gw.test/audit"))


def test_a_log_after_a_loss_has_a_name_a_key_and_a_folder_of_its_own(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.log_key.parent.mkdir()
    KeyFile(paths.log_key).write([])
    names = [next_origin(SETTINGS, paths, CountedChance()) for _ in range(2)]
    assert names == ["gw.test/audit/2", "gw.test/audit/3"]
    assert [signer.name for signer in KeyFile(paths.log_key).read()] == names
    assert anchor_folder(tmp_path, SETTINGS, "gw.test/audit") == tmp_path
    assert anchor_folder(tmp_path, SETTINGS, names[0]) == tmp_path / "2"


def test_a_name_that_an_anchor_has_heard_of_is_not_taken_again(tmp_path: Path) -> None:
    """The folder was restored from a copy that is older than the log of that name, and its key is forgotten."""
    paths = Paths(tmp_path / "data")
    paths.log_key.parent.mkdir(parents=True)
    KeyFile(paths.log_key).write([])
    (tmp_path / "anchors" / "2").mkdir(parents=True)
    settings = Settings(audit=AuditSettings(origin="gw.test/audit", anchors=(str(tmp_path / "anchors"),)))
    assert next_origin(settings, paths, CountedChance()) == "gw.test/audit/3"


def test_an_anchor_is_written_to_where_it_is_and_refused_where_it_is_not(tmp_path: Path) -> None:
    anchor = tmp_path / "mounted"
    for place in (anchor, anchor / "2"):
        folder = AnchorFolder(place, anchor)
        with pytest.raises(FileNotFoundError, match="missing"):
            folder.open("checkpoint.tmp", fresh=True)
        assert not anchor.exists()
    anchor.mkdir()
    AnchorFolder(anchor / "2", anchor).open("checkpoint").close()
    assert (anchor / "2" / "checkpoint").exists()
