"""Blobs as the verifier sees them: every file has the hash it is named by, every reference has its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from audit.blobs import BLOBS, MAX_BLOB_BYTES, MEMBER, BadReference, BlobRef, blob_names, hash_fits
from audit.boxes import BOX
from audit.disk import Directory
from audit.report import Exit, Finding, Report
from audit.show import BadDocument, read_document

_MEMBER = f'"{MEMBER}"'.encode()


@dataclass(frozen=True, slots=True)
class Reference:
    """A blob that a record names; `sealed_size` in bytes of the file, None if the reference cannot be read."""

    seq: int
    name: str
    sealed_size: int | None


def references(seq: int, plaintext: bytes) -> Iterator[Reference]:
    """The blobs that a record's plaintext names; a boxed list names none that could be seen."""
    # Most records name none: they are not parsed.
    if _MEMBER not in plaintext:
        return
    try:
        listed = read_document(plaintext).get(MEMBER, [])
    except BadDocument:
        return
    if isinstance(listed, dict) and BOX in listed:
        return
    for item in listed if isinstance(listed, list) else [listed]:
        try:
            ref = BlobRef.from_json(item)
        except BadReference:
            yield Reference(seq, "", None)
        else:
            yield Reference(seq, ref.name, ref.sealed_size)


class Holdings:
    """Judges the blobs of one log."""

    def __init__(self, directory: Directory, report: Report) -> None:
        self._directory = directory
        self._report = report
        try:
            self._names = blob_names(directory)
        except OSError as error:
            self._names = []
            self._find("unreadable", f"the blobs cannot be listed: {error.strerror or error}", Exit.UNREADABLE)

    def size(self) -> int:
        """Bytes of all files that will be read, for the progress bar."""
        sizes = (self._size(name) or 0 for name in self._names)
        return sum(size for size in sizes if 0 < size <= MAX_BLOB_BYTES)

    def check_files(self, progress: Callable[[int], None]) -> None:
        """Hash every file that is not larger than any can be; needs no key."""
        for name in self._names:
            try:
                size = self._directory.size(f"{BLOBS}/{name}")
                if size > MAX_BLOB_BYTES:
                    text = (
                        f"blob {name[:16]} has {size} bytes, which were not read: none has more than {MAX_BLOB_BYTES}"
                    )
                    self._find("oversized", text)
                    continue
                fits = hash_fits(self._directory, name)
            except FileNotFoundError:
                # Retention took it away meanwhile; whether a record still names it is asked elsewhere.
                continue
            except OSError as error:
                self._find("unreadable", f"blob {name[:16]} cannot be read: {error.strerror or error}", Exit.UNREADABLE)
                continue
            self._report.blobs += 1
            self._report.blob_bytes += size
            if not fits:
                self._find("blob", f"blob {name[:16]} is not the file that its name says: cut, replaced or changed")
            progress(size)

    def meet(self, reference: Reference) -> None:
        """Hold a record's reference against the files."""
        seq = reference.seq
        self._report.blobs_named = (self._report.blobs_named or 0) + 1
        if reference.sealed_size is None:
            self._find("blob_missing", f"record {seq} names a blob in a way that cannot be read", Exit.INCOMPLETE, seq)
            return
        size = self._size(reference.name)
        if size is None:
            text = f"blob {reference.name[:16]}, which record {seq} names, is not there"
            self._find("blob_missing", text, Exit.INCOMPLETE, seq)
        elif size not in {-1, reference.sealed_size}:
            text = f"blob {reference.name[:16]} has {size} bytes, record {seq} says {reference.sealed_size}"
            self._find("blob", text, seq=seq)

    def _size(self, name: str) -> int | None:
        """Bytes of a blob's file; None: not there, -1: there, but it cannot be looked at."""
        try:
            return self._directory.size(f"{BLOBS}/{name}")
        except FileNotFoundError:
            return None
        except OSError:
            # It is there; that it cannot be read is said when it is hashed.
            return -1

    def _find(self, code: str, text: str, verdict: Exit = Exit.TAMPERED, seq: int | None = None) -> None:
        self._report.add(Finding(code, verdict, text, seq=seq))
