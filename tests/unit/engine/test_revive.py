"""A stored operation comes back with the very bytes and the very definition it was admitted with."""

import pytest

from gateway.assembly import StoredDefinitions
from gateway.core.template import Rendered
from gateway.engine.revive import Revival, pack_request, unpack_request
from gateway.model.action import Action
from gateway.model.problem import BrokenInvariantError
from tests.unit.core.builders import operation
from tests.unit.engine.workshop import DONE, Workshop, definitions


@pytest.mark.parametrize("body", [b"", b"{}", b"\n", b'\n{"a":\n1}\n', bytes(range(256))])
def test_a_request_is_unpacked_as_it_was_packed(body: bytes) -> None:
    request = Rendered("POST", "https://a/b?c=%20d", (("A", "b"), ("A", "ü")), body)

    assert unpack_request(pack_request(request)) == request


class Counted(StoredDefinitions):
    """Remembers what it compiled."""

    def __init__(self) -> None:
        super().__init__(())
        self.compiled: list[bytes] = []

    def compile(self, definition: bytes) -> Action:
        self.compiled.append(definition)
        return super().compile(definition)


async def test_an_operation_is_revived_under_its_own_definition_though_the_catalog_forgot_it(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    stored = await shop.show(await shop.submit(run="r-1"))
    live = await Revival(shop.store, Counted()).revive(stored)

    assert (live.action.name, live.action.digest) == ("make", stored.definition)
    assert live.action == definitions().actions["make"]
    assert live.arguments == {"name": "a"}
    assert live.variables()["run"] == "r-1"
    sent = shop.outside.exchanges[0]
    assert live.request == Rendered(sent.method, sent.url, sent.headers, sent.body)
    assert live.receipt == await shop.store.receipt(stored.id)
    assert live.receipt is not None


async def test_a_definition_is_compiled_once_however_many_operations_it_has(shop: Workshop) -> None:
    shop.outside.writes += [DONE, DONE]
    stored = [await shop.show(await shop.submit(name=name)) for name in "ab"]
    catalog = Counted()
    revival = Revival(shop.store, catalog)
    one, two = [await revival.revive(item) for item in stored]

    assert one.action is two.action is await revival.action(stored[0])
    assert len(catalog.compiled) == 1


async def test_a_store_that_lost_a_part_broke_its_word(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    stored = await shop.show(await shop.submit())
    revival = Revival(shop.store, Counted())

    with pytest.raises(BrokenInvariantError, match="definitions"):
        await revival.action(operation(definition="nobody"))
    with pytest.raises(BrokenInvariantError, match="arguments"):
        await revival.revive(stored.but(id="op_nothing"))
