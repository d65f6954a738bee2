"""The store on a host: its identity, floor and locks, and disks that are full, read-only, volatile or forgetful."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_command import command_of
from adapters.ssh.runner_wire import Meaning, RemotePhase, meaning
from tests.unit.adapters.remote_host import ISSUED, SHELLS, Host, freeze_at, wait_until_stopped


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    made = Host(tmp_path, request.param)
    made.init()
    return made


@pytest.fixture
def dash(tmp_path: Path) -> Host:
    made = Host(tmp_path, "dash")
    made.init()
    return made


# --------------------------------------------------------------------------------------------------------- identity


def test_a_store_is_made_once_and_says_what_it_is(host: Host) -> None:
    again = host.ask(Verb.INIT)
    checked = host.ask(Verb.CHECK)

    assert again.store_id == checked.store_id == host.store_id
    assert (checked.boot, checked.uid) == (
        Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        os.getuid(),
    )
    assert checked.fields["filesystem"] == subprocess.run(
        ["stat", "-f", "-c", "%T", host.store], capture_output=True, text=True, check=True
    ).stdout.strip().replace("ext2/ext3", "ext4").replace("overlayfs", "overlay")
    assert checked.fields["initialised"] is checked.fields["writable"] is True
    assert (checked.fields["missing"], checked.fields["free_kib"] > 0) == ([], True)


def test_check_of_a_host_without_a_store_says_so_and_makes_none(dash: Host) -> None:
    dash.store += "2"
    (Path(dash.store) / "bin").mkdir(parents=True)

    answer = dash.ask(Verb.CHECK)

    assert (answer.store_id, answer.fields["initialised"], answer.fields["writable"]) == ("", False, False)
    assert {path.name for path in Path(dash.store).iterdir()} == {"bin"}


def test_two_that_make_the_store_at_once_agree_on_its_identity(tmp_path: Path) -> None:
    made = Host(tmp_path, "dash")
    made.runner, said = freeze_at(made, "store-written")
    call = made.call(Verb.INIT)
    process = made.begin(call)
    frozen = int(said.read_text())
    wait_until_stopped(frozen)
    made.runner = load_runner()

    first = made.init()
    os.kill(frozen, signal.SIGCONT)
    second = made.finish(process, call)

    assert second is not None
    assert second.store_id == first.store_id == made.ask(Verb.CHECK).store_id


ANY = [Verb.RUN, Verb.STATUS, Verb.FENCE, Verb.CANCEL, Verb.LIST]


@pytest.mark.parametrize("verb", ANY)
def test_another_store_is_refused_and_never_says_absent(dash: Host, verb: Verb) -> None:
    answer = dash.ask(verb, store_id="another")

    assert (answer.reason, meaning(answer)) == ("store_mismatch", Meaning.NO_EVIDENCE)
    assert (dash.executions(), dash.files()) == (0, set())


@pytest.mark.parametrize("verb", ANY)
def test_another_user_is_refused(dash: Host, verb: Verb) -> None:
    (dash.folder / "status").write_text("Uid:\t0\t12345\t0\t0\n")
    dash.runner = dash.changed({"/proc/$$/status": f"{dash.folder}/status"})

    assert dash.ask(verb).reason == "store_mismatch"
    assert dash.executions() == 0


@pytest.mark.parametrize("damage", ["id", "floors/000000000000000"])
def test_a_store_that_lost_a_part_of_itself_is_refused(dash: Host, damage: str) -> None:
    Path(dash.store, damage).unlink()

    assert [dash.ask(verb).reason for verb in (Verb.RUN, Verb.STATUS)] == ["store_mismatch"] * 2
    assert dash.executions() == 0


def test_a_file_system_without_hard_links_gets_no_store(tmp_path: Path) -> None:
    made = Host(tmp_path, "dash")
    made.stub("ln", "exit 1")

    assert made.ask(Verb.INIT).reason == "no_hard_links"


# ---------------------------------------------------------------------------------------------- syncs, links, reboots


def test_where_the_claim_cannot_be_made_durable_nothing_runs(host: Host) -> None:
    host.stub("sync", "exit 1")
    answer = host.ask(Verb.RUN)

    assert (answer.reason, meaning(answer)) == ("store_write", Meaning.NEVER_RAN)
    assert host.ask(Verb.FENCE, "op_2").reason == "store_write"
    assert host.executions() == 0


def test_the_claim_is_on_disk_before_the_command_begins(dash: Host) -> None:
    dash.stub("sync", f'echo "$*" >>{dash.folder}/synced; exec /bin/sync "$@"')
    command = dash.marking(f"cp {dash.folder}/synced {dash.folder}/before")

    dash.ask(Verb.RUN, command=command)

    (line,) = (dash.folder / "before").read_text().splitlines()
    folder = f"{dash.store}/ops/op_1"
    assert [word.replace(folder, "").partition(".")[0] for word in line.split()][:3] == ["/t", "/e", ""]
    assert f"{dash.store}/ops" in line.split()


def test_a_lost_answer_to_our_own_link_is_recognised_by_reading_it_back(dash: Host) -> None:
    dash.stub("ln", '/bin/ln "$@"; exit 1')

    assert (dash.ask(Verb.RUN).phase, dash.executions()) == (RemotePhase.EXITED, 1)


def _left_at(host: Host, step: str) -> None:
    host.runner = host.at_step(step, "kill -9 $$")
    host.try_ask(Verb.RUN)


@pytest.mark.parametrize(("step", "begun"), [("before-begin", False), ("begun", True)])
def test_after_a_reboot_a_claim_without_a_record_is_lost_and_cannot_be_fenced(
    dash: Host, step: str, *, begun: bool
) -> None:
    _left_at(dash, step)
    (dash.folder / "boot").write_text("another-boot\n")
    dash.runner = dash.changed({"/proc/sys/kernel/random/boot_id": f"{dash.folder}/boot"})

    found = [dash.ask(verb) for verb in (Verb.STATUS, Verb.FENCE, Verb.RUN)]

    assert {answer.phase for answer in found} == {RemotePhase.LOST}
    assert {(answer.fields["rebooted"], answer.fields["begun"]) for answer in found} == {(True, begun)}
    assert dash.ask(Verb.RUN, attempt=2).reason == "attempt_not_fenced"
    assert dash.executions() == 0


def test_after_a_reboot_a_whole_record_counts_under_its_first_name(dash: Host) -> None:
    _left_at(dash, "record-synced")
    (dash.folder / "boot").write_text("another-boot\n")
    dash.runner = dash.changed({"/proc/sys/kernel/random/boot_id": f"{dash.folder}/boot"})

    assert meaning(dash.ask(Verb.STATUS)) is Meaning.EXITED


@pytest.mark.parametrize("name", ["g.1", "x.1"])
def test_a_claim_or_record_that_a_power_cut_emptied_is_never_taken_for_absence(dash: Host, name: str) -> None:
    dash.ask(Verb.RUN)
    Path(dash.store, "ops/op_1", name).write_bytes(b"")

    assert {dash.ask(verb).phase for verb in (Verb.STATUS, Verb.FENCE, Verb.RUN)} == {RemotePhase.LOST}
    assert dash.ask(Verb.RUN, attempt=2).reason == "attempt_not_fenced"
    assert dash.executions() == 1


def test_output_that_a_power_cut_took_is_not_passed_off_as_whole(dash: Host) -> None:
    dash.ask(Verb.RUN, command=command_of(["echo", "DONE"]))
    next(Path(dash.store, "ops/op_1").glob("o.*.head")).write_bytes(b"")

    answer = dash.ask(Verb.STATUS)

    assert (answer.phase, answer.fields["output_complete"]) == (RemotePhase.EXITED, False)


NAMESPACE = {"readlink /proc/self/ns/pid": "echo 'pid:[77]'"}


def test_processes_of_another_namespace_are_judged_by_the_lock_they_hold(dash: Host) -> None:
    dash.runner, said = freeze_at(dash, "begun")
    call = dash.call(Verb.RUN)
    process = dash.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    dash.runner = dash.changed(NAMESPACE)
    alive = dash.ask(Verb.STATUS)
    os.kill(supervisor, signal.SIGKILL)
    process.communicate(timeout=20)

    assert (alive.phase, dash.ask(Verb.STATUS).phase) == (RemotePhase.RUNNING, RemotePhase.LOST)


def test_processes_that_cannot_be_seen_and_hold_no_lock_are_unverifiable_not_lost(dash: Host) -> None:
    dash.stub("flock", "exit 66")
    _left_at(dash, "begun")
    dash.runner = dash.changed(NAMESPACE)

    assert meaning(dash.ask(Verb.STATUS)) is Meaning.PENDING
    assert dash.ask(Verb.STATUS).phase is RemotePhase.UNVERIFIABLE


def test_another_machine_on_a_shared_store_is_not_taken_for_a_reboot(dash: Host) -> None:
    _left_at(dash, "begun")
    (dash.folder / "boot").write_text("another-boot\n")
    (dash.folder / "machine").write_text("another-machine\n")
    dash.runner = dash.changed(
        {"/proc/sys/kernel/random/boot_id": f"{dash.folder}/boot", "</etc/machine-id": f"<{dash.folder}/machine"}
    )

    assert dash.ask(Verb.STATUS).phase is RemotePhase.UNVERIFIABLE


def test_a_number_that_another_process_was_given_is_not_mistaken_for_ours(dash: Host) -> None:
    _left_at(dash, "begun")
    gate = Path(dash.store, "ops/op_1/g.1")
    token = gate.read_text().split()
    token = [f"pid={os.getpid()}" if word.startswith("pid=") else word for word in token]
    gate.write_text(" ".join(token) + "\n")
    dash.runner = load_runner()

    assert dash.ask(Verb.STATUS).phase is RemotePhase.LOST


def test_a_host_without_setsid_and_flock_runs_and_cancels_all_the_same(tmp_path: Path) -> None:
    made = Host(tmp_path, "busybox")
    (made.tools / "setsid").unlink()
    (made.tools / "flock").unlink(missing_ok=True)
    made.init()
    os.mkfifo(made.folder / "standing")
    call = made.call(Verb.RUN, command=command_of(["sh", "-c", "echo >standing; exec sleep 40"]))
    process = made.begin(call)
    (made.folder / "standing").read_text()

    assert made.ask(Verb.CHECK).fields["detaches"] is False
    assert made.ask(Verb.CANCEL).fields["cancel_asked"] is True
    ended = made.finish(process, call)
    assert ended is not None
    assert ended.fields["exit"] == 128 + signal.SIGTERM


def test_without_any_digest_program_nothing_is_placed_and_nothing_runs(tmp_path: Path) -> None:
    made = Host(tmp_path, "busybox")
    made.init()
    (made.tools / "sha256sum").unlink()

    assert meaning(made.ask(Verb.RUN)) is Meaning.LAUNCHED_NOTHING
    assert made.executions() == 0


# ------------------------------------------------------------------------------------------------------------ disks


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


# ---------------------------------------------------------------------------------------------------- floor, listing


def test_what_is_collected_can_never_run_again_and_is_absent_without_authority(host: Host) -> None:
    host.ask(Verb.RUN)
    host.ask(Verb.FENCE, "op_2")
    late = host.ask(Verb.RUN, "op_3", issued_ms=ISSUED + 1)

    collected = host.ask(Verb.COLLECT, before_ms=ISSUED)

    assert collected.fields == {"floor": ISSUED, "removed": 2, "kept": 1}
    assert {path.name for path in Path(host.store, "ops").iterdir()} == {"op_3"}
    replayed, asked, fence = (host.ask(verb) for verb in (Verb.RUN, Verb.STATUS, Verb.FENCE))
    assert (replayed.reason, host.executions()) == ("below_gc_floor", 1)
    assert [meaning(answer) for answer in (asked, fence)] == [Meaning.NO_EVIDENCE] * 2
    assert host.ask(Verb.STATUS, "op_3", issued_ms=ISSUED + 1).fields == late.fields
    assert host.ask(Verb.COLLECT, before_ms=1).fields["floor"] == ISSUED


def test_what_is_lost_or_running_is_not_collected(dash: Host) -> None:
    _left_at(dash, "begun")
    dash.runner = load_runner()
    os.mkfifo(dash.folder / "go")
    os.mkfifo(dash.folder / "standing")
    call = dash.call(Verb.RUN, "op_2", command=dash.marking("echo >standing; read -r line <go"))
    process = dash.begin(call)
    (dash.folder / "standing").read_text()

    assert dash.ask(Verb.COLLECT, before_ms=ISSUED).fields["kept"] == 2
    (dash.folder / "go").write_text("on\n")
    ended = dash.finish(process, call)
    assert ended is not None
    assert ended.phase is RemotePhase.EXITED


def test_a_floor_that_rises_between_the_first_look_and_the_gate_stops_the_run(dash: Host) -> None:
    dash.runner, said = freeze_at(dash, "before-gate")
    call = dash.call(Verb.RUN)
    process = dash.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    dash.runner = load_runner()
    dash.ask(Verb.COLLECT, before_ms=ISSUED)
    os.kill(supervisor, signal.SIGCONT)
    answer = dash.finish(process, call)

    assert answer is not None
    assert (answer.phase, answer.reason) == (RemotePhase.FENCED, "below_gc_floor")
    assert dash.executions() == 0


def test_one_that_slept_through_its_own_fence_and_collection_does_not_run(dash: Host) -> None:
    dash.runner, said = freeze_at(dash, "before-begin")
    call = dash.call(Verb.RUN)
    process = dash.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    dash.runner = load_runner()
    dash.ask(Verb.FENCE)
    assert dash.ask(Verb.COLLECT, before_ms=ISSUED).fields["removed"] == 1
    os.kill(supervisor, signal.SIGCONT)
    dash.finish(process, call)

    assert dash.executions() == 0


@pytest.mark.parametrize("step", ["floor-raised", "operation-set-aside"])
def test_a_collection_that_was_killed_leaves_nothing_that_could_run_again(dash: Host, step: str) -> None:
    dash.ask(Verb.RUN)
    dash.runner = dash.at_step(step, "kill -9 $$")
    assert dash.try_ask(Verb.COLLECT, before_ms=ISSUED) is None
    dash.runner = load_runner()

    assert dash.ask(Verb.RUN).reason == "below_gc_floor"
    dash.ask(Verb.COLLECT, before_ms=ISSUED)
    assert (list(Path(dash.store, "ops").iterdir()), list(Path(dash.store, "trash").iterdir())) == ([], [])
    assert dash.executions() == 1


def test_secrets_that_a_killed_attempt_left_are_swept_by_fence_and_collection(dash: Host) -> None:
    dash.runner = dash.at_step("command-read", "kill -9 $$")
    for operation in ("op_1", "op_2"):
        dash.try_ask(Verb.RUN, operation, command=command_of(["true"], secrets={"TOKEN": "x"}))
        assert {name[0] for name in dash.files(operation)} == {"p", "s"}
    dash.runner = load_runner()

    dash.ask(Verb.FENCE)
    dash.ask(Verb.COLLECT, before_ms=1)

    assert (dash.files(), dash.files("op_2")) == ({"g.1"}, set())


def test_operations_are_listed_page_by_page(host: Host) -> None:
    for operation in ("op_1", "op_2"):
        host.ask(Verb.FENCE, operation)
    host.ask(Verb.RUN, "op_2", attempt=2)

    first = host.ask(Verb.LIST, None, most=1)
    second = host.ask(Verb.LIST, "op_1", most=5)

    fenced = {"operation": "op_1", "attempt": 1, "phase": "fenced", "issued": ISSUED, "begun": False}
    assert first.fields == {"more": True, "operations": [fenced | {"began": 0, "ended": None, "exit": None}]}
    (ran,) = second.fields["operations"]
    assert (second.fields["more"], ran["operation"], ran["attempt"], ran["phase"]) == (False, "op_2", 2, "exited")
    assert (ran["begun"], ran["exit"], 0 < ran["began"] <= ran["ended"]) == (True, 0, True)


# ------------------------------------------------------------------------------------------------------------ locks


def _lock(host: Host) -> dict[str, object]:
    return dict(host.ask(Verb.LOCK, lock="web").fields)


def test_a_lock_passes_on_with_numbers_that_are_never_used_twice(host: Host) -> None:
    show = command_of(["sh", "-c", 'echo "$GATEWAY_LOCK_NUMBER"'])
    numbers = [host.ask(Verb.RUN, f"op_{n}", command=show, lock="web", lock_seconds=60).out for n in range(3)]

    assert [out.head for out in numbers if out] == [b"1\n", b"2\n", b"3\n"]
    host.ask(Verb.COLLECT, before_ms=ISSUED)
    assert {path.name for path in Path(host.store, "locks/web").iterdir()} == {"3"}
    again = host.ask(Verb.RUN, "op_9", command=show, issued_ms=ISSUED + 1, lock="web", lock_seconds=60)
    assert again.fields["lock_number"] == 4


def test_a_lock_that_is_held_refuses_a_second_holder_for_good(host: Host) -> None:
    os.mkfifo(host.folder / "go")
    os.mkfifo(host.folder / "standing")
    call = host.call(Verb.RUN, command=host.marking("echo >standing; read -r line <go"), lock="web", lock_seconds=1)
    process = host.begin(call)
    (host.folder / "standing").read_text()

    busy = host.ask(Verb.RUN, "op_2", lock="web", lock_seconds=60)
    held = _lock(host)
    taken = host.ask(Verb.UNLOCK, lock="web", number=1)
    (host.folder / "go").write_text("on\n")
    host.finish(process, call)

    assert (meaning(busy), busy.reason, host.executions("op_2")) == (Meaning.NEVER_RAN, "lock_busy", 0)
    listed = {item["operation"]: item for item in host.ask(Verb.LIST, None).fields["operations"]}
    assert (listed["op_2"]["phase"], listed["op_2"]["began"]) == ("fenced", 0)
    assert (held["state"], held["holder"], held["holder_phase"]) == ("held", "op_1", "running")
    assert taken.reason == "lock_holder_alive"
    assert _lock(host)["state"] == "free"
    assert meaning(host.ask(Verb.RUN, "op_2", attempt=2, lock="web", lock_seconds=60)) is Meaning.EXITED


def _dead_holder(host: Host, seconds: int) -> None:
    host.runner = host.at_step("begun", "kill -9 $$")
    host.try_ask(Verb.RUN, lock="web", lock_seconds=seconds)
    host.runner = load_runner()


def test_the_lock_of_a_dead_holder_is_kept_until_its_term_is_over(dash: Host) -> None:
    _dead_holder(dash, 600)

    assert dash.ask(Verb.RUN, "op_2", lock="web", lock_seconds=60).reason == "lock_busy"
    dash.stub("date", "echo $(($(/bin/date +%s) + 700))")
    assert _lock(dash)["state"] == "stale"
    assert dash.ask(Verb.RUN, "op_3", lock="web", lock_seconds=60).fields["lock_number"] == 2


def test_a_person_may_set_aside_the_lock_that_was_looked_at_and_no_other(dash: Host) -> None:
    _dead_holder(dash, 600)

    assert dash.ask(Verb.UNLOCK, lock="web", number=7).reason == "lock_changed"
    assert dash.ask(Verb.UNLOCK, lock="web", number=1).fields["state"] == "free"
    assert dash.ask(Verb.RUN, "op_2", lock="web", lock_seconds=60).fields["lock_number"] == 2


def test_contenders_for_a_lock_never_hold_it_together(host: Host) -> None:
    critical = command_of(
        ["sh", "-c", "mkdir inside || echo together >>trouble; echo $GATEWAY_LOCK_NUMBER >>numbers; rmdir inside"]
    )
    calls = [host.call(Verb.RUN, f"op_{n}", command=critical, lock="web", lock_seconds=60) for n in range(6)]
    processes = [host.begin(call) for call in calls]
    answers = [host.finish(process, call) for process, call in zip(processes, calls, strict=True)]

    assert {meaning(answer) for answer in answers} <= {Meaning.EXITED, Meaning.NEVER_RAN}
    numbers = [int(line) for line in (host.folder / "numbers").read_text().split()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == [meaning(answer) for answer in answers].count(Meaning.EXITED)
    assert not (host.folder / "trouble").exists()


def test_one_that_slept_while_its_number_came_and_went_does_not_hold_the_lock(dash: Host) -> None:
    dash.runner, said = freeze_at(dash, "lock-seen-free")
    call = dash.call(Verb.RUN, issued_ms=ISSUED + 1, lock="web", lock_seconds=60)
    process = dash.begin(call)
    supervisor = int(said.read_text())
    wait_until_stopped(supervisor)
    dash.runner = load_runner()
    for operation in ("op_2", "op_3"):
        dash.ask(Verb.RUN, operation, lock="web", lock_seconds=60)
    dash.ask(Verb.COLLECT, before_ms=ISSUED)
    assert {path.name for path in Path(dash.store, "locks/web").iterdir()} == {"2"}
    os.kill(supervisor, signal.SIGCONT)
    answer = dash.finish(process, call)

    assert answer is not None
    assert (answer.phase, answer.reason, dash.executions()) == (RemotePhase.FENCED, "lock_busy", 0)
