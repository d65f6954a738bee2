"""Commands that keep a host's store in order: the runner runs itself, under a record like any other command's.

So a lost session, a repeat or a late copy of one is settled as for every command, and what it did is in its output.
"""

from collections.abc import Sequence
from typing import Final

from adapters.ssh.runner import load_runner

# Prints each answer of the runner. Ends with 3 at the first that is not as wanted, with 4 if there is none. Without
# braces, which mean something in a catalog's command.
_SCRIPT: Final = r"""
wanted=$1 last=$2 n=0
shift 2
while [ "$n" -lt "$last" ]; do
    n=$((n + 1))
    said=$(sh "$@" "attempt=$n" </dev/null 3</dev/null 4</dev/null) || exit 4
    printf '%s\n' "$said"
    case $said in *"\"phase\":\"$wanted\""*) ;; *) exit 3 ;; esac
done
"""
_WANTED: Final = {"fence": "fenced", "unlock": "ok", "collect": "ok"}
_LAST: Final = {"fence": "{attempts}", "unlock": "1", "collect": "1"}
_ABOUT: Final = {
    # Of what the command printed one byte is enough: its answers must stay within what is kept of one.
    "fence": ("op={target}", "issued={issued_ms}", "keep=1"),
    "unlock": ("lock={lock}", "number={number}"),
    "collect": ("before={before_ms}", "most=10000"),
}


def upkeep_words(verb: str, store: str, store_id: str) -> Sequence[str]:
    """The words of a command in a catalog's form: `fence` takes `target`, `issued_ms` and `attempts`, `unlock` takes
    `lock` and `number`, `collect` takes `before_ms`.

    The file it names is the one that every call puts on the host before anything else.
    """
    runner = f"{store}/bin/gw-{load_runner().digest}"
    known = (f"store={store}", f"store_id={store_id}", "nonce={operation_id}")
    return ("sh", "-c", _SCRIPT, "gateway-host", _WANTED[verb], _LAST[verb], runner, verb, *known, *_ABOUT[verb])
