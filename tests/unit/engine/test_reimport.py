"""After a restore, what only the log knows is never done a second time; outcomes are asked for again, not believed."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from audit.export import Exporter, Row
from audit.keyring import KeyProblem, RecipientKey, Role
from audit.log import segment_name, segments
from audit.show import show
from gateway.engine.keys import Keys
from gateway.engine.reimport import Knowledge, Logged, Reimport, Reimported, read_logs
from gateway.engine.revive import Revival
from gateway.model.principal import PrincipalKind
from gateway.model.problem import Code, Problem
from gateway.store.inloop import InLoopStore, Medium
from gateway.store.port import Refused
from tests.unit.audit.logs import Journal, entropy
from tests.unit.core.builders import TIMEOUT, UNSENT, answer
from tests.unit.engine.keeping import CountedChance
from tests.unit.engine.workshop import ABSENT, CALLER, DONE, Workshop, definitions, open_workshop


async def export(store: InLoopStore, log: Journal) -> None:
    exporter = Exporter(log.directory)
    exporter.export([Row(item.segment, item.seq, item.frame) for item in await store.tail(10_000, origin=log.origin)])
    exporter.close()


def back_up(path: Path, copy: Path) -> None:
    with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()


@dataclass
class Restored:
    """A gateway whose store was set back to a backup, and the log that knows what came after it."""

    shop: Workshop
    log: Journal
    ids: dict[str, str]
    key_id: str

    @property
    def known(self) -> Knowledge:
        return read_logs([self.log.directory], self.log.auditor)

    async def take_back(self, known: Knowledge | None) -> Reimported:
        work = Reimport(self.shop.assembly.journal, Revival(self.shop.store, definitions()))
        return await work.apply(known)

    async def state(self, name: str) -> str:
        stored = await self.shop.store.get(self.ids[name])
        assert stored is not None
        return stored.state.value + (", ambiguous" if stored.ambiguous else "")


BEFORE = ("untouched", "sent since", "done since", "cancelled since", "given up since", "read")


@pytest.fixture
async def restored(tmp_path: Path) -> Restored:
    """Before the backup six operations wait to be sent again; then four of them go on, and three new ones come."""
    log, ids = Journal(), dict[str, str]()
    shop = await open_workshop(Medium(tmp_path / "store.db"), log=log)
    keys = Keys(shop.store, shop.clock, CountedChance())
    key_id = (await keys.create(PrincipalKind.CALLER, "agent-a", "ann", by="ann")).line.key_id
    for name in BEFORE:
        action = "read" if name == "read" else "make"
        (shop.outside.reads if name == "read" else shop.outside.writes).append(UNSENT)
        ids[name] = await shop.submit(action, name=name.replace(" ", "-"))
    back_up(tmp_path / "store.db", tmp_path / "backup.db")

    recovery, gateway = shop.assembly.recovery, shop.assembly.gateway
    await gateway.cancel(CALLER, ids["cancelled since"])
    shop.clock.move(5)
    for name, seen in (("sent since", TIMEOUT), ("done since", DONE)):
        shop.outside.writes.append(seen)
        live = recovery.find(ids[name])
        assert live is not None
        recovery.nudge(live)
        await shop.quiet()
    for name, seen in (("new, done", DONE), ("new, in doubt", TIMEOUT), ("new, refused", answer(400))):
        shop.outside.writes.append(seen)
        ids[name] = await shop.submit("make", name=name[5:].replace(" ", "-"), key=name.replace(" ", "-"))
    # Its deadline passes before it is sent once more: an end without another attempt.
    shop.clock.move(60)
    recovery.nudge(shop.live(ids["given up since"]))
    await shop.quiet()
    # The others are restored within their deadlines.
    shop.clock.move(-60)
    await keys.revoke(key_id, by="ann")
    await export(shop.store, log)
    await shop.die()

    after = Journal("gw.example/audit/test-2", seed="after")
    again = await open_workshop(Medium(tmp_path / "backup.db"), shop.clock, log=after)
    return Restored(again, log, ids, key_id)


async def test_what_the_log_knows_is_taken_back_and_nothing_more(restored: Restored) -> None:
    done = await restored.take_back(restored.known)

    assert done == Reimported(buried=3, doubted=3, cancelled=1, revoked=1)
    assert {name: await restored.state(name) for name in BEFORE} == {
        "untouched": "ready",
        "sent since": "in_doubt, ambiguous",
        "done since": "in_doubt, ambiguous",
        "cancelled since": "cancelled",
        "given up since": "in_doubt, ambiguous",
        "read": "ready",
    }
    await restored.shop.close()


async def test_everything_may_be_done_twice(restored: Restored) -> None:
    await restored.take_back(restored.known)
    states = [await restored.state(name) for name in BEFORE]

    assert await restored.take_back(restored.known) == Reimported()
    assert [await restored.state(name) for name in BEFORE] == states
    await restored.shop.close()


async def test_a_lost_operation_keeps_its_key_for_itself(restored: Restored) -> None:
    await restored.take_back(restored.known)
    for name in ("new, done", "new, in doubt", "new, refused"):
        with pytest.raises(Problem) as gone:
            await restored.shop.begin("make", name=name[5:].replace(" ", "-"), key=name.replace(" ", "-"))
        assert gone.value.operation_id == restored.ids[name]
    assert restored.shop.outside.exchanges == []
    await restored.shop.close()


async def test_what_a_lost_operation_may_have_done_is_not_done_again_under_another_key(restored: Restored) -> None:
    await restored.take_back(restored.known)
    codes = {}
    for name in ("new, done", "new, in doubt"):
        with pytest.raises(Problem) as refused:
            await restored.shop.begin("make", name=name[5:].replace(" ", "-"))
        codes[name] = refused.value.code
    assert codes == {"new, done": Code.PROBABLE_REPEAT, "new, in doubt": Code.PREDECESSOR_UNSETTLED}
    # Of this one the log says that it was refused: nothing was done, so that it may be asked for anew.
    restored.shop.outside.writes.append(DONE)
    await restored.shop.submit("make", name="refused")
    await restored.shop.close()


async def test_outcomes_are_not_taken_from_the_log(restored: Restored) -> None:
    await restored.take_back(restored.known)
    stored = await restored.shop.store.get(restored.ids["done since"])

    assert stored is not None
    assert (stored.final, stored.basis) == (False, None)
    await restored.shop.close()


async def test_a_key_that_was_revoked_since_is_revoked_again_when_it_was(restored: Restored) -> None:
    await restored.take_back(restored.known)
    (key,) = await restored.shop.store.keys()

    assert key.revoked_ms == restored.known.revoked[restored.key_id]
    await restored.shop.close()


async def test_without_a_log_nothing_that_seems_unsent_is_believed_to_be_so(restored: Restored) -> None:
    done = await restored.take_back(None)

    assert done == Reimported(doubted=5)
    assert {await restored.state(name) for name in BEFORE[:-1]} == {"in_doubt, ambiguous"}
    assert await restored.state("read") == "ready"
    await restored.shop.close()


async def test_what_was_put_in_doubt_is_looked_for_and_not_sent(restored: Restored) -> None:
    await restored.take_back(restored.known)
    await restored.shop.assembly.recovery.take_over()
    restored.shop.assembly.driver.writes_held = True
    restored.shop.outside.reads += [ABSENT] * 4
    await restored.shop.pass_on(5)

    looks = {line for line in restored.shop.outside.sent if line.startswith("GET /things/by-key/")}
    doubted = ("sent since", "done since", "given up since")
    assert looks == {f"GET /things/by-key/{restored.ids[name]}" for name in doubted}
    assert restored.shop.outside.posts == 0
    await restored.shop.close()


async def test_every_change_is_on_record_in_the_new_log(restored: Restored) -> None:
    await restored.take_back(restored.known)
    new = Journal("gw.example/audit/test-2", seed="after")
    await export(restored.shop.store, new)
    events = [content["ev"] for content in _contents(new)]

    assert events.count("operations_lost") == 1
    assert events.count("key_revoked") == 1
    assert events.count("cancel") == 1
    await restored.shop.close()


def _contents(log: Journal) -> list[dict[str, object]]:
    return [dict(shown.content) for shown in show(log.directory, log.auditor)]


# -- reading --------------------------------------------------------------------------------------------------------


async def test_what_a_log_tells_of_an_operation(restored: Restored) -> None:
    known = restored.known.operations
    cancelled, done = known[restored.ids["cancelled since"]], known[restored.ids["new, done"]]

    assert (cancelled.state, cancelled.attempts, cancelled.executed) == ("cancelled", 1, "no")
    assert (done.state, done.attempts, done.executed) == ("succeeded", 1, "yes")
    assert done.names is not None
    assert (done.names["caller"], done.names["key"]) == ("agent-a", "new,-done")
    assert known[restored.ids["sent since"]].attempts == 2
    await restored.shop.close()


async def test_logs_are_read_one_after_the_other(restored: Restored) -> None:
    first = restored.known
    both = read_logs([restored.log.directory, restored.log.directory], restored.log.auditor)

    assert both.operations.keys() == first.operations.keys()
    assert read_logs([], restored.log.auditor) == Knowledge()
    await restored.shop.close()


async def test_an_operation_whose_admission_is_not_in_the_log_is_not_buried(restored: Restored) -> None:
    known = Knowledge({"op_older": Logged(records=3, attempts=1, state="sending")})

    assert (await restored.take_back(known)).buried == 0
    await restored.shop.close()


async def test_a_log_that_is_damaged_is_refused_whole_and_in_words(restored: Restored) -> None:
    directory = restored.log.directory
    name = segment_name(segments(directory)[0])
    content = bytearray(directory.files()[name])
    content[len(content) // 2] ^= 1
    directory.put(name, bytes(content))

    with pytest.raises(Refused, match="Nothing was taken from it"):
        read_logs([directory], restored.log.auditor)
    await restored.shop.close()


async def test_a_stranger_s_key_opens_nothing(restored: Restored) -> None:
    stranger = RecipientKey.generate(Role.AUDITOR, "auditor", entropy("stranger"))

    with pytest.raises(KeyProblem):
        read_logs([restored.log.directory], stranger)
    await restored.shop.close()
