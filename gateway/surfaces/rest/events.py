"""Server-sent events: what changed, to whoever may see it, until their key ends or the gateway stops."""

import asyncio
from collections.abc import Callable

import orjson
from aiohttp import web

from gateway.engine.hub import Notice, Subscription
from gateway.model.problem import Code, Problem
from gateway.surfaces.rest.call import Call
from gateway.surfaces.rest.protocol import SECURITY_HEADERS

BEAT_SECONDS = 15.0
"""A comment is sent this often, so that both sides notice a dead connection and an expired key."""
WRITE_SECONDS = 30.0
"""A reader that takes nothing for so long is cut off."""
STREAMS_PER_KEY_MAX = 32


class Stream:
    """One reader's stream. `end` may be called from anywhere on the loop."""

    def __init__(self, key_id: str, subscription: Subscription) -> None:
        """Write what the subscription brings, for as long as that key is good."""
        self.key_id = key_id
        self._subscription = subscription
        self._ended = False

    def end(self) -> None:
        """Stop after the write under way."""
        self._ended = True
        self._subscription.ready.set()

    async def run(self, response: web.StreamResponse, is_usable: Callable[[], bool]) -> None:
        """Write events and beats until `end`, or until the key is no longer usable."""
        subscription = self._subscription
        await _write(response, b": connected\n\n")
        while not self._ended and is_usable():
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await subscription.ready.wait()
            except TimeoutError:
                await _write(response, b": beat\n\n")
                continue
            subscription.ready.clear()
            if subscription.lagged:
                subscription.lagged = False
                await _write(response, b"event: lagged\ndata: {}\n\n")
            while subscription.queue and not self._ended:
                await _write(response, _event(subscription.queue.popleft()))


async def _write(response: web.StreamResponse, data: bytes) -> None:
    """Raises ConnectionError also for a reader that is there but reads nothing."""
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(data)
    except TimeoutError as error:
        raise ConnectionResetError("the reader takes nothing") from error


def _event(notice: Notice) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (notice.number, notice.kind.encode(), orjson.dumps(notice.data))


async def stream(call: Call, streams: set[Stream]) -> web.StreamResponse:
    """`GET /v1/events`. An event only says that something changed: the reader looks it up again.

    After a `lagged` event it lists anew. A revoked key ends its streams at once.
    """
    call.query({})
    principal, keys = call.who, call.ports.keys
    if sum(reader.key_id == principal.key_id for reader in streams) >= STREAMS_PER_KEY_MAX:
        raise Problem(
            Code.TOO_MANY_REQUESTS,
            f"{STREAMS_PER_KEY_MAX} streams are open under this key.",
            "Use one of them, or close one first.",
        )
    response = web.StreamResponse(
        headers={**SECURITY_HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    )
    with call.ports.gateway.hub.subscribe(None if principal.is_person else principal.name) as subscription:
        reader = Stream(principal.key_id, subscription)

        def revoked(key_id: str) -> None:
            if key_id == principal.key_id:
                reader.end()

        keys.on_revoked.add(revoked)
        streams.add(reader)
        try:
            await response.prepare(call.request)
            await reader.run(response, lambda: keys.is_usable(principal.key_id))
            await response.write_eof()
        except ConnectionError:
            return response
        finally:
            keys.on_revoked.discard(revoked)
            streams.discard(reader)
    return response
