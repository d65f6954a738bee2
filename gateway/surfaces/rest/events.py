"""Server-sent events: what changed, to whoever may see it, until their key ends or the gateway stops."""

import asyncio
from collections.abc import Callable

import orjson
from aiohttp import web

from gateway.engine.hub import Notice, Subscription
from gateway.surfaces.rest.call import Call

BEAT_SECONDS = 15.0
"""A comment is sent this often, so that both sides notice a dead connection and an expired key."""


class Stream:
    """One reader's stream. `end` may be called from anywhere on the loop."""

    def __init__(self, subscription: Subscription) -> None:
        """Write what the subscription brings."""
        self._subscription = subscription
        self._ended = False

    def end(self) -> None:
        """Stop after the write under way."""
        self._ended = True
        self._subscription.ready.set()

    async def run(self, response: web.StreamResponse, is_usable: Callable[[], bool]) -> None:
        """Write events and beats until `end`, or until the key is no longer usable."""
        subscription = self._subscription
        await response.write(b": connected\n\n")
        while not self._ended and is_usable():
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await subscription.ready.wait()
            except TimeoutError:
                await response.write(b": beat\n\n")
                continue
            subscription.ready.clear()
            if subscription.lagged:
                subscription.lagged = False
                await response.write(b"event: lagged\ndata: {}\n\n")
            while subscription.queue and not self._ended:
                await response.write(_event(subscription.queue.popleft()))


def _event(notice: Notice) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (notice.number, notice.kind.encode(), orjson.dumps(notice.data))


async def stream(call: Call, streams: set[Stream]) -> web.StreamResponse:
    """`GET /v1/events`. An event only says that something changed: the reader looks it up again.

    After a `lagged` event it lists anew. A revoked key ends its streams at once.
    """
    call.query({})
    principal, keys = call.who, call.ports.keys
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
    with call.ports.gateway.hub.subscribe(None if principal.is_person else principal.name) as subscription:
        reader = Stream(subscription)

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
