"""What a person reads before a lock is set aside, and what the host's own words come to."""

import pytest
from rich.console import Console

from gateway.surfaces.cli.context import Exit
from gateway.surfaces.cli.host_upkeep import print_done, said
from tests.unit.surfaces.cli.conftest import Program
from tests.unit.surfaces.cli.test_render import document
from tests.unit.surfaces.door import Home


def printed(text: str) -> list[str]:
    return said({"result": {"stdout": {"text": text, "tail": ""}}})


def test_the_hosts_answers_are_told_without_what_a_login_prints() -> None:
    frame = '@gw1 op_1 {"v": 1, "phase": "fenced", "attempt": 2, "reason": "fence", "store_id": "s"}'
    assert printed(f"motd\n\n{frame}\n@gw1 op_1 [1]\n@gw1 op_1 nonsense\n@gw1 x\n") == [
        "attempt 2, phase fenced, reason fence"
    ]
    assert said({"result": None}) == []


def test_what_the_runner_answered_is_told_in_words_and_not_as_it_came() -> None:
    out = Console(record=True, width=200, highlight=False, color_system=None)
    frame = '@gw1 op_1 {"v": 1, "phase": "fenced", "attempt": 1, "reason": "fence", "store_id": "s"}\n'
    print_done(out, document(result={"stdout": {"text": frame, "tail": ""}}))

    text = out.export_text()
    assert "the host: attempt 1, phase fenced, reason fence" in text
    assert "@gw1" not in text


def test_a_job_that_has_begun_is_said_to_be_one_and_what_to_fence_is_named() -> None:
    frame = '@gw1 op_1 {"phase": "refused", "reason": "has_steps", "steps": ["op_1.prepare", "op_1.restart"]}'
    first, told = printed(f"{frame}\n")
    assert first == "phase refused, reason has_steps"
    assert "op_1.prepare, op_1.restart. None that is not here will begin" in told
    assert "`gateway host fence HOST op_1.restart`" in told


@pytest.mark.parametrize(
    "words",
    [
        ("fence", "web-1", "op_01jd0000000000000000000000"),
        ("collect", "web-1"),
        ("unlock", "web-1", "web", "--reason", "x"),
    ],
)
def test_what_changes_a_host_needs_a_gateway_that_serves(stopped: Program, home: Home, words: tuple[str, ...]) -> None:
    done = stopped("host", *words, GATEWAY_KEY=home.person_key)

    assert (done.code, "Start it with `gateway serve`" in done.err) == (Exit.UNREACHABLE, True)


def test_a_host_that_is_not_declared_is_said_so_by_a_stopped_and_a_running_gateway(
    stopped: Program, person: Program, caller: Program
) -> None:
    for program in (stopped, person):
        for words in (("check", "web-9"), ("operations", "web-9")):
            done = program("host", *words)
            assert (done.code, "There is no host of that name" in done.err) == (Exit.REFUSED, True), done
    assert caller("host", "check", "web-9").code == Exit.REFUSED
    assert person("host", "fence", "web-9", "op_01jd0000000000000000000000").code == Exit.REFUSED
    assert person("host", "fence", "web-9", "nonsense").code == Exit.REFUSED
    assert person("host", "collect", "web-9", "--older-than", "soon").code == Exit.USAGE
    assert person("host", "unlock", "web-9", "web").code == Exit.USAGE
    assert person("operations", "cancel", "op_01jd0000000000000000000000", "--signal", "HUP").code == Exit.USAGE
