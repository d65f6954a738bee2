"""Load from a process of its own: raw sockets that are kept open, each sending its next request when it has its answer.

Prints `{"count", "seconds", "p50_ms", "p99_ms"}`, and fails on the first answer that is not 200.
"""

import argparse
import asyncio
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

PROPERTIES = 10
"""Of each request; with their values they make some 300 bytes of JSON."""

Request = Callable[[int], bytes]


def arguments(seed: str, number: int) -> dict[str, str]:
    """The work: ten properties, no two requests alike."""
    return {f"p{at}": f"value-{at}-{seed}-{number}" for at in range(PROPERTIES)}


def _message(line: str, body: bytes, headers: str = "") -> bytes:
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}{length}\r\n".encode() + body


def operation(action: str, key: str, seed: str) -> Request:
    """Requests to a gateway."""

    def make(number: int) -> bytes:
        document = {"action": action, "args": arguments(seed, number), "key": f"{seed}{number}"}
        return _message("POST /v1/operations", json.dumps(document).encode(), f"Authorization: Bearer {key}\r\n")

    return make


def plain(seed: str, *, read: bool) -> Request:
    """The same work as the service sees it, sent to a proxy."""

    def make(number: int) -> bytes:
        given = arguments(seed, number)
        if read:
            return _message(f"GET /do?{urlencode(given)}", b"")
        return _message("POST /do", json.dumps(given).encode())

    return make


async def _speak(port: int, numbers: Iterator[int], request: Request, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        message = request(number)
        began = time.perf_counter()
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        took.append(time.perf_counter() - began)
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"an answer was {head[:40]!r} {body[:300]!r}")
    writer.close()


async def run(port: int, connections: int, count: int, request: Request) -> dict[str, float]:
    """Send `count` requests over so many connections and measure each."""
    took: list[float] = []
    numbers = iter(range(count))
    began = time.perf_counter()
    await asyncio.gather(*(_speak(port, numbers, request, took) for _ in range(connections)))
    seconds = time.perf_counter() - began
    took.sort()
    return {
        "count": len(took),
        "seconds": seconds,
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[int(len(took) * 0.99)] * 1000,
    }


def main() -> None:
    """Read the order and carry it out. A key comes by standard input, so that no list of processes shows it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("connections", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--action")
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    seed = secrets.token_hex(4)
    if given.action:
        request = operation(given.action, sys.stdin.readline().strip(), seed)
    else:
        request = plain(seed, read=given.read)
    print(json.dumps(asyncio.run(run(given.port, given.connections, given.count, request))))


if __name__ == "__main__":
    main()
