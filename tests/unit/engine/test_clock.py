"""The machine's clocks."""

import time
from pathlib import Path

import pytest

from gateway.engine.clock import SystemClock


async def test_clocks_tell_the_machines_time() -> None:
    clock = SystemClock()
    wall, boot = time.time() * 1000, time.clock_gettime(time.CLOCK_BOOTTIME) * 1000
    await clock.sleep(0)

    assert abs(clock.wall_ms() - wall) < 5_000
    assert 0 <= clock.boot_ms() - int(boot) < 5_000
    assert clock.boot_id == SystemClock().boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_without_a_boot_id_nothing_is_compared_with_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_path: Path, **_options: object) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", gone)

    clock, other = SystemClock(), SystemClock()
    assert clock.boot_id != other.boot_id
    assert clock.boot_id
