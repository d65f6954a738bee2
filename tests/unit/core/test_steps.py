"""What is kept of a job's steps, and when it may go on: a step with a record never runs again."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from adapters.contract import HostVerb, Observation
from gateway.core.agenda import Act, next_item
from gateway.core.cancels import may_cancel
from gateway.core.events import DeadlinePassed, LeaseLost, Restarted, Restored
from gateway.core.job import Asked, observe_job
from gateway.core.reconcile.fence import place_speaks
from gateway.core.repeat import may_repeat
from gateway.core.steps import in_part, merged, read_step, standstill, story
from gateway.model.operation import Executed, Failure, State
from gateway.model.step import StepSeen, StepState
from tests.unit.core.builders import BEGIN, OP_ID, TIMEOUT, UNSENT, operation
from tests.unit.core.jobs import GAVE_UP, LOST, NAMES, JobStory, MemoryHost, at, job, told

S = StepState
NEW = StepSeen("migrate")


@pytest.mark.parametrize(
    ("seen", "sent", "state", "marker"),
    [
        (told("exited", 0), True, S.SUCCEEDED, 1),
        (told("exited", 3), True, S.FAILED, 1),
        (told("exited", 0), False, S.SUCCEEDED, 1),
        (told("running"), True, S.RUNNING, 1),
        (told("accepted"), True, S.RUNNING, 1),
        (told("unverifiable"), False, S.RUNNING, 1),
        (told("absent"), False, S.NOT_BEGUN, 1),
        (told("lost"), False, S.LOST, 1),
        (LOST, True, S.LOST, 1),
        (told("fenced", reason="fence"), False, S.NEVER_RAN, 1),
        (told("fenced", reason="lock_busy"), False, S.NOT_BEGUN, 2),
        (GAVE_UP, True, S.NOT_BEGUN, 2),
        (UNSENT, True, S.NOT_BEGUN, 1),
        (TIMEOUT, True, S.SENT, 1),
        (TIMEOUT, False, S.SENT, 1),
        (replace(told("absent"), body_complete=False), False, S.SENT, 1),
    ],
)
def test_an_answer_about_a_step_shows_what_the_host_said_and_nothing_more(
    seen: Observation, sent: bool, state: StepState, marker: int
) -> None:
    before = replace(NEW, state=S.SENT)
    shown = read_step(job().steps[1], before, seen, {}, marker_max=3, sent=sent)

    assert (shown.state, shown.marker) == (state, marker)


def test_a_place_that_gave_up_is_followed_by_another_only_while_there_is_one() -> None:
    shown = read_step(job().steps[1], replace(NEW, marker=3), GAVE_UP, {}, marker_max=3, sent=True)

    assert (shown.state, shown.marker) == (S.NEVER_RAN, 3)


@pytest.mark.parametrize(
    ("old", "new", "contradicts"),
    [
        (replace(NEW, state=S.SENT), NEW, False),
        (replace(NEW, state=S.RUNNING), replace(NEW, state=S.SUCCEEDED, exit=0), False),
        (replace(NEW, state=S.RUNNING), replace(NEW, marker=2), False),
        (replace(NEW, state=S.RUNNING), NEW, True),
        (replace(NEW, state=S.LOST), NEW, True),
        (replace(NEW, state=S.SUCCEEDED, exit=0), NEW, True),
        (replace(NEW, state=S.SUCCEEDED, exit=0), replace(NEW, state=S.RUNNING), True),
        (replace(NEW, state=S.SUCCEEDED, exit=0), replace(NEW, state=S.FAILED, exit=1), True),
        (replace(NEW, state=S.SUCCEEDED, exit=0), replace(NEW, state=S.SUCCEEDED, exit=0), False),
    ],
)
def test_a_record_that_is_gone_or_says_something_else_contradicts_itself(
    old: StepSeen, new: StepSeen, contradicts: bool
) -> None:
    kept, contradiction = merged((old,), (new,))

    assert contradiction is contradicts
    assert kept == ((old,) if contradicts else (new,))


def test_late_news_of_a_step_is_only_its_end() -> None:
    done, running = replace(NEW, state=S.SUCCEEDED, exit=0), replace(NEW, state=S.RUNNING)

    assert merged((done,), (running,), late=True) == ((done,), False)
    assert merged((running,), (replace(NEW, state=S.SENT),), late=True) == ((running,), False)
    assert merged((running,), (done,), late=True) == ((done,), False)


@pytest.mark.parametrize("state", [item for item in S if item not in {S.NOT_BEGUN, S.SUCCEEDED}])
def test_a_job_goes_on_only_where_the_host_holds_no_record(state: StepState) -> None:
    steps = (StepSeen("backup", S.SUCCEEDED, 0), StepSeen("migrate", state), StepSeen("restart"))

    assert standstill(job(), operation(steps=steps)) == "step migrate may have begun"
    assert standstill(job(), operation(steps=(steps[0], NEW, steps[2]))) is None
    assert standstill(job(), operation()) == "nothing is known of its steps yet"
    done = tuple(StepSeen(name, S.SUCCEEDED, 0) for name in NAMES)
    assert standstill(job(), operation(steps=done)) == "every step has run"


def test_what_became_of_each_step_is_told_in_one_sentence() -> None:
    steps = (StepSeen("backup", S.SUCCEEDED, 0), StepSeen("migrate", S.FAILED, 3), StepSeen("restart"))

    assert story(steps) == "Of its steps, backup finished; migrate failed with exit status 3; restart has not begun."


def test_a_job_of_which_a_step_has_run_is_never_called_not_executed() -> None:
    not_executed = Failure("not_executed", "It was not executed.")
    ran = operation(steps=(StepSeen("backup", S.SUCCEEDED, 0), NEW))
    lost = operation(steps=(StepSeen("backup", S.LOST), NEW))
    none = operation(steps=(StepSeen("backup", S.NEVER_RAN), NEW))

    executed, failure = in_part(ran, Executed.NO, "fence", not_executed)
    assert (executed, failure.code) == (Executed.YES, "executed_in_part")
    assert "backup finished; migrate has not begun" in failure.detail
    assert in_part(lost, Executed.NO, "fence", not_executed)[0] is Executed.UNKNOWN
    assert in_part(none, Executed.NO, "fence", not_executed) == (Executed.NO, not_executed)
    # What a person says stays what they said.
    assert in_part(ran, Executed.NO, "attestation", not_executed) == (Executed.NO, not_executed)


@pytest.mark.parametrize("state", list(S))
def test_a_job_is_in_doubt_as_long_as_a_step_of_it_has_begun_whatever_became_of_its_attempts(state: StepState) -> None:
    ran = state in {S.RUNNING, S.SUCCEEDED, S.FAILED, S.LOST}

    assert operation(steps=(StepSeen("backup", state),)).ambiguous is ran
    assert not operation(steps=(StepSeen("backup", state),), state=State.FAILED).ambiguous


# -- the life of a job -------------------------------------------------------------------------------------------------


def test_a_job_that_meets_no_fault_takes_one_attempt() -> None:
    story = JobStory.on(MemoryHost()).run_attempt()

    assert story.ending == ("succeeded", "yes", "answer")
    assert story.host.runs == list(NAMES)
    assert story.states == ["succeeded"] * 3


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_loss_between_two_steps_is_unknown_and_the_job_goes_on_at_the_first_without_a_record(fault: str) -> None:
    story = JobStory.on(at(HostVerb.RUN, "restart", fault)).run_attempt()

    assert (story.state, story.operation.ambiguous) == (State.IN_DOUBT, True)
    assert story.states == ["succeeded", "succeeded", "sent"]
    assert next_item(story.action, story.operation, story.wait(1).now).act is Act.PROBE
    story.probe()
    if fault == "after":
        assert story.ending == ("succeeded", "yes", "probe")
    else:
        assert (story.state, story.states[-1]) == (State.READY, "not_begun")
        assert story.wait(1).run_attempt().ending == ("succeeded", "yes", "answer")
    assert story.host.runs == list(NAMES)
    assert [item.verb for item in story.host.asked if item.name == "backup"].count(HostVerb.RUN) == 1


def test_a_gateway_that_dies_between_two_steps_goes_on_after_a_look() -> None:
    story = JobStory.on(at(HostVerb.RUN, "restart", "before")).crash()

    assert (story.state, story.states) == (State.IN_DOUBT, ["sent", "not_begun", "not_begun"])
    assert not may_repeat(story.action, story.operation, story.now).allowed
    assert story.probe().state is State.READY
    assert may_repeat(story.action, story.operation, story.now).rule == "e"
    assert story.wait(1).run_attempt().ending == ("succeeded", "yes", "answer")
    assert story.host.runs == list(NAMES)


def test_nothing_is_sent_again_on_a_look_that_got_no_answer() -> None:
    story = JobStory.on(at(HostVerb.RUN, "migrate", "held"))
    story.run_attempt()
    story.host.fault = lambda _asking: "before"
    for _ in range(5):
        story.wait(5).probe()

    assert story.state is State.IN_DOUBT
    assert len(story.operation.sends) == 1


def test_what_a_restored_store_knows_of_a_job_is_too_old_to_go_on_by() -> None:
    story = JobStory.on(at(HostVerb.RUN, "backup", "unsent")).run_attempt()
    assert (story.state, story.states[0]) == (State.READY, "not_begun")
    story.tell(Restored())
    story.host.fault = lambda _asking: "before"
    for _ in range(4):
        story.wait(5).probe()
    assert (story.state, story.states) == (State.IN_DOUBT, [])

    story.host.fault = lambda _asking: None
    assert story.wait(5).probe().wait(1).run_attempt().ending == ("succeeded", "yes", "answer")


def test_a_step_that_fails_ends_the_job_and_nothing_after_it_is_sent() -> None:
    story = JobStory.on(MemoryHost(exits={"migrate": 3})).run_attempt()

    assert story.ending == ("failed", "yes", "answer")
    failure = story.operation.failure
    assert failure is not None
    assert (failure.code, failure.status) == ("failed_there", 3)
    assert "migrate failed with exit status 3; restart has not begun" in failure.detail
    assert story.host.runs == ["backup", "migrate"]


def test_a_step_that_failed_in_a_later_attempt_speaks_for_the_whole_job() -> None:
    host = at(HostVerb.RUN, "migrate", "before")
    host.exits["restart"] = 1
    story = JobStory.on(host).run_attempt().probe().wait(1).run_attempt()

    assert story.ending == ("failed", "yes", "answer")
    assert host.runs == list(NAMES)


def test_a_step_that_is_found_to_have_failed_speaks_for_every_attempt() -> None:
    host = MemoryHost(exits={"restart": 1})
    faults = {"migrate": "before", "restart": "after"}
    host.fault = lambda asking: faults.pop(asking.name, None) if asking.verb is HostVerb.RUN else None
    story = JobStory.on(host).run_attempt().probe().wait(1).run_attempt().wait(1).probe()

    assert len(story.operation.sends) == 2
    assert story.ending == ("failed", "yes", "probe")
    assert host.runs == list(NAMES)


def test_a_step_that_is_lost_is_never_run_again_and_the_job_stays_unknown() -> None:
    host = at(HostVerb.RUN, "migrate", "after")
    story = JobStory.on(host).run_attempt()
    host.records["migrate", 1] = "lost"
    story.probe()

    assert (story.state, story.states) == (State.IN_DOUBT, ["succeeded", "lost", "not_begun"])
    assert not may_repeat(story.action, story.operation, story.now).allowed
    story.wait(400).tell(DeadlinePassed())
    assert story.state is State.UNRESOLVED
    assert host.runs == ["backup", "migrate"]


def test_attempts_that_bring_the_job_on_do_not_use_up_its_tries() -> None:
    host = MemoryHost(fault=lambda asking: "after" if asking.verb is HostVerb.RUN else None)
    story = JobStory.on(host, replace(job(), attempts_max=1))
    for _ in range(3):
        story.wait(1).run_attempt().probe()
        # Nor do they make it wait: it has not failed at anything.
        assert (story.operation.next_ms or 0) - story.now.wall_ms <= 200

    assert story.ending == ("succeeded", "yes", "probe")
    assert len(story.operation.sends) == 3
    assert host.runs == list(NAMES)


def test_a_job_that_cannot_go_on_is_fenced_and_told_as_executed_in_part() -> None:
    host = at(HostVerb.RUN, "restart", "held", times=9)
    story = JobStory.on(host, replace(job(), attempts_max=2)).run_attempt().probe()
    while story.state is State.READY:
        story.wait(5).run_attempt().wait(5).probe()
    assert next_item(story.action, story.operation, story.now).act is Act.FENCE
    story.fence()

    assert story.ending == ("failed", "yes", "fence")
    assert len(story.operation.sends) == 2 + 2
    assert story.operation.failure is not None
    assert story.operation.failure.code == "executed_in_part"
    assert "migrate finished; restart never ran and never will" in story.operation.failure.detail
    host.arrive()
    assert host.runs == ["backup", "migrate"]


def test_a_step_that_was_seen_at_work_says_nothing_about_the_place_of_another() -> None:
    host = at(HostVerb.RUN, "restart", "held", times=9)
    host.records["migrate", 1] = "running"
    story = JobStory.on(host, replace(job(), attempts_max=1)).run_attempt()
    assert story.operation.evidence[-1].finding.value == "in_progress"
    host.records["migrate", 1] = "exited"
    story.wait(1).probe()
    while story.state is State.READY:
        story.wait(5).run_attempt().wait(5).probe()
    assert next_item(story.action, story.operation, story.now).act is Act.FENCE
    story.fence()

    assert story.ending == ("failed", "yes", "fence")
    assert not place_speaks(story.action, operation(contradicted=True))


def test_a_fence_that_comes_too_late_finds_the_step_at_work() -> None:
    host = at(HostVerb.RUN, "restart", "held", times=9)
    story = JobStory.on(host, replace(job(), attempts_max=1)).run_attempt().probe()
    while story.state is State.READY:
        story.wait(5).run_attempt().wait(5).probe()
    host.arrive()
    story.fence()

    assert story.state is State.IN_DOUBT
    assert story.probe().ending == ("succeeded", "yes", "probe")
    assert host.runs == list(NAMES)


def test_a_fence_that_finds_more_done_than_was_known_is_for_the_next_step_and_says_so() -> None:
    host = at(HostVerb.RUN, "backup", "held", times=9)
    story = JobStory.on(host, replace(job(), attempts_max=1)).run_attempt().probe()
    host.arrive()
    story.fence()

    assert story.states == ["succeeded", "never_ran", "not_begun"]
    assert story.ending == ("failed", "yes", "fence")
    assert host.runs == ["backup"]


def test_a_lost_fence_is_found_standing() -> None:
    host = at(HostVerb.RUN, "backup", "before", times=9)
    story = JobStory.on(host, replace(job(), attempts_max=1)).run_attempt().probe()
    host.fault = lambda asking: "after" if asking.verb is HostVerb.FENCE else None
    story.fence()
    assert story.state is State.IN_DOUBT
    host.fault = lambda _asking: None
    story.wait(5).probe()

    assert story.ending == ("failed", "no", "fence")
    assert host.runs == []


def test_a_busy_lock_uses_up_one_place_and_the_step_is_tried_in_the_next() -> None:
    host = MemoryHost(busy={"migrate"})
    story = JobStory.on(host).run_attempt()
    assert (story.state, story.operation.steps[1].marker) == (State.IN_DOUBT, 2)
    host.busy.clear()
    story.probe().wait(1).run_attempt()

    assert story.ending == ("succeeded", "yes", "answer")
    assert sorted(host.records) == [("backup", 1), ("migrate", 1), ("migrate", 2), ("restart", 1)]


def test_a_lock_that_stays_busy_ends_the_job_as_executed_in_part() -> None:
    host = MemoryHost(busy={"migrate"})
    story = JobStory.on(host).run_attempt()
    while not story.operation.final:
        story.wait(5)
        story.probe() if story.state is State.IN_DOUBT else story.run_attempt()

    assert story.ending == ("failed", "yes", "probe")
    assert story.operation.failure is not None
    assert "migrate never ran and never will" in story.operation.failure.detail
    # The host's own reason stands there, and nothing that would be false of the steps that have run.
    assert "no further. Step migrate (2 of 3): the host says fenced for lock_busy. Of" in story.operation.failure.detail
    assert "before anything was done" not in story.operation.failure.detail
    assert host.runs == ["backup"]


def test_a_host_that_forgot_a_finished_step_is_asked_nothing_more() -> None:
    host = at(HostVerb.RUN, "restart", "before")
    story = JobStory.on(host).run_attempt()
    del host.records["backup", 1]
    story.probe()

    assert (story.state, story.operation.contradicted) == (State.IN_DOUBT, True)
    assert "contradiction" in story.alerts
    assert not may_repeat(story.action, story.operation, story.now).allowed
    assert next_item(story.action, story.operation, story.now).act is not Act.FENCE


def test_a_host_whose_record_says_something_else_by_now_is_believed_neither_time() -> None:
    host = at(HostVerb.RUN, "migrate", "before")
    story = JobStory.on(host).run_attempt().probe()
    host.exits["backup"] = 1
    story.wait(1).run_attempt()

    assert (story.state, story.operation.contradicted) == (State.IN_DOUBT, True)
    assert story.states[0] == "succeeded"
    assert story.wait(1).probe().state is State.IN_DOUBT
    assert host.runs == ["backup"]


def test_a_cancel_sees_more_than_the_attempt_that_it_overtakes_and_neither_contradicts_the_other() -> None:
    host = MemoryHost()
    story = JobStory.on(host).tell(BEGIN)
    host.runs_at_once("backup")
    story.cancel()
    assert (story.state, story.states) == (State.SENDING, ["succeeded", "never_ran", "not_begun"])
    sent = (StepSeen("backup", S.SENT), StepSeen("migrate"), StepSeen("restart"))
    story.observe(observe_job(OP_ID, sent, [Asked(sent[0], TIMEOUT, sent=True)], sending=True), attempt=1)

    assert (story.state, story.operation.contradicted) == (State.IN_DOUBT, False)
    assert story.wait(1).probe().ending == ("failed", "yes", "fence")
    assert host.runs == ["backup"]


def test_late_news_that_contradicts_a_record_settles_nothing() -> None:
    host = MemoryHost()
    story = JobStory.on(host).tell(BEGIN).tell(LeaseLost(), after=60)
    host.runs_at_once("backup")
    story.probe()
    assert story.states == ["succeeded", "not_begun", "not_begun"]
    failed = (StepSeen("backup", S.FAILED, 1), StepSeen("migrate"), StepSeen("restart"))
    asked = [Asked(failed[0], told("exited", 1), sent=True)]
    story.observe(observe_job(OP_ID, failed, asked, sending=True), attempt=1)

    assert (story.state, story.operation.contradicted) == (State.READY, True)
    assert story.states[0] == "succeeded"


def test_a_host_that_forgets_between_the_look_and_the_attempt_is_sent_nothing() -> None:
    host = at(HostVerb.RUN, "restart", "before")
    story = JobStory.on(host).run_attempt().probe()
    host.records.clear()
    story.wait(1).run_attempt()

    assert (story.state, story.operation.contradicted) == (State.IN_DOUBT, True)
    assert host.runs == ["backup", "migrate"]


SEEDS = 200


def _lived(seed: int) -> JobStory:
    """A job on a host that loses questions and answers by chance; gateways die, stores are put back in time."""
    chance = random.Random(seed)
    host = MemoryHost(
        exits={name: chance.choice((0, 0, 0, 0, 1)) for name in NAMES},
        fault=lambda _asking: chance.choice((None, None, None, None, "before", "after", "held", "unsent")),
    )
    story = JobStory.on(host)
    images = [story.operation]
    for _ in range(60):
        if chance.random() < 0.2:
            host.arrive()
        if chance.random() < 0.05:
            story.operation = chance.choice(images)
            story.tell(Restored() if story.state is State.READY and not story.operation.ambiguous else Restarted())
        if chance.random() < 0.02 and may_cancel(story.action, story.operation):
            story.cancel()
        if not story.operation.final:
            images.append(story.operation)
        match next_item(story.action, story.operation, story.now).act:
            case Act.BEGIN:
                story.crash() if chance.random() < 0.2 else story.run_attempt()
            case Act.PROBE:
                story.probe()
            case Act.FENCE:
                story.fence()
            case Act.NOTHING:
                break
            case _:
                story.wait(2)
    host.arrive()
    return story


def test_whatever_is_lost_each_step_runs_at_most_once_and_the_verdict_is_the_hosts_truth() -> None:
    ends: Counter[tuple[str, str]] = Counter()
    for seed in range(SEEDS):
        story = _lived(seed)
        runs, exits = story.host.runs, story.host.exits
        ends[story.state.value, story.operation.executed.value] += 1

        assert runs == list(NAMES[: len(runs)]), seed
        # A fence that a restored store has forgotten is the only thing that can look like a stranger's.
        assert not story.operation.contradicted or "fence" in story.host.records.values(), seed
        done = len(runs) == len(NAMES) and not any(exits.values())
        if story.state is State.SUCCEEDED:
            assert done, seed
        elif story.state is State.FAILED:
            assert not done, seed
            assert story.operation.executed is (Executed.YES if runs else Executed.NO), seed

    assert {("succeeded", "yes"), ("failed", "yes"), ("failed", "no")} <= ends.keys(), ends
