"""Results beside the log: on disk before they are named, once however often offered, never worth an outcome."""

import errno
from dataclasses import dataclass, field, replace

from audit.blobs import BlobRef, blob_names, read_blob
from audit.boxes import BOX
from audit.memory import MemoryDirectory
from gateway.engine.live import Live
from gateway.engine.log_results import LogResults
from gateway.store.port import Record
from tests.unit.core.builders import UNSENT
from tests.unit.engine.keeping import CountedChance
from tests.unit.engine.workshop import Workshop

RESULT = b'"' + b"x" * 70_000 + b'"'
RECORDS = (Record("observation", {"attempt": 1}, "op"), Record("outcome", {"state": "succeeded"}, "op"))


class Full(MemoryDirectory):
    """A folder whose disk takes nothing while it is full."""

    is_full = True

    def open(self, name: str, *, fresh: bool = False) -> object:  # type: ignore[override]  # only ever fails here
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().open(name, fresh=fresh)


@dataclass
class Shelf:
    """Results of more than a record holds, in a folder in memory."""

    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    alerts: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = LogResults(self.directory, CountedChance(), over_bytes=65_000)
        self.results.alert = lambda name, reason: self.alerts.append((name, reason))


async def a_live(shop: Workshop) -> Live:
    shop.outside.writes.append(UNSENT)
    return shop.live(await shop.submit("make"))


def test_only_what_is_larger_than_a_record_is_wanted() -> None:
    results = Shelf().results
    assert [results.wants(b"x" * size) for size in (0, 65_000, 65_001)] == [False, False, True]


async def test_the_outcome_names_what_is_on_disk_then(shop: Workshop) -> None:
    shelf, live = Shelf(), await a_live(shop)
    observation, outcome = await shelf.results.name(live, RECORDS, RESULT)
    (named,) = outcome.body["blobs"]
    assert named["what"] == "result"
    ref = BlobRef.from_json(named)
    assert b"".join(read_blob(shelf.directory, ref)) == RESULT
    assert blob_names(shelf.directory) == [ref.name]
    assert observation == RECORDS[0]
    assert outcome.body["state"] == "succeeded"
    assert not shelf.alerts


async def test_a_result_that_is_offered_again_is_not_written_again(shop: Workshop) -> None:
    shelf, live = Shelf(), await a_live(shop)
    first = await shelf.results.name(live, RECORDS, RESULT)
    assert await shelf.results.name(live, RECORDS, RESULT) == first
    assert len(blob_names(shelf.directory)) == 1
    await shelf.results.name(live, RECORDS, RESULT + b" ")
    assert len(blob_names(shelf.directory)) == 2


async def test_without_an_outcome_nothing_is_kept(shop: Workshop) -> None:
    shelf = Shelf()
    assert await shelf.results.name(await a_live(shop), RECORDS[:1], RESULT) == RECORDS[:1]
    assert blob_names(shelf.directory) == []


async def test_a_full_disk_costs_the_copy_and_not_the_outcome_and_people_hear_of_it_once(shop: Workshop) -> None:
    full = Full()
    shelf, live = Shelf(full), await a_live(shop)
    for _ in range(2):
        _, outcome = await shelf.results.name(live, RECORDS, RESULT)
        assert outcome.body == {"state": "succeeded", "result_kept": False}
    assert [name for name, _ in shelf.alerts] == ["audit_result_not_kept"]
    full.is_full = False
    _, outcome = await shelf.results.name(live, RECORDS, RESULT)
    assert "blobs" in outcome.body
    full.is_full = True
    await shelf.results.name(live, RECORDS, RESULT + b" ")
    assert len(shelf.alerts) == 2


async def test_what_is_nobodys_in_particular_but_personal_is_not_kept(shop: Workshop) -> None:
    shelf, live = Shelf(), await a_live(shop)
    live.action = replace(live.action, output=replace(live.action.output, personal=("email",)))
    _, outcome = await shelf.results.name(live, RECORDS, RESULT)
    assert outcome.body["result_kept"] is False
    assert blob_names(shelf.directory) == []


async def test_the_key_of_a_persons_result_is_boxed_with_the_rest_of_what_is_theirs(shop: Workshop) -> None:
    boxed = dict[str, object]()

    class Subjects:
        async def box(self, document: dict[str, object], subject: str, names: object) -> dict[str, object]:
            boxed.update(document=document, subject=subject, names=names)
            return {"blobs": {BOX: "tag", "data": "sealed"}}

    shelf, live = Shelf(), await a_live(shop)
    live.action = replace(live.action, subject="{name}")
    shelf.results = LogResults(
        shelf.directory,
        CountedChance(),
        over_bytes=65_000,
        subjects=Subjects(),  # type: ignore[arg-type]  # only what is asked of it here
    )
    _, outcome = await shelf.results.name(live, RECORDS, RESULT)
    assert outcome.body["blobs"] == {BOX: "tag", "data": "sealed"}
    assert (boxed["subject"], boxed["names"]) == (live.arguments["name"], ("blobs",))
    (name,) = blob_names(shelf.directory)
    assert name not in str(outcome.body)
