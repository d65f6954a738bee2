"""The witness over HTTP: one route, answers straight from `audit.witness`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from audit.disk import LogError
from audit.witness import REQUEST_BYTES_MAX, Witness

WITNESS = web.AppKey("witness", Witness)
TOLD_MAX = 10
"""Refusals told in a minute for each log, and for all that no log's key signed: a flood must not fill the disk."""
_PERIOD_S = 60


class Refusals:
    """Tells whoever runs the witness what was refused, one line each, up to a number a minute."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told
        self._since: dict[str, int] = {}
        self._count: dict[str, int] = {}

    def take(self, status: int, reason: str, origin: str, now_s: int) -> None:
        """`origin` names a log whose key signed what was refused, so that strangers cannot use up its lines."""
        name = origin or "-"
        if abs(now_s - self._since.get(name, now_s - _PERIOD_S)) >= _PERIOD_S:
            left_out = self._count.get(name, 0) - TOLD_MAX
            self._since[name], self._count[name] = now_s, 0
            if left_out > 0:
                self._say(f"refused {name}: {left_out} more, which were not told one by one")
        self._count[name] += 1
        if self._count[name] <= TOLD_MAX:
            self._say(f"refused {name}: {reason} ({status})")

    def _say(self, line: str) -> None:
        # Nobody may be there to read it; whoever asked gets an answer all the same.
        with suppress(OSError):
            self._told(line)


def witness_app(
    witness: Witness, now_s: Callable[[], int], told: Callable[[str], None] = lambda _: None
) -> web.Application:
    """The application; `now_s` gives Unix time in seconds, `told` gets a line for each refusal, see `TOLD_MAX`."""
    refusals = Refusals(told)

    async def add_checkpoint(request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            refusals.take(400, "the request is too large", "", now_s())
            return web.Response(status=400, text="the request is too large\n")
        try:
            # On the loop's own thread, so that requests are judged strictly one after another.
            answer = witness.add(body, now_s())
        except (OSError, LogError) as error:
            refusals.take(500, f"the witness cannot use its records: {error}", "", now_s())
            return web.Response(status=500, text="the witness cannot use its records; nothing was cosigned\n")
        if answer.reason:
            refusals.take(answer.status, answer.reason, answer.origin, now_s())
        kind, _, charset = answer.content_type.partition("; charset=")
        return web.Response(status=answer.status, text=answer.body, content_type=kind, charset=charset or None)

    app = web.Application(client_max_size=REQUEST_BYTES_MAX)
    app[WITNESS] = witness
    app.router.add_post("/add-checkpoint", add_checkpoint)
    return app


async def serve(
    witness: Witness,
    address: tuple[str, int],
    now_s: Callable[[], int],
    say: Callable[[str], None],
    told: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; `say` is told the address in use, `told` each refusal.

    Raises:
        OSError: the address cannot be had.
    """
    runner = web.AppRunner(witness_app(witness, now_s, told), access_log=None)
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
