"""Keys are learned in one place only: shown, compared by a person, confirmed as shown, and a changed one refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from adapters.contract import HostPlace, Presented
from gateway.catalog.declared_hosts import DeclaredHosts
from gateway.core.hostkey import host_key
from gateway.engine.enrolling import Enrolment, Place
from gateway.model.problem import Code, Problem
from gateway.store.port import Record
from tests.unit.adapters.ssh_stand import new_key, public_text
from tests.unit.catalog.commands import KEY, KEYS, changed, checked
from tests.unit.engine.test_outbound_hosts import BASTION, Keys
from tests.unit.engine.workshop import CALLER, PERSON, ElasticClock

OTHER = " ".join(public_text(new_key()).split()[:2])
PLACE = Place("192.0.2.7", 2222)


@dataclass
class Reader:
    """Stands where hosts would."""

    seen: Presented
    asked: list[HostPlace] = field(default_factory=list)

    async def presented(self, place: HostPlace, *, connect_seconds: float, seconds: float) -> Presented:
        self.asked.append(place)
        return self.seen


@dataclass
class Kept:
    """The store's place."""

    values: dict[str, bytes] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    async def meta(self, name: str) -> bytes | None:
        return self.values.get(name)

    async def put_meta(self, name: str, value: bytes, records: Sequence[Record]) -> None:
        self.values[name] = value
        self.records += records


@dataclass
class World:
    enrolment: Enrolment
    reader: Reader
    kept: Kept

    def presents(self, *lines: str, failure: str | None = None) -> None:
        self.reader.seen = Presented(lines, failure)


@pytest.fixture
def world() -> World:
    found = checked(changed((KEYS, f"{KEYS}    jump: bastion\n"), ("actions:\n", BASTION)))
    assert found.catalog is not None
    reader, kept = Reader(Presented((KEY,))), Kept()
    made: Any = kept
    return World(Enrolment(found.catalog.hosts, Keys(), reader, made, ElasticClock()), reader, kept)


async def problem_of(call: Any) -> Problem:
    with pytest.raises(Problem) as raised:
        await call
    return raised.value


async def test_what_is_confirmed_is_recorded_with_who_and_what(world: World) -> None:
    world.presents(OTHER)
    seen = await world.enrolment.offer(PERSON, "db-1", PLACE)
    assert (seen.believed, seen.missing, world.kept.records) == ((), [], [])

    made = await world.enrolment.confirm(PERSON, "db-1", PLACE, seen=seen.digest)
    (record,) = world.kept.records
    assert (record.event, record.body["by"], record.body["host"]) == ("host_enrolled", "ann", "db-1")
    assert record.body["keys"] == [{"algorithm": "ssh-ed25519", "fingerprint": host_key(OTHER).fingerprint}]
    assert (record.body["address"], record.body["port"], record.body["digest"]) == ("192.0.2.7", 2222, made.digest)
    again = await world.enrolment.offer(PERSON, "db-1", PLACE)
    assert again.believed == (host_key(OTHER).fingerprint,)


async def test_another_key_at_the_confirmation_than_was_shown_is_refused(world: World) -> None:
    seen = await world.enrolment.offer(PERSON, "db-1", PLACE)
    world.presents(OTHER)
    problem = await problem_of(world.enrolment.confirm(PERSON, "db-1", PLACE, seen=seen.digest))

    assert problem.code is Code.STALE_DIGEST
    assert world.kept.records == []


@pytest.mark.parametrize("declared", [True, False])
async def test_a_changed_key_is_never_taken_for_a_new_one(world: World, declared: bool) -> None:
    name, place = ("web-1", None) if declared else ("db-1", PLACE)
    first = await world.enrolment.offer(PERSON, name, place)
    await world.enrolment.confirm(PERSON, name, place, seen=first.digest)
    world.presents(OTHER)
    seen = await world.enrolment.offer(PERSON, name, place)
    old = host_key(KEY).fingerprint
    assert seen.missing == [old]

    problem = await problem_of(world.enrolment.confirm(PERSON, name, place, seen=seen.digest))
    assert problem.code is Code.WRONG_STATE
    assert old in problem.detail
    assert host_key(OTHER).fingerprint in problem.detail
    wrong = world.enrolment.confirm(PERSON, name, place, seen=seen.digest, replaces=[host_key(OTHER).fingerprint])
    assert (await problem_of(wrong)).code is Code.WRONG_STATE
    assert len(world.kept.records) == 1

    await world.enrolment.confirm(PERSON, name, place, seen=seen.digest, replaces=[old])
    assert world.kept.records[-1].body["replaces"] == [old]


