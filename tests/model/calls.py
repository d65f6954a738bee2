"""The runner's calls as its shell gets them, and its answers as they come over the channel."""

import json
import re
from dataclasses import dataclass
from typing import Any

_CALL = b'exec sh "$gw_file" '
_WORD = re.compile(r"'([a-z_]+)=([^']*)'")
_ARGUMENT = re.compile(rb"'([^']*)'")
_OPERATION = re.compile(r"op_[0-9a-hjkmnp-tv-z]{26}")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the runner, read from what its shell was given."""

    verb: str
    words: dict[str, str]
    argv: tuple[str, ...]
    op: str
    """Also where the runner is not told: the command's own words name it."""

    @property
    def attempt(self) -> int:
        return int(self.words.get("attempt", "1"))


def call_in(stdin: bytes) -> Call:
    """What the shell on the host would hand to the runner."""
    head, _, rest = stdin[stdin.rindex(_CALL) + len(_CALL) :].partition(b"\n")
    line = head.decode()
    argv = tuple(word.decode() for word in _ARGUMENT.findall(rest.partition(b"\n")[0])) if rest[:5] == b"exec " else ()
    words = dict(_WORD.findall(line))
    named = _OPERATION.search(" ".join(argv))
    return Call(line.partition(" ")[0], words, argv, words.get("op") or (named[0] if named else ""))


def printed(output: bytes, *, whole: bool) -> dict[str, Any]:
    return {
        "out_bytes": len(output), "out_head": output.hex(), "out_tail": "",
        "err_bytes": 0, "err_head": "", "err_tail": "", "output_complete": whole,
    }  # fmt: skip


def line(call: Call, said: dict[str, Any]) -> bytes:
    frame = {
        "v": 1,
        "verb": call.verb,
        "store_id": call.words.get("store_id", ""),
        "machine": "m",
        "boot": "b",
        "uid": 1,
    }
    return f"\n@gw1 {call.words['nonce']} {json.dumps(frame | said)}\n".encode()
