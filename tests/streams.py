"""Connections in a test's own hands, ended so that nobody hears of it later.

How a connection ended is kept in a future of asyncio's. If it was reset and nobody asks, the loop may print that, or
not, whenever the collector comes by: into the log that another test reads.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator


async def ended(writer: asyncio.StreamWriter) -> None:
    """Close it and ask how it went. What was not sent yet is sent first, to a peer that reads it."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def opened(netloc: str, **options: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to host and port as they stand in a URL; what is still to be sent at the end is thrown away."""
    host, port = netloc.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), **options)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await ended(writer)
