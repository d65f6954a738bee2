"""The one door to time. Everything that needs a clock takes one, so that the simulator can turn it."""

import asyncio
import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Wall time is evidence and can be stepped; boot time only moves forward while this machine runs."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def boot_ms(self) -> int:
        """CLOCK_BOOTTIME in milliseconds: goes on during suspend, starts anew with the machine."""
        ...

    @property
    def boot_id(self) -> str:
        """Changes when the machine restarts; boot times of different ids cannot be compared."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait at least that long."""
        ...


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        """Read the boot id once: it cannot change under a running process."""
        self._boot_id = _read_boot_id()

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        """CLOCK_BOOTTIME in milliseconds."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    @property
    def boot_id(self) -> str:
        """The kernel's random id of this boot."""
        return self._boot_id

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)


def _read_boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        # Without a boot id, boot times of this process are compared with nobody else's.
        return f"unknown-{time.time_ns()}"
