"""Blobs in the open: writes those that records name into a folder, each checked to its last byte before it counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.blobs import MEMBER, BadReference, BlobDamaged, BlobMissing, BlobRef, read_blob
from audit.boxes import BOX, ERASED
from audit.disk import Directory
from audit.report import Exit, worst


class Unpacked:
    """A folder of opened blobs, each under the name that its record has for it. One that fails is told, not raised."""

    def __init__(self, log: Directory, folder: Path, told: Callable[[str], None]) -> None:
        """`folder` is made if it is missing, for its owner alone; `told` gets a sentence for each not opened."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log = log
        self._folder = folder
        self._told = told
        self._failed: list[Exit] = []

    @property
    def exit(self) -> Exit:
        """What was wrong: OK, INCOMPLETE for one that is missing or cannot be named, TAMPERED for one that differs."""
        return worst(self._failed)

    def take(self, seq: int, content: dict[str, Any]) -> None:
        """Write the blobs that a record names. Raises OSError if the folder takes nothing."""
        listed = content.get(MEMBER, [])
        if listed == ERASED:
            return
        if isinstance(listed, dict) and BOX in listed:
            # Closed to whoever has no key for that person, as every personal field is: nothing is missing.
            self._told(f"record {seq}: its blobs are personal and stay in their box without the key for it")
            return
        for item in listed if isinstance(listed, list) else [listed]:
            try:
                self._write(BlobRef.from_json(item))
            except (BadReference, BlobMissing) as error:
                self._fail(Exit.INCOMPLETE, seq, error)
            except BlobDamaged as error:
                self._fail(Exit.TAMPERED, seq, error)

    def _write(self, ref: BlobRef) -> None:
        """Under another name until the last chunk was right: half of a blob must not pass for the whole."""
        partial = self._folder / f"{ref.name}.tmp"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(read_blob(self._log, ref))
        except BaseException:
            partial.unlink()
            raise
        partial.replace(self._folder / ref.name)

    def _fail(self, verdict: Exit, seq: int, error: Exception) -> None:
        self._failed.append(verdict)
        self._told(f"record {seq}: {error}")
