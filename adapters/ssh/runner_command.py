"""The command a host is to run, as shell text that is quoted once and never seen by a login shell."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

COMMAND_BYTES_MAX = 60_000
"""Of the command and of its secrets: bash writes a here-document above 64 kB to a temporary file."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class UnfitCall(ValueError):
    """Something that cannot be handed to the runner. Nothing has left."""


@dataclass(frozen=True, slots=True)
class SecretVariable:
    """A secret in an argument list: the command reads it as a shell variable, and the digest covers its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Command:
    """What an approver saw (`text`), and beside it what nobody sees (`secrets`)."""

    text: bytes
    secrets: bytes = field(default=b"", repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of `text`, hex. It does not cover the secrets: they may be renewed between two attempts."""
        return hashlib.sha256(self.text).hexdigest()


def quoted(value: str) -> str:
    """One word in POSIX single quotes, whatever it holds."""
    return "'" + value.replace("'", "'\\''") + "'"


def command_of(
    argv: Sequence[str | SecretVariable], *, secrets: Mapping[str, str] | None = None, exported: Iterable[str] = ()
) -> Command:
    """A command from its argument list; `exported` names the secrets it gets as environment variables.

    Raises:
        UnfitCall: an empty list, a program that looks like an option, a NUL or lone surrogate, an unknown or ill-named
            secret, or more than `COMMAND_BYTES_MAX` bytes.
    """
    known = dict(secrets or {})
    named = {*exported, *(word.name for word in argv if isinstance(word, SecretVariable))}
    if not argv or not isinstance(argv[0], str) or argv[0][:1] in {"", "-"}:
        raise UnfitCall("a command begins with the name of a program")
    if named - set(known):
        raise UnfitCall(f"no value for the secret {min(named - set(known))}")
    if ill := [name for name in known if not _VARIABLE.fullmatch(name)]:
        raise UnfitCall(f"{ill[0]!r} is no name for a secret's variable")
    exports = "".join(f"export {name}\n" for name in sorted(exported))
    words = " ".join(f'"${word.name}"' if isinstance(word, SecretVariable) else quoted(word) for word in argv)
    return Command(
        text=_shell_bytes(f"{exports}exec {words}\n"),
        secrets=_shell_bytes("".join(f"{name}={quoted(value)}\n" for name, value in sorted(known.items()))),
    )


def _shell_bytes(text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise UnfitCall("an argument holds a lone surrogate") from None
    if b"\0" in encoded:
        raise UnfitCall("an argument holds a NUL byte")
    if len(encoded) > COMMAND_BYTES_MAX:
        raise UnfitCall(f"the command is longer than {COMMAND_BYTES_MAX} bytes")
    return encoded
