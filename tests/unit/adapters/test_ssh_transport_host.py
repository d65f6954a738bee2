"""The way to a host, all of it: the shipped runner under a shell of this machine, through the shipped transport."""

import json
from pathlib import Path

import pytest

from adapters.contract import HostVerb
from tests.unit.adapters.remote_host import Host
from tests.unit.adapters.transporting import OnHost


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path, "dash")
    made.init()
    return made


async def test_a_run_answers_with_exit_status_and_output_and_is_told_the_same_later(host: Host) -> None:
    place = OnHost(host)
    ran = await place.ask(HostVerb.RUN)
    again = await place.ask(HostVerb.RUN)
    later = await place.ask(HostVerb.STATUS)

    assert ran.answered
    assert (ran.status, ran.header("Exited"), ran.header("Phase")) == (3, "3", "exited")
    assert json.loads(ran.body) == {
        "operation": "op_1",
        "phase": "exited",
        "reason": None,
        "exit": 3,
        "timed_out": False,
        "cancel_asked": False,
        "stdout": {"text": "out\n", "bytes": 4, "gap": 0, "tail": ""},
        "stderr": {"text": "err\n", "bytes": 4, "gap": 0, "tail": ""},
    }
    assert again.body == later.body == ran.body
    assert host.ledger.read_text() == "x\n"


async def test_what_is_fenced_never_runs(host: Host) -> None:
    place = OnHost(host)
    absent = await place.ask(HostVerb.STATUS)
    won = await place.ask(HostVerb.FENCE, attempts_max=3)
    late = await place.ask(HostVerb.RUN)
    forgotten = await place.ask(HostVerb.RUN, attempt=3)

    assert (absent.answered, absent.status, absent.header("Phase"), absent.header("Exited")) == (
        True,
        0,
        "absent",
        None,
    )
    assert (won.answered, won.header("Phase")) == (True, "fenced")
    # Also the attempt of which a restored store would know nothing.
    assert late.nothing_left
    assert forgotten.nothing_left
    assert not host.ledger.exists()


async def test_a_cancel_before_the_begin_is_a_fence_for_every_attempt(host: Host) -> None:
    place = OnHost(host)
    won = await place.ask(HostVerb.CANCEL, attempts_max=3)
    late = await place.ask(HostVerb.RUN, attempt=3)

    assert (won.answered, won.header("Phase"), late.nothing_left) == (True, "fenced", True)
    assert not host.ledger.exists()


async def test_a_cancel_of_what_runs_is_noted_signalled_and_no_end(host: Host) -> None:
    place = OnHost(host)
    words = ("sh", "-c", f"trap 'exit 7' TERM; echo x >>{host.ledger}; while :; do sleep 0.05; done")
    running = await place.ask(HostVerb.RUN, *words, request_seconds=4.0)
    assert running.header("Phase") == "running"

    told_so = await place.ask(HostVerb.CANCEL, *words)
    assert told_so.answered
    if told_so.header("Phase") == "running":
        assert "sent TERM; its end is still to come" in told_so.summary
        assert told_so.header("Exited") is None
    ended = await place.ask(HostVerb.RUN, *words)
    assert (ended.status, json.loads(ended.body)["cancel_asked"]) == (7, True)
    assert host.ledger.read_text() == "x\n"


async def test_a_host_says_what_it_offers_what_its_store_holds_and_who_has_a_lock(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, lock="deploy")
    offered = json.loads((await place.ask(HostVerb.CHECK, command=())).body)
    listed = json.loads((await place.ask(HostVerb.LIST, operation="", command=())).body)
    later = json.loads((await place.ask(HostVerb.LIST, operation="op_1", command=())).body)
    locked = json.loads((await place.ask(HostVerb.LOCK, operation="", command=(), lock="deploy")).body)

    assert (offered["store_id"], offered["initialised"], offered["missing"]) == (host.store_id, True, [])
    assert [(item["operation"], item["phase"]) for item in listed["operations"]] == [("op_1", "exited")]
    assert (later["operations"], later["more"]) == ([], False)
    assert (locked["state"], locked["holder"], locked["number"]) == ("free", "op_1", 1)


async def test_a_host_without_a_store_says_that_it_cannot_write_there(host: Host) -> None:
    seen = await OnHost(host).ask(HostVerb.CHECK, store="/dev/null", command=())

    assert (seen.answered, seen.header("Phase"), json.loads(seen.body)["reason"]) == (True, "refused", "store_write")


async def test_a_fence_that_finds_one_attempt_taken_says_so(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, attempt=2)
    fenced = await place.ask(HostVerb.FENCE, attempts_max=3)

    assert (fenced.header("Phase"), fenced.status) == ("exited", 3)


async def test_a_record_of_another_command_is_no_answer(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, "sh", "-c", "exit 0")
    seen = await place.ask(HostVerb.STATUS)
    again = await place.ask(HostVerb.RUN)

    for other in (seen, again):
        assert other.contradictions
        assert not other.answered
        assert not other.nothing_left


async def test_a_status_command_answers_in_its_own_words(host: Host) -> None:
    place = OnHost(host)
    good = await place.ask(HostVerb.ASK, "echo", '{"phase": "done"}')

    assert good.answered
    assert (good.status, good.body) == (0, b'{"phase": "done"}\n')


@pytest.mark.parametrize(
    "script",
    [
        'echo "{}"; exit 1',
        "exit 127",
        "true",
        'echo "{} {}"',
        "echo '[]'",
        "echo nonsense",
        'echo "{}"; echo more',
        "head -c 100000 /dev/zero | tr '\\0' ' '; echo '{}'",
    ],
)
async def test_a_status_command_that_is_not_clear_is_no_evidence(host: Host, script: str) -> None:
    seen = await OnHost(host).ask(HostVerb.ASK, "sh", "-c", script)

    assert not seen.answered
    assert not seen.nothing_left
    assert "status command" in seen.summary


async def test_a_probe_runs_without_a_record(host: Host) -> None:
    place = OnHost(host)
    first, second = await place.ask(HostVerb.PROBE), await place.ask(HostVerb.PROBE)

    assert first.status == second.status == 3
    assert first.header("Exited") == "3"
    assert host.ledger.read_text() == "x\nx\n"
    assert (await place.ask(HostVerb.STATUS)).header("Phase") == "absent"


async def test_long_output_keeps_both_ends_and_bytes_that_are_no_text_are_replaced(host: Host) -> None:
    script = "printf 'begin\\377'; head -c 3000000 /dev/zero | tr '\\0' x; printf end"
    seen = json.loads((await OnHost(host).ask(HostVerb.RUN, "sh", "-c", script)).body)["stdout"]

    assert seen["text"].startswith("begin\ufffdxxx")
    assert seen["tail"].endswith("xxxend")
    assert seen["bytes"] == 3_000_009
    assert seen["gap"] > 2_900_000


async def test_a_host_that_holds_an_earlier_attempt_is_believed_rather_than_what_was_thought_of_it(host: Host) -> None:
    place = OnHost(host)
    await place.ask(HostVerb.RUN, attempt=1)
    seen = await place.ask(HostVerb.RUN, attempt=2)

    assert not seen.nothing_left
    # The host knows it, so that no fence of a later attempt can claim that it never ran.
    assert (seen.answered, seen.header("Phase"), seen.header("Exited")) == (True, "unverifiable", None)
    assert host.ledger.read_text() == "x\n"
