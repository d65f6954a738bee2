"""The witness over HTTP: one route, answers straight from `audit.witness`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from aiohttp import web

from audit.disk import LogError
from audit.witness import REQUEST_BYTES_MAX, Witness

WITNESS = web.AppKey("witness", Witness)


def witness_app(witness: Witness, now_s: Callable[[], int]) -> web.Application:
    """The application; `now_s` gives Unix time in seconds."""

    async def add_checkpoint(request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=400, text="the request is too large\n")
        try:
            # On the loop's own thread, so that requests are judged strictly one after another.
            answer = witness.add(body, now_s())
        except (OSError, LogError):
            return web.Response(status=500, text="the witness cannot use its records; nothing was cosigned\n")
        kind, _, charset = answer.content_type.partition("; charset=")
        return web.Response(status=answer.status, text=answer.body, content_type=kind, charset=charset or None)

    app = web.Application(client_max_size=REQUEST_BYTES_MAX)
    app[WITNESS] = witness
    app.router.add_post("/add-checkpoint", add_checkpoint)
    return app


async def serve(
    witness: Witness, address: tuple[str, int], now_s: Callable[[], int], say: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; `say` is told the address in use. Raises OSError if it cannot be had."""
    runner = web.AppRunner(witness_app(witness, now_s), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, *address)
        await site.start()
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        host, port = runner.addresses[0][:2]
        # As policies and settings want it: whoever submits adds the name of the call.
        say(f"witness listens on http://{f'[{host}]' if ':' in host else host}:{port}")
        await ended.wait()
    finally:
        await runner.cleanup()
