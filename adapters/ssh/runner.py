"""The runner that travels to a host with each command: its text, and the digest that both ends check."""

import functools
import hashlib
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class Runner:
    text: bytes
    """A POSIX sh program in UTF-8; the head of the file says what it takes and answers."""
    digest: str
    """SHA-256 of `text`, hex. It names the file on the host and is checked there before the file is used."""


def runner_of(text: bytes) -> Runner:
    return Runner(text=text, digest=hashlib.sha256(text).hexdigest())


@functools.cache
def load_runner() -> Runner:
    """The runner this build ships."""
    return runner_of(resources.files("adapters.ssh").joinpath("runner.sh").read_bytes())
