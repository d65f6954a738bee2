"""What people have done on a host: submitted with the right words, and refused where evidence would be lost by it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.assembly import StoredDefinitions
from gateway.core.ids import format_id
from gateway.engine.upkeep import ATTEMPTS_MAX, Upkeep
from gateway.hosting import built_in
from gateway.model.action import Action
from gateway.model.operation import Operation, State
from gateway.model.problem import Code, Problem
from gateway.model.step import StepSeen, StepState
from tests.unit.catalog.commands import changed, checked
from tests.unit.core.builders import OP_ID, T0, operation
from tests.unit.core.jobs import NAMES, job
from tests.unit.engine.test_outbound_hosts import BASTION
from tests.unit.engine.workshop import PERSON, ElasticClock

FOREIGN = format_id(T0.to_bytes(6, "big") + bytes(10))
HELD: dict[str, Any] = {
    "lock": "web", "number": 3, "state": "held", "holder": OP_ID, "holder_attempt": 1, "holder_phase": "lost",
    "until": 9, "digest": "d" * 64,
}  # fmt: skip


@dataclass
class World:
    """Everything around it; `submitted` is what came out."""

    definitions: StoredDefinitions
    known: Action
    operations: list[Operation] = field(default_factory=list)
    lock_seen: dict[str, Any] = field(default_factory=lambda: dict(HELD))
    submitted: list[tuple[Action, Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=list)

    async def submit_built_in(
        self, principal: Any, action: Action, arguments: Mapping[str, Any], *, key: str | None, noted: Mapping[str, Any]
    ) -> str:
        assert principal is PERSON
        assert self.definitions.validate(action, dict(arguments)) == []
        self.submitted.append((action, arguments, noted["upkeep"]))
        return "a view"

    async def get(self, operation_id: str) -> Operation | None:
        return next((item for item in self.operations if item.id == operation_id), None)

    async def unsettled(self) -> Sequence[Operation]:
        return [item for item in self.operations if not item.final]

    async def lock(self, name: str, lock: str) -> Mapping[str, Any]:
        return self.lock_seen

    def stored(self, name: str) -> Any:
        found = self.definitions.hosts.get(name)
        if found is None:
            raise Problem(Code.NOT_FOUND, "There is no such host.")
        return found

    async def action(self, known: Operation) -> Action:
        return self.known

    @property
    def upkeep(self) -> Upkeep:
        parts: Any = self
        return Upkeep(parts, parts, definitions=self.definitions, store=parts, revival=parts, clock=ElasticClock())

    def has(self, **changes: Any) -> None:
        self.operations.append(operation(target_url="ssh://deploy@web-1.example.com", **changes))

    @property
    def only(self) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
        ((action, arguments, noted),) = self.submitted
        return action.name, arguments, noted


@pytest.fixture
def world() -> World:
    found = checked(changed(("actions:\n", BASTION)))
    assert found.catalog is not None
    declared = [found.catalog.definition(action) for action in found.catalog.actions.values()]
    hosts = found.catalog.hosts
    definitions = StoredDefinitions(declared, hosts, built_in=built_in(hosts))
    return World(definitions, definitions.actions["release.migrate"])


async def problem_of(call: Any) -> Problem:
    with pytest.raises(Problem) as raised:
        await call
    return raised.value


async def test_an_unknown_operation_is_fenced_for_every_attempt_and_by_the_time_in_its_id(world: World) -> None:
    await world.upkeep.fence(PERSON, "web-1", FOREIGN, reason="lost")

    assert world.only == (
        "host.fence",
        {"host": "web-1", "target": FOREIGN, "issued_ms": T0, "attempts": ATTEMPTS_MAX},
        {"target": FOREIGN, "reason": "lost"},
    )


async def test_a_settled_operation_is_fenced_as_its_own_definition_says(world: World) -> None:
    world.has(state=State.FAILED, begun_ms=T0 + 7)
    await world.upkeep.fence(PERSON, "web-1", OP_ID)

    _, arguments, noted = world.only
    assert (arguments["issued_ms"], arguments["attempts"], noted) == (T0 + 7, 3, {"target": OP_ID})


async def test_of_a_settled_job_the_first_unfinished_step_is_fenced(world: World) -> None:
    """Under the id of the job itself the host keeps nothing, so a fence there would stop no copy of a step."""
    world.known = job()
    world.has(state=State.FAILED, begun_ms=T0, steps=(StepSeen("backup", StepState.SUCCEEDED, 0),))
    await world.upkeep.fence(PERSON, "web-1", OP_ID)
    assert world.only[1]["target"] == f"{OP_ID}.migrate"

    world.submitted.clear()
    await world.upkeep.fence(PERSON, "web-1", f"{OP_ID}.restart")
    assert world.only[1]["target"] == f"{OP_ID}.restart"


@pytest.mark.parametrize(
    "steps",
    [
        tuple(StepSeen(name, StepState.SUCCEEDED, 0) for name in NAMES),
        (StepSeen("backup", StepState.SUCCEEDED, 0), StepSeen("migrate", StepState.FAILED, 3)),
    ],
)
async def test_a_job_that_has_nothing_left_to_begin_is_not_said_to_be_fenced(
    world: World, steps: tuple[StepSeen, ...]
) -> None:
    world.known = job()
    world.has(state=State.FAILED, begun_ms=T0, steps=steps)

    problem = await problem_of(world.upkeep.fence(PERSON, "web-1", OP_ID))
    assert (problem.code, "there is nothing to fence" in problem.detail) == (Code.WRONG_STATE, True)
    assert world.submitted == []


@pytest.mark.parametrize("state", [State.SENDING, State.IN_DOUBT, State.UNRESOLVED])
async def test_what_is_not_settled_here_is_not_fenced_behind_its_own_back(world: World, state: State) -> None:
    world.has(state=state)
    for target in (OP_ID, f"{OP_ID}.migrate"):
        problem = await problem_of(world.upkeep.fence(PERSON, "web-1", target))
        assert (problem.code, problem.operation_id) == (Code.WRONG_STATE, OP_ID)
    assert world.submitted == []


async def test_what_is_no_operation_is_refused(world: World) -> None:
    assert (await problem_of(world.upkeep.fence(PERSON, "web-1", "op_x"))).code is Code.INVALID_INPUT


async def test_a_lock_is_set_aside_with_what_was_shown_on_record(world: World) -> None:
    await world.upkeep.unlock(PERSON, "web-1", "web", seen="d" * 64, reason="power cut")

    name, arguments, noted = world.only
    assert (name, arguments) == ("host.unlock", {"host": "web-1", "lock": "web", "number": 3})
    assert noted == {
        "lock": "web", "number": 3, "holder": OP_ID, "holder_phase": "lost", "until": 9, "reason": "power cut",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "seen", "code"),
    [
        ({"state": "free"}, "d" * 64, Code.WRONG_STATE),
        ({"holder_phase": "running"}, "d" * 64, Code.WRONG_STATE),
        ({}, "e" * 64, Code.STALE_DIGEST),
    ],
)
async def test_a_lock_stays_that_is_free_or_alive_or_was_not_seen(
    world: World, changes: dict[str, Any], seen: str, code: Code
) -> None:
    world.lock_seen |= changes

    assert (await problem_of(world.upkeep.unlock(PERSON, "web-1", "web", seen=seen, reason="x"))).code is code
    assert world.submitted == []


async def test_a_collection_goes_back_as_far_as_asked(world: World) -> None:
    now_ms = ElasticClock().wall_ms()
    await world.upkeep.collect(PERSON, "web-1", older_than_seconds=60)

    assert world.only[1] == {"host": "web-1", "before_ms": now_ms - 60_000}


async def test_a_collection_never_reaches_what_is_not_settled_here(world: World) -> None:
    """Its record on the host may be the only evidence there is."""
    begun = ElasticClock().wall_ms() - 90_000
    world.has(state=State.UNRESOLVED, begun_ms=begun)
    world.has(id=FOREIGN, state=State.FAILED, begun_ms=begun - 5)
    await world.upkeep.collect(PERSON, "web-1", older_than_seconds=60)

    assert world.only[1]["before_ms"] == begun - 1


async def test_an_age_before_the_beginning_of_time_is_refused(world: World) -> None:
    problem = await problem_of(world.upkeep.collect(PERSON, "web-1", older_than_seconds=10**10))

    assert problem.code is Code.INVALID_INPUT


async def test_a_host_that_is_not_there_or_keeps_nothing_is_refused(world: World) -> None:
    for name in ("web-9", "bastion"):
        assert (await problem_of(world.upkeep.collect(PERSON, name, older_than_seconds=60))).code is Code.NOT_FOUND