async def test_there_is_nothing_to_replace_where_nothing_changed(world: World) -> None:
    seen = await world.enrolment.offer(PERSON, "web-1")
    call = world.enrolment.confirm(PERSON, "web-1", seen=seen.digest, replaces=[host_key(KEY).fingerprint])

    assert (await problem_of(call)).code is Code.INVALID_INPUT


async def test_a_further_key_beside_the_one_that_is_believed_changes_nothing(world: World) -> None:
    world.presents(KEY, OTHER)
    seen = await world.enrolment.offer(PERSON, "web-1")

    assert (seen.missing, len(seen.keys)) == ([], 2)
    await world.enrolment.confirm(PERSON, "web-1", seen=seen.digest)


async def test_a_declared_host_is_asked_where_the_catalog_says_by_its_own_way(world: World) -> None:
    await world.enrolment.offer(PERSON, "web-1")
    (place,) = world.reader.asked
    assert (place.address, place.port) == ("web-1.example.com", 22)
    assert place.jump is not None
    assert place.jump.credential.value == "hop-key for ssh://bastion.example.com"

    elsewhere = await problem_of(world.enrolment.offer(PERSON, "web-1", PLACE))
    nowhere = await problem_of(world.enrolment.offer(PERSON, "db-1"))
    assert (elsewhere.code, nowhere.code) == (Code.INVALID_INPUT, Code.INVALID_INPUT)


async def test_a_new_host_may_lie_behind_a_declared_one(world: World) -> None:
    await world.enrolment.offer(PERSON, "db-1", Place("10.0.0.7", jump="bastion", allow_private=True))
    (place,) = world.reader.asked
    assert place.jump is not None
    assert (place.jump.name, place.allow_private) == ("bastion", True)

    unknown = await problem_of(world.enrolment.offer(PERSON, "db-1", Place("10.0.0.7", jump="nowhere")))
    assert unknown.code is Code.INVALID_INPUT


async def test_keys_that_cannot_be_fetched_or_only_in_part_are_not_offered(world: World) -> None:
    world.presents(KEY, failure="the host did not present its keys in time")
    problem = await problem_of(world.enrolment.offer(PERSON, "db-1", PLACE))

    assert (problem.code, "in time" in problem.detail) == (Code.HOST_UNAVAILABLE, True)
    assert "address (192.0.2.7), port (2222)" in problem.guidance


async def test_a_way_that_ends_at_a_jump_host_names_that_one(world: World) -> None:
    world.reader.seen = Presented((), "the jump host refused the connection", 1)
    problem = await problem_of(world.enrolment.offer(PERSON, "web-1"))

    assert "the jump host bastion: address (bastion.example.com), port (22)" in problem.guidance


async def test_a_host_with_certificates_is_shown_with_whose_are_believed() -> None:
    found = checked(changed((KEYS, f'    host_authorities: ["{OTHER}"]\n')))
    assert found.catalog is not None
    kept: Any = Kept()
    enrolment = Enrolment(found.catalog.hosts, Keys(), Reader(Presented((KEY,))), kept, ElasticClock())
    seen = await enrolment.offer(PERSON, "web-1")

    assert (seen.believed, seen.missing, seen.authorities) == ((), [], [host_key(OTHER).fingerprint])


async def test_a_revoked_key_is_not_offered() -> None:
    found = checked(changed((KEYS, f'{KEYS}    revoked_keys: ["{OTHER}"]\n')))
    assert found.catalog is not None
    kept: Any = Kept()
    enrolment = Enrolment(found.catalog.hosts, Keys(), Reader(Presented((KEY, OTHER))), kept, ElasticClock())

    assert (await problem_of(enrolment.offer(PERSON, "web-1"))).code is Code.WRONG_STATE


async def test_agents_enrol_nothing(world: World) -> None:
    for call in (
        world.enrolment.offer(CALLER, "web-1"),
        world.enrolment.confirm(CALLER, "web-1", seen="0" * 64),
    ):
        assert (await problem_of(call)).code is Code.FORBIDDEN
    assert world.reader.asked == []


def test_without_a_catalog_no_host_is_declared() -> None:
    assert DeclaredHosts().get("web-1") is None
