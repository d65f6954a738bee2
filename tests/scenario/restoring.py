"""Backups of a data folder, put back, and what must hold then."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from audit.trust import TrustPolicy
from gateway.engine.log_keys import KeyFile
from gateway.office import Paths
from tests.scenario.kit import (
    LOOK_SECONDS,
    ORIGIN,
    READ,
    READY_SECONDS,
    Home,
    brief_action,
)

SECOND: Final = f"{ORIGIN}/2"
DATABASE: Final = ("gateway.db", "gateway.db-wal", "gateway.db-shm")
ACTIONS: Final = {"deploy": brief_action(), "read": READ, "put": brief_action("PUT")}


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in (folder / "segments").iterdir() if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def trusted(home: Home) -> Path:
    """A policy that pins the keys of every log that this gateway ever had, as an operator would after a recovery."""
    keys = tuple(signer.key for signer in KeyFile(Paths(home.data).log_key).read())
    file = home.folder / "trust-all.policy"
    file.write_text(TrustPolicy(keys).to_text())
    return file


def verified(home: Home, *origins: str) -> None:
    for origin in origins:
        code, said = home.verify(origin, trust=trusted(home))
        assert code == 0, said


RECOVER: Final = ("recover", "--person", "ada", "--reason", "Restored after a disk failure.")


def recover_with_key(home: Home) -> str:
    done = home.run(*RECOVER, "--auditor-key", str(home.folder / "auditor.key"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed(path: Path, before: bytes) -> Callable[[], bool]:
    return lambda: path.read_bytes() != before


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while not holds():
            await asyncio.sleep(LOOK_SECONDS)
