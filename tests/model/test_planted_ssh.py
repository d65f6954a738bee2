"""Bugs of clients that run remote commands, planted into the shipped way to hosts: each must be noticed."""

import dataclasses
from collections.abc import Callable

import pytest

from adapters.contract import HostExchange, HostVerb, Observation
from adapters.contract_ssh import SshObservation, Stage
from adapters.ssh import canary, transport
from adapters.ssh.runner_wire import Answer, Meaning, RemotePhase, meaning
from tests.model.checker import check
from tests.model.directing import put_back
from tests.model.simulation import Simulation
from tests.model.test_planted_engine import (
    Case,
    Patch,
    absent_means_never,
    plant_and_notice,
    repeat_on_time_out,
)

Read = Callable[[HostExchange, SshObservation, Answer | None], Observation]


def _reading(patch: Patch, change: Callable[[Read, HostExchange, SshObservation, Answer | None], Observation]) -> None:
    read = transport.observation_of
    patch.setattr(transport, "observation_of", lambda *given: change(read, *given))


def _meaning(patch: Patch, change: Callable[[Answer | None, Meaning], Meaning]) -> None:
    patch.setattr(transport, "meaning", lambda answer: change(answer, meaning(answer)))


def no_status_taken_for_success(patch: Patch) -> None:
    """`if not result.exit_status`: a session that was lost has none."""

    def read(honest: Read, exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
        if exchange.verb is HostVerb.RUN and answer is None and seen.stage in {Stage.ACCEPTED, Stage.ENDED}:
            ended = (("Phase", "exited"), ("Exited", "0"))
            return transport._whole(transport._bare(seen), b'{"phase":"exited","exit":0}', ended, 0)
        return honest(exchange, seen, answer)

    _reading(patch, read)


def no_status_taken_for_not_executed(patch: Patch) -> None:
    """What every tool does that repeats on 255."""

    def read(honest: Read, exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
        shown = honest(exchange, seen, answer)
        lost = exchange.verb is HostVerb.RUN and seen.exit_status is None and answer is None
        return dataclasses.replace(shown, nothing_left=True) if lost else shown

    _reading(patch, read)


def absent_taken_for_fenced(patch: Patch) -> None:
    """ "Absent now" is not "will not run"."""

    def read(honest: Read, exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
        if answer is not None and answer.phase == "absent":
            answer = dataclasses.replace(answer, phase=RemotePhase.FENCED, reason="not_seen")
        return honest(exchange, seen, answer)

    _reading(patch, read)


def lost_taken_for_not_run(patch: Patch) -> None:
    _meaning(patch, lambda _answer, found: Meaning.NEVER_RAN if found is Meaning.LOST else found)

    def read(honest: Read, exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
        if answer is not None and answer.phase == "lost":
            answer = dataclasses.replace(answer, phase=RemotePhase.FENCED, reason="lost")
        return honest(exchange, seen, answer)

    _reading(patch, read)


def another_store_taken_for_ours(patch: Patch) -> None:
    """A host that was exchanged, asked about what ran on the old one, knows of nothing."""

    def read(honest: Read, exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
        if answer is not None and answer.reason == "store_mismatch" and exchange.verb is not HostVerb.ASK:
            answer = dataclasses.replace(answer, phase=RemotePhase.FENCED, reason="not_seen")
        return honest(exchange, seen, answer)

    _reading(patch, read)


def an_earlier_attempt_on_the_host_overlooked(patch: Patch) -> None:
    """Whoever is refused a second attempt did not run the second: the first may have."""

    def read(honest: Read, exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
        if answer is not None and answer.reason == "attempt_not_fenced":
            return dataclasses.replace(transport._bare(seen), nothing_left=True)
        return honest(exchange, seen, answer)

    _reading(patch, read)
    no_status_taken_for_not_executed(patch)


def refusal_of_a_second_delivery_taken_for_the_first(patch: Patch) -> None:
    """A command that runs already is "busy", so a client concludes that its own did not run."""

    def read(honest: Read, exchange: HostExchange, seen: SshObservation, answer: Answer | None) -> Observation:
        shown = honest(exchange, seen, answer)
        running = answer is not None and answer.phase == "running" and exchange.verb is HostVerb.RUN
        return dataclasses.replace(shown, nothing_left=True, body_complete=False) if running else shown

    _reading(patch, read)


def a_failed_status_command_believed(patch: Patch) -> None:
    """It printed that all is done, and ended with 1."""
    told = transport._told
    patch.setattr(
        transport,
        "_told",
        lambda bare, answer: told(bare, dataclasses.replace(answer, fields={**answer.fields, "exit": 0})),
    )


def a_store_that_was_put_back_believed(patch: Patch) -> None:
    """It has the right identity, and says that it knows of nothing."""
    patch.setattr(canary.Canaries, "beside", lambda *_: ())


RUNNERS = ("runner", "runner_locked", "runner_told")
SSH_CASES = (
    Case(no_status_taken_for_success, RUNNERS, fate="ssh: accepted, torn"),
    Case(no_status_taken_for_not_executed, RUNNERS, fate="ssh: accepted, delivered, cut"),
    Case(absent_taken_for_fenced, RUNNERS, fate="ssh: held, silent"),
    Case(absent_means_never, RUNNERS, 200, fate="ssh: held, silent"),
    Case(repeat_on_time_out, RUNNERS, fate="ssh: accepted, delivered, silent"),
    Case(lost_taken_for_not_run, RUNNERS, fate="host: killed while it runs long"),
    Case(another_store_taken_for_ours, RUNNERS[:2], fate="ssh: accepted, delivered, cut", looks=("other store",)),
    Case(an_earlier_attempt_on_the_host_overlooked, RUNNERS, 200, fate="host: killed while it runs long"),
    Case(a_failed_status_command_believed, ("told", "runner_told"), fate="ssh: asked, lost",
         looks=("status: done, and exit 1",)),
    Case(refusal_of_a_second_delivery_taken_for_the_first, RUNNERS, fate="host: long command"),
)  # fmt: skip


def test_a_restored_store_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    a_store_that_was_put_back_believed(monkeypatch)
    found: list[str] = []

    for seed in range(60):
        world = Simulation(seed, kinds=["runner"])
        put_back(world)
        world.run()
        found = [str(item) for item in check(world)]
        if found:
            break

    assert [text for text in found if text.startswith("I3")]


@pytest.mark.parametrize("case", SSH_CASES, ids=lambda case: case.plant.__name__)
def test_a_planted_bug_is_noticed(
    case: Case, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    plant_and_notice(case, monkeypatch, record_property)
