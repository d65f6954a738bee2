"""Loads a stored operation back to life under the definition that it was admitted with."""

import orjson

from gateway.core.template import Rendered
from gateway.engine.live import Live
from gateway.engine.ports import Definitions
from gateway.model.action import Action
from gateway.model.operation import Operation
from gateway.model.problem import present
from gateway.store.port import PayloadKind, Store


def pack_request(request: Rendered) -> bytes:
    """The exact request as stored: a JSON head line, then the body's bytes."""
    head = {"method": request.method, "url": request.url, "headers": request.headers}
    return orjson.dumps(head) + b"\n" + request.body


def unpack_request(data: bytes) -> Rendered:
    """The inverse of `pack_request`."""
    head, _, body = data.partition(b"\n")
    fields = orjson.loads(head)
    headers = tuple((name, value) for name, value in fields["headers"])
    return Rendered(fields["method"], fields["url"], headers, body)


class Revival:
    """Reads definitions by digest, once each, and the payloads beside an operation."""

    def __init__(self, store: Store, definitions: Definitions) -> None:
        """`definitions` compiles; the store remembers."""
        self._store = store
        self._definitions = definitions
        self._compiled: dict[str, Action] = {}

    async def revive(self, operation: Operation) -> Live:
        """Everything that the driver needs; a missing part means that the store broke its word."""
        action = await self.action(operation)
        arguments = present(await self._store.payload(operation.id, PayloadKind.ARGUMENTS), "arguments are stored")
        request = present(await self._store.payload(operation.id, PayloadKind.REQUEST), "the request is stored")
        return Live(
            operation=operation,
            action=action,
            arguments=orjson.loads(arguments),
            request=unpack_request(request),
            receipt=await self._store.receipt(operation.id),
        )

    async def action(self, operation: Operation) -> Action:
        """The pinned definition of an operation."""
        known = self._compiled.get(operation.definition)
        if known is None:
            stored = present(await self._store.definition(operation.definition), "pinned definitions are stored")
            known = self._definitions.compile(stored)
            self._compiled[operation.definition] = known
        return known
