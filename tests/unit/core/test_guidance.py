"""What a model is told in every situation, word by word; and that nothing of anyone's input is told back."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from adapters.contract import HostVerb
from gateway.core.events import Cancelled, CancelObserved, DeadlinePassed, Followed, HeadSeen, Polled, Sighting
from gateway.core.guidance import Next, guidance, next_step, nothing_cancelled
from gateway.model.action import Action, Marker
from gateway.model.evidence import Finding
from gateway.model.operation import (
    Attempt,
    Attestation,
    Executed,
    Failure,
    Handle,
    Kind,
    Standing,
    State,
)
from tests.unit.catalog.commands import compiled
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    LOOK_UP,
    STATE,
    T0,
    TIMEOUT,
    UNSENT,
    Story,
    action,
    answer,
    operation,
    read,
    statuses,
)
from tests.unit.core.jobs import JobStory, MemoryHost, at, job, told
from tests.unit.core.stories import (
    ATTEST_ERROR,
    ATTEST_SUCCESS,
    CANCEL,
    HANDLE,
    STORIES,
    accepted,
    followed,
    looked_up,
    lost_lease,
    on_host,
    plain,
    reading,
    repeating,
    unresolved,
    unresolved_on_host,
)


def _poll(story: Story, finding: Finding) -> Story:
    return story.tell(Polled(Sighting(finding, "seen"), story.now.wall_ms))


def _lost_step() -> Story:
    host = at(HostVerb.RUN, "migrate", "after")
    story = JobStory.on(host).run_attempt()
    host.records["migrate", 1] = "lost"
    return story.probe().wait(400).tell(DeadlinePassed())


def test_a_step_keeps_the_name_that_the_catalog_gives_it() -> None:
    """What is said of a command speaks of its host, not of a service; a name is no such word."""
    story = _lost_step()

    def renamed(steps: Any) -> Any:
        return tuple(replace(step, name="service") if step.name == "migrate" else step for step in steps)

    operation = replace(story.operation, steps=renamed(story.operation.steps))
    action = replace(story.action, steps=renamed(story.action.steps))
    assert guidance(operation, action, now_ms=T0).startswith("Step service (2 of 3) ")


def _job_in_doubt() -> JobStory:
    return JobStory.on(at(HostVerb.RUN, "restart", "before")).run_attempt()


def _command() -> Action:
    return compiled()


def _superseded() -> Story:
    story = unresolved()
    story.operation = replace(story.operation, superseded=True)
    return story


def _unwatched() -> Story:
    story = Story(action(reconcile=replace(LOOK_UP, watch_seconds=0.0)))
    return story.in_doubt().look(Finding.INCONCLUSIVE, after=400)


def _bad_output() -> Story:
    story = plain().send(answer(200))
    story.operation = replace(story.operation, output_valid=False)
    return story


def attested(executed: Executed) -> Story:
    return unresolved().tell(replace(ATTEST_ERROR, executed=executed))


def failed_there(executed: Executed | None) -> Story:
    return looked_up().in_doubt().look(Finding.EXECUTED_FAILED, executed=executed)


SITUATIONS: dict[str, Callable[[], Story]] = {
    "held": lambda: Story(action(), operation(state=State.HELD)),
    "ready, fresh": plain,
    "ready, nothing left": lambda: plain().send(UNSENT),
    "ready, ambiguous": repeating,
    "ready, read again": lambda: reading().send(TIMEOUT),
    "sending": lambda: plain().tell(BEGIN),
    "accepted": accepted,
    "accepted, contradicted": lambda: (
        lost_lease(followed()).tell(HeadSeen(1, HANDLE, None), Followed()).observe(answer(403))
    ),
    "in doubt": lambda: looked_up().in_doubt(),
    "in doubt, next look known": lambda: looked_up().in_doubt().look(Finding.ABSENT).look(Finding.ABSENT),
    "in doubt, contradicted": lambda: looked_up().in_doubt().look(Finding.INCONCLUSIVE, contradiction=True),
    "unresolved, watched": unresolved,
    "unresolved, watch over": _unwatched,
    "unresolved, no look-up": lambda: plain().in_doubt(),
    "unresolved, contradicted": lambda: unresolved().look(Finding.INCONCLUSIVE, contradiction=True),
    "unresolved, superseded": _superseded,
    "a job in doubt": lambda: JobStory.on(at(HostVerb.RUN, "restart", "before")).run_attempt(),
    "a job about to go on": lambda: JobStory.on(at(HostVerb.RUN, "restart", "before")).run_attempt().probe(),
    "a job unresolved, a step lost": _lost_step,
    "a job unresolved before a step": lambda: (
        JobStory.on(at(HostVerb.RUN, "migrate", "before")).run_attempt().wait(400).probe()
    ),
    "a job failed in part": lambda: JobStory.on(MemoryHost(exits={"migrate": 3})).run_attempt(),
    "a job of which nothing ran": lambda: (
        JobStory.on(at(HostVerb.RUN, "backup", "before"), replace(job(), attempts_max=1)).run_attempt().probe().fence()
    ),
    "sending, told to stop": lambda: on_host().tell(BEGIN, CANCEL),
    "sending, not reached to be told": lambda: on_host().tell(BEGIN, CANCEL, CancelObserved(2, UNSENT, None)),
    "in doubt, told to stop": lambda: on_host().in_doubt().tell(CANCEL),
    "in doubt, not reached to be told": lambda: on_host().in_doubt().tell(CANCEL, CancelObserved(2, UNSENT, None)),
    "in doubt, reached the second time": lambda: (
        on_host().in_doubt().tell(CANCEL, CancelObserved(2, UNSENT, None), CANCEL)
    ),
    "a job in doubt, being told to stop": lambda: _job_in_doubt().tell(CANCEL),
    "a job in doubt, told to stop": lambda: _job_in_doubt().tell(CANCEL, CancelObserved(2, answer(0), fenced=False)),
    "a job in doubt, not reached to be told": lambda: _job_in_doubt().tell(CANCEL, CancelObserved(2, UNSENT, None)),
    "failed, after it was told to stop": lambda: (
        Story(_command())
        .tell(BEGIN, CANCEL, CancelObserved(2, told("running"), fenced=False))
        .observe(told("exited", 143), attempt=1)
    ),
    "failed on a host": lambda: Story(_command()).send(told("exited", 3)),
    "unresolved on a host": unresolved_on_host,
    "succeeded by its answer": lambda: plain().send(answer(201)),
    "succeeded, answer of the wrong form": _bad_output,
    "succeeded by its handle": lambda: _poll(accepted(), Finding.EXECUTED_OK),
    "succeeded by a look": lambda: looked_up().in_doubt().look(Finding.EXECUTED_OK),
    "succeeded by state": lambda: (
        Story(action(reconcile=STATE), operation(baseline="absent")).in_doubt().look(Finding.EXECUTED_OK)
    ),
    "succeeded by attestation": lambda: unresolved().tell(ATTEST_SUCCESS),
    "succeeded, contradicted": lambda: looked_up().in_doubt().look(Finding.EXECUTED_OK).look(Finding.EXECUTED_FAILED),
    "failed, rejected": lambda: plain().send(answer(403)),
    "failed, turned away": lambda: Story(action(refused_before_work=statuses(429))).send(answer(429)),
    "failed, never left": lambda: Story(action(attempts_max=1)).send(UNSENT),
    "failed, absent": STORIES["in_doubt", "absence", "failed"],
    "failed, fenced": STORIES["in_doubt", "fenced", "failed"],
    "failed there": lambda: failed_there(None),
    "failed there, before anything was done": lambda: failed_there(Executed.NO),
    "failed there, nobody knows how far": lambda: failed_there(Executed.UNKNOWN),
    "failed, attested as not executed": lambda: attested(Executed.NO),
    "failed, attested as executed": lambda: attested(Executed.YES),
    "failed, attested as unknown": lambda: attested(Executed.UNKNOWN),
    "failed, contradicted": lambda: attested(Executed.NO).look(Finding.EXECUTED_OK),
    "failed read, no answer": lambda: Story(read(attempts_max=1), operation(effect="read")).send(TIMEOUT),
    "failed read, refused": lambda: reading().send(answer(404)),
    "cancelled": lambda: plain().tell(Cancelled("agent")),
    "cancelled, too late": lambda: plain().tell(DeadlinePassed(), after=3600),
    "cancelled, contradicted": lambda: looked_up().tell(Cancelled("agent")).look(Finding.EXECUTED_OK),
}


GOLDEN = Path(__file__).parents[2] / "golden" / "guidance.txt"


def page() -> str:
    """Every situation with its next step and its text."""
    parts = []
    for name, happened in SITUATIONS.items():
        story = happened()
        told = guidance(story.operation, story.action, now_ms=story.now.wall_ms)
        parts.append(f"{name} [{next_step(story.operation)}]\n    {told}\n")
    return "\n".join(parts)


def test_what_is_told_in_each_situation() -> None:
    # To change a text, change it there as well and read the page once as a model would.
    assert page() == GOLDEN.read_text()


def test_every_next_step_is_reached() -> None:
    assert {next_step(happened().operation) for happened in SITUATIONS.values()} == set(Next)


SECRET = "s3cr3t-input"
CODES = ["", "rejected", "refused", "not_sent", "not_executed", "failed_there", "too_late", "no_answer", "attested"]
BASES = [None, "answer", "handle", "probe", "state", "fence", "absence", "unsent", "attestation"]


def _every_operation() -> list[Any]:
    lost = Attempt(1, Kind.SEND, 1, T0, 0, "boot-1", Standing.DOUBT, observation=SECRET)
    plain_one = operation(
        id=SECRET, caller=SECRET, key=SECRET, run=SECRET, target_url=SECRET, outward_id=SECRET, conflict_key=SECRET,
        correlation_id=SECRET, fingerprint=SECRET, attestation=Attestation(SECRET, SECRET, SECRET, T0),
    )  # fmt: skip
    cases = product(State, [(), (lost,)], Executed, BASES, CODES, [False, True], ["read", "irreversible"])
    return [
        replace(
            plain_one, state=state, attempts=attempts, executed=executed, basis=basis, contradicted=contradicted,
            effect=effect, failure=Failure(code, SECRET, 403), handle=Handle(SECRET, 1) if attempts else None,
        )
        for state, attempts, executed, basis, code, contradicted, effect in cases
    ]  # fmt: skip


def test_every_combination_is_told_in_at_most_three_sentences_without_anyones_input() -> None:
    rules = {"read": read(description=SECRET), "irreversible": action(name=SECRET, accepted=ACCEPTED)}
    on_hosts = rules | {"irreversible": action(name=SECRET, reconcile=LOOK_UP, marker=Marker.RUNNER)}
    for live, rule in product(_every_operation(), (rules, on_hosts)):
        told = guidance(live, rule[live.effect], now_ms=T0)

        assert SECRET not in told
        assert told.count(". ") + 1 <= 3, told
        assert told.endswith(".")
        assert len(told) < 400
        assert next_step(live) in set(Next)


def test_while_it_may_have_been_carried_out_the_same_request_is_never_suggested() -> None:
    for live in _every_operation():
        if live.ambiguous and live.effect != "read":
            told = guidance(live, action(accepted=ACCEPTED), now_ms=T0)

            assert "o not send it again" in told or "o not submit it again" in told
            assert "ubmit a new operation" not in told
            assert next_step(live) in {Next.WAIT, Next.DO_NOT_REPEAT, Next.ASK_PERSON}


def test_a_read_that_was_answered_may_be_made_again() -> None:
    settled = Story(read()).send(answer(200)).operation

    assert guidance(settled, read(), now_ms=T0).endswith("It is done.")
    unfit = guidance(replace(settled, output_valid=False), read(), now_ms=T0)
    assert unfit.endswith("The answer does not have the declared form.")


def test_a_cancel_that_came_after_the_end_says_that_it_did_nothing() -> None:
    assert nothing_cancelled(operation(state=State.SUCCEEDED)) == "It had already ended: nothing was cancelled."
    assert nothing_cancelled(operation(state=State.FAILED)) == "It had already ended: nothing was cancelled."
    assert nothing_cancelled(operation(state=State.CANCELLED)) == "It had already been cancelled."


def test_an_answer_that_came_is_not_called_lost() -> None:
    for seen, words in ((TIMEOUT, "its answer was lost"), (answer(503), "its answer did not say so")):
        story = looked_up().send(seen).look(Finding.EXECUTED_OK)
        assert story.operation.basis == "probe"
        assert words in guidance(story.operation, story.action, now_ms=T0)
