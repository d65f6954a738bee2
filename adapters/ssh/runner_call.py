"""One call of the runner, as the text that `sh -s` reads: the runner itself, then the call with its command."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from adapters.ssh.runner import Runner
from adapters.ssh.runner_command import Command, UnfitCall, quoted

EXEC_LINE = "sh -s"
"""All that a login shell ever sees. Every shell passes it on unchanged, and it names nothing worth hiding."""
ATTEMPTS_MAX = 99
KEEP_BYTES_MAX = 65_536
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_TOKEN = re.compile(r"[A-Za-z0-9]{8,64}")
_PATH = re.compile(r"(?!.*/\.\.(/|$))(/[A-Za-z0-9._@+-]+)+")
_NUMBER_MAX = 999_999_999_999_999


class Verb(StrEnum):
    INIT = "init"
    CHECK = "check"
    RUN = "run"
    STATUS = "status"
    FENCE = "fence"
    CANCEL = "cancel"
    PROBE = "probe"
    LIST = "list"
    COLLECT = "collect"
    LOCK = "lock"
    UNLOCK = "unlock"


ABOUT_AN_ATTEMPT = frozenset({Verb.RUN, Verb.STATUS, Verb.FENCE, Verb.CANCEL})
WITH_A_COMMAND = frozenset({Verb.RUN, Verb.PROBE})
WITHOUT_A_STORE = frozenset({Verb.INIT, Verb.CHECK})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerCall:
    """What is asked of a host. Fields that a verb does not use are left as they are."""

    verb: Verb
    store: str
    """Absolute path of the store on the host, pinned when it was made."""
    nonce: str
    """8 to 64 letters and digits, new for each call: the answer is known by it."""
    store_id: str | None = None
    """The store's identity, learned by `init`; everything but `init` and `check` needs it."""
    operation: str | None = None
    """The operation; for `list`, the name after which to go on."""
    attempt: int = 1
    issued_ms: int = 1
    """The gateway's millisecond of the operation's first begin: the same for each of its attempts."""
    command: Command | None = None
    follow_seconds: int = 30
    """How long `run` stays with the command before it answers `running`."""
    limit_seconds: int = 0
    """After this the command is stopped; 0: never. A probe needs one."""
    keep_bytes: int = 8192
    """Of each stream, bytes of the head and of the tail that travel back."""
    lock: str | None = None
    lock_seconds: int = 0
    """Within this a lock stays with its holder even if that is dead."""
    number: int = 0
    """`unlock`: the number that was looked at."""
    signal: str = "TERM"
    before_ms: int = 0
    """`collect`: the new floor; operations issued at or before it are refused from then on."""
    most: int = 200
    """`list` and `collect`: how many operations at most."""

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.store):
            raise UnfitCall(f"{self.store!r} is no absolute path of letters, digits and . _ @ + - without a ..")
        for name, value, form in (
            ("nonce", self.nonce, _TOKEN),
            ("store_id", self.store_id, _NAME),
            ("operation", self.operation, _NAME),
            ("lock", self.lock, _NAME),
        ):
            if value is not None and not form.fullmatch(value):
                raise UnfitCall(f"{name} {value!r} cannot be handed to the runner")
        for name, number, least, most in self._numbers():
            if not least <= number <= most:
                raise UnfitCall(f"{name} {number} is outside {least} to {most}")
        if (self.store_id is None) is not (self.verb in WITHOUT_A_STORE):
            raise UnfitCall(f"{self.verb} takes {'no' if self.verb in WITHOUT_A_STORE else 'a'} store_id")
        if (self.command is None) is (self.verb in WITH_A_COMMAND):
            raise UnfitCall(f"{self.verb} takes {'a' if self.verb in WITH_A_COMMAND else 'no'} command")
        if self.operation is None and self.verb in ABOUT_AN_ATTEMPT:
            raise UnfitCall(f"{self.verb} takes an operation")
        if self.signal not in {"TERM", "INT", "KILL"}:
            raise UnfitCall(f"signal {self.signal!r} is not TERM, INT or KILL")

    def _numbers(self) -> Iterator[tuple[str, int, int, int]]:
        yield "attempt", self.attempt, 1, ATTEMPTS_MAX
        yield "issued_ms", self.issued_ms, 1, _NUMBER_MAX
        yield "follow_seconds", self.follow_seconds, 1, 86_400
        yield "limit_seconds", self.limit_seconds, 1 if self.verb is Verb.PROBE else 0, 31_536_000
        yield "keep_bytes", self.keep_bytes, 1, KEEP_BYTES_MAX
        yield "lock_seconds", self.lock_seconds, 1 if self.lock and self.verb is Verb.RUN else 0, 31_536_000
        yield "number", self.number, 1 if self.verb is Verb.UNLOCK else 0, _NUMBER_MAX
        yield "before_ms", self.before_ms, 1 if self.verb is Verb.COLLECT else 0, _NUMBER_MAX
        yield "most", self.most, 1, 10_000


