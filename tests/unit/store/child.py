"""A gateway's store in a process of its own, to be killed or starved: prints each id when its write was confirmed."""

import asyncio
import resource
import sys

from gateway.store.port import StoreUnknown
from gateway.store.threaded import Limits, Ports, SqlStore
from tests.unit.store.kit import START_MS, admission, attach, cipher, ended, operation

UNKNOWN = 70


def tell(word: str, name: str) -> None:
    sys.stdout.write(f"{word} {name}\n")
    sys.stdout.flush()


async def work(store: SqlStore, worker: int) -> None:
    for at in range(10_000):
        of = operation(caller=f"agent-{worker}", key=f"{worker}-{at}")
        await store.admit(admission(of))
        tell("begun", of.id)
        await store.change(ended(of))
        tell("ended", of.id)


async def main(url: str) -> None:
    ports = Ports(cipher(), lambda: START_MS, lambda: 0.0)
    store = await SqlStore.open(url, ports, Limits(ballast_bytes=4096, reserve_bytes=0))
    await attach(store)
    try:
        async with asyncio.TaskGroup() as group:
            for worker in range(8):
                group.create_task(work(store, worker))
    except* StoreUnknown:
        await store.close()
        sys.exit(UNKNOWN)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        # Files may not grow beyond this: a full disk that needs no privileges.
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    asyncio.run(main(sys.argv[1]))
