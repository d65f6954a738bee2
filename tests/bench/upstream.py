"""The service that every candidate talks to: bare asyncio, answers at once, or holds every request for ever.

Prints `{"port": n}`, and when it holds, `{"held": n}` for each request that it took.
"""

import argparse
import asyncio
import json

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n" + b'{"id":"x1","state":"done"}\n'
)
END_OF_HEAD = b"\r\n\r\n"


def body_length(head: bytes) -> int:
    """The Content-Length of a head in lower case; 0 without one."""
    _, found, rest = head.partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


class Service(asyncio.Protocol):
    """One connection."""

    taken = 0

    def __init__(self, *, holds: bool) -> None:
        self._holds = holds
        self._waiting = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        while (end := self._waiting.find(END_OF_HEAD)) >= 0:
            head = self._waiting[:end].lower()
            whole = end + len(END_OF_HEAD) + body_length(head)
            if len(self._waiting) < whole:
                return
            self._waiting = self._waiting[whole:]
            self._answer(closes=b"connection: close" in head)

    def _answer(self, *, closes: bool) -> None:
        assert self._transport is not None
        if self._holds:
            Service.taken += 1
            print(json.dumps({"held": Service.taken}), flush=True)
            return
        self._transport.write(ANSWER)
        if closes:
            self._transport.close()


async def serve(*, holds: bool) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Service(holds=holds), "127.0.0.1", 0, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold", action="store_true")
    asyncio.run(serve(holds=parser.parse_args().hold))
