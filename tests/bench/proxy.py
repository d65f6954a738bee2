"""The yardstick: the shortest reverse proxy of aiohttp's server and client, with no storage. Prints `{"port": n}`."""

import argparse
import asyncio
import json

from aiohttp import ClientSession, TCPConnector, web

SESSION = web.AppKey("session", ClientSession)


def make(target: str, *, pooled: bool) -> web.Application:
    """An application that passes everything on to `target`, with a connection per request unless `pooled`."""
    app = web.Application()

    async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        headers = {"Content-Type": request.content_type} if body else None
        async with app[SESSION].request(request.method, target + request.path_qs, data=body, headers=headers) as answer:
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    async def start(_app: web.Application) -> None:
        app[SESSION] = ClientSession(connector=TCPConnector(limit=0, force_close=not pooled))

    async def stop(_app: web.Application) -> None:
        await app[SESSION].close()

    app.on_startup.append(start)
    app.on_cleanup.append(stop)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


async def serve(target: str, *, pooled: bool) -> None:
    """Serve until the process is ended."""
    runner = web.AppRunner(make(target, pooled=pooled), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--pooled", action="store_true")
    given = parser.parse_args()
    asyncio.run(serve(given.target, pooled=given.pooled))
