"""The store on a host: its identity, what is made durable when, and what a host restart leaves of it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import Verb
from adapters.ssh.runner_command import command_of
from adapters.ssh.runner_wire import Meaning, RemotePhase, meaning
from tests.unit.adapters.remote_host import Host, freeze_at, left_at, wait_until_stopped

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


@pytest.mark.parametrize(("step", "begun"), [("before-begin", False), ("begun", True)])
def test_after_a_reboot_a_claim_without_a_record_is_lost_and_cannot_be_fenced(
    dash: Host, step: str, *, begun: bool
) -> None:
    left_at(dash, step)
    (dash.folder / "boot").write_text("another-boot\n")
    dash.runner = dash.changed({"/proc/sys/kernel/random/boot_id": f"{dash.folder}/boot"})

    found = [dash.ask(verb) for verb in (Verb.STATUS, Verb.FENCE, Verb.RUN)]

    assert {answer.phase for answer in found} == {RemotePhase.LOST}
    assert {(answer.fields["rebooted"], answer.fields["begun"]) for answer in found} == {(True, begun)}
    assert dash.ask(Verb.RUN, attempt=2).reason == "attempt_not_fenced"
    assert dash.executions() == 0


def test_after_a_reboot_a_whole_record_counts_under_its_first_name(dash: Host) -> None:
    left_at(dash, "record-synced")
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
    process.communicate(timeout=40)

    assert (alive.phase, dash.ask(Verb.STATUS).phase) == (RemotePhase.RUNNING, RemotePhase.LOST)


def test_processes_that_cannot_be_seen_and_hold_no_lock_are_unverifiable_not_lost(dash: Host) -> None:
    dash.stub("flock", "exit 66")
    left_at(dash, "begun")
    dash.runner = dash.changed(NAMESPACE)

    assert meaning(dash.ask(Verb.STATUS)) is Meaning.PENDING
    assert dash.ask(Verb.STATUS).phase is RemotePhase.UNVERIFIABLE


def test_another_machine_on_a_shared_store_is_not_taken_for_a_reboot(dash: Host) -> None:
    left_at(dash, "begun")
    (dash.folder / "boot").write_text("another-boot\n")
    (dash.folder / "machine").write_text("another-machine\n")
    dash.runner = dash.changed(
        {"/proc/sys/kernel/random/boot_id": f"{dash.folder}/boot", "</etc/machine-id": f"<{dash.folder}/machine"}
    )

    assert dash.ask(Verb.STATUS).phase is RemotePhase.UNVERIFIABLE


def test_a_number_that_another_process_was_given_is_not_mistaken_for_ours(dash: Host) -> None:
    left_at(dash, "begun")
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