def arguments(call: RunnerCall) -> list[str]:
    """The words after the verb. They show in the host's list of processes, so no secret is among them."""
    words: list[tuple[str, str | int | None]] = [
        ("store", call.store),
        ("store_id", call.store_id),
        ("nonce", call.nonce),
        ("op", call.operation),
        ("lock", call.lock),
        ("keep", call.keep_bytes),
    ]
    if call.verb in ABOUT_AN_ATTEMPT:
        words += [("attempt", call.attempt), ("issued", call.issued_ms)]
    if call.command is not None:
        words += [("digest", call.command.digest), ("limit", call.limit_seconds)]
        words += [("secrets", 1 if call.command.secrets else 0)]
    match call.verb:
        case Verb.RUN:
            words += [("follow", call.follow_seconds), ("term", call.lock_seconds)]
        case Verb.CANCEL:
            words += [("signal", call.signal)]
        case Verb.UNLOCK:
            words += [("number", call.number)]
        case Verb.COLLECT:
            words += [("before", call.before_ms), ("most", call.most)]
        case Verb.LIST:
            words += [("most", call.most)]
        case _:
            pass
    return [f"{key}={value}" for key, value in words if value is not None]


_PLACE = """\
{ gw_dir=%(dir)s gw_file=%(dir)s/gw-%(digest)s
gw_is() {
if command -v sha256sum >/dev/null; then gw_sum=$(sha256sum <"$1")
elif command -v shasum >/dev/null; then gw_sum=$(shasum -a 256 <"$1")
else gw_sum=$(openssl dgst -sha256 -r <"$1"); fi 2>/dev/null
[ "${gw_sum%%%% *}" = %(digest)s ]; }
gw_fail() { rm -f "$gw_file.$$" 2>/dev/null; gw_why=store_write
{ command -v sha256sum || command -v shasum || command -v openssl; } >/dev/null || gw_why=no_digest_tool
printf '\\n@gw1 %%s {"v":1,"verb":"%%s","phase":"refused","store_id":"",\
"machine":"","boot":"","uid":-1,"reason":"%%s"}\\n' %(nonce)s %(verb)s $gw_why; exit 0; }
[ -f "$gw_file" ] && gw_is "$gw_file" || {
%(make)s
(umask 077; cat >"$gw_file.$$") %(silent)s <<'%(boundary)sR' || gw_fail
"""
_CALL = """\
%(boundary)sR
gw_is "$gw_file.$$" && mv -f "$gw_file.$$" "$gw_file" 2>/dev/null || gw_fail; }
exec sh "$gw_file" %(verb)s %(words)s </dev/null 3<<'%(boundary)sC' 4<<'%(boundary)sS'
"""


def stdin_text(call: RunnerCall, runner: Runner, boundary: str) -> bytes:
    """What to write to the standard input of `EXEC_LINE`.

    It is one group, which a shell reads to its end before it runs any of it: cut short, it is a syntax error. The
    runner is written only where the host has no file of that digest, and used only if its digest is right.

    Args:
        call: what to ask.
        runner: the program to ask it of.
        boundary: 8 to 64 letters and digits by chance: here-documents end where it stands alone on a line.

    Raises:
        UnfitCall: the boundary is ill-formed, or occurs in the text.
    """
    command = call.command or Command(text=b"")
    parts = (runner.text, command.text, command.secrets)
    if not _TOKEN.fullmatch(boundary) or any(boundary.encode() in part for part in parts):
        raise UnfitCall("the boundary is no boundary of this text")
    folder = f"{call.store}/bin"
    values = {
        "boundary": boundary,
        "digest": runner.digest,
        "dir": quoted(folder),
        "make": f"(umask 077; mkdir -p {quoted(folder)})" if call.verb is Verb.INIT else ":",
        # Whoever makes a store looks on, and sees there in the shell's own words why it cannot be made.
        "silent": "" if call.verb is Verb.INIT else "2>/dev/null",
        "nonce": call.nonce,
        "verb": call.verb.value,
        "words": " ".join(quoted(word) for word in arguments(call)),
    }
    return b"".join(
        (
            (_PLACE % values).encode(),
            runner.text,
            (_CALL % values).encode(),
            command.text,
            f"{boundary}C\n".encode(),
            command.secrets,
            f"{boundary}S\nexit; }}\n".encode(),
        )
    )
