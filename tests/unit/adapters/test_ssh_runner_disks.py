"""Disks under a store that are full, read-only, volatile or forgetful."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_wire import Meaning, RemotePhase, meaning
from tests.unit.adapters.remote_host import SHELLS, Host


class Disk:
    """A small disk of its own where this process may mount one; otherwise a bound on the size of every file."""

    def __init__(self, folder: Path, *, mount: bool) -> None:
        self.folder = folder / "disk"
        self.folder.mkdir()
        self.mounted = mount and self._mount("-t", "tmpfs", "-o", "size=400k,nr_inodes=200,noexec", "none")

    def _mount(self, *words: str) -> bool:
        return not subprocess.run(["mount", *words, self.folder], capture_output=True, check=False).returncode

    def fill(self, host: Host) -> None:
        if self.mounted:
            with (self.folder / "filler").open("wb", buffering=0) as filler:
                try:
                    while True:
                        filler.write(b"\0" * 4096)
                except OSError:
                    pass
        else:
            host.blocks_max = 0

    def free(self, host: Host) -> None:
        (self.folder / "filler").unlink(missing_ok=True)
        host.blocks_max = None

    def forbid_writing(self, host: Host) -> None:
        if not self.mounted or not self._mount("-o", "remount,ro"):
            host.blocks_max = 0

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.folder], check=True)


@pytest.fixture(params=[True, False], ids=["mount", "limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path, mount=request.param)
    yield made
    made.close()


@pytest.fixture(params=SHELLS)
def on_disk(request: pytest.FixtureRequest, tmp_path: Path, disk: Disk) -> Host:
    made = Host(tmp_path, request.param, disk.folder / "store")
    made.init()
    return made


def test_on_a_full_disk_nothing_is_started_and_with_room_it_runs(on_disk: Host, disk: Disk) -> None:
    disk.fill(on_disk)
    refused = on_disk.ask(Verb.RUN)
    fence = on_disk.ask(Verb.FENCE)
    asked = on_disk.ask(Verb.STATUS)
    disk.free(on_disk)

    assert (refused.reason, meaning(refused)) == ("store_write", Meaning.LAUNCHED_NOTHING)
    assert (fence.reason, asked.phase) == ("store_write", RemotePhase.ABSENT)
    assert on_disk.executions() == 0
    assert (on_disk.ask(Verb.RUN).phase, on_disk.executions()) == (RemotePhase.EXITED, 1)


@pytest.mark.parametrize("first", ["dd if=/dev/zero of={}/filler bs=4096 2>/dev/null;", ""], ids=["file", "output"])
def test_a_command_that_fills_the_disk_and_prints_on_leaves_its_exit_status(
    on_disk: Host, disk: Disk, first: str
) -> None:
    on_disk.blocks_max = None if disk.mounted else 96
    fill = first.format(disk.folder)
    answer = on_disk.ask(Verb.RUN, command=on_disk.marking(f"{fill} yes | head -c 900000 || exit 8; exit 7"))

    assert (answer.phase, answer.fields["exit"]) == (RemotePhase.EXITED, 7)
    assert answer.fields["output_complete"] is False
    assert on_disk.executions() == 1


def test_a_read_only_disk_answers_questions_and_starts_nothing(on_disk: Host, disk: Disk) -> None:
    ran = on_disk.ask(Verb.RUN)
    disk.forbid_writing(on_disk)

    assert on_disk.ask(Verb.STATUS).fields == ran.fields
    assert on_disk.ask(Verb.RUN).fields == ran.fields
    assert on_disk.ask(Verb.STATUS, "op_2").phase is RemotePhase.ABSENT
    assert [on_disk.ask(verb, "op_2").reason for verb in (Verb.RUN, Verb.FENCE)] == ["store_write"] * 2
    assert on_disk.executions("op_2") == 0


def test_a_volatile_disk_is_named_and_one_that_executes_nothing_will_do(on_disk: Host, disk: Disk) -> None:
    checked = on_disk.ask(Verb.CHECK)

    assert checked.fields["volatile"] is True  # a tmpfs, or below the folder for temporary files
    assert checked.fields["filesystem"] == "tmpfs" or not disk.mounted
    assert meaning(on_disk.ask(Verb.RUN)) is Meaning.EXITED
    assert [path for path in Path(on_disk.store).rglob("*") if path.is_file() and path.stat().st_mode & 0o111] == []
