"""The making of a runner's store by whoever owns the host, over a way of their own: a script, and its answer read."""

from collections.abc import Mapping

from adapters.ssh.runner import load_runner
from adapters.ssh.runner_call import RunnerCall, Verb, stdin_text
from adapters.ssh.runner_wire import read_answer

_NONCE = "gatewayhostsetup"
"""Not by chance: the answer comes from whoever is asked by the owner, in the owner's own session."""


def setup_script(store: str, boundary: str) -> bytes:
    """What `sh -s` on the host is to read, so that there is a store at `store`. Raises `UnfitCall`."""
    return stdin_text(_call(store), load_runner(), boundary)


def setup_answer(output: bytes) -> Mapping[str, object] | None:
    """What the host said: `store_id`, or why there is none, and what it offers. None: no answer is in there."""
    answer = read_answer(output, _call("/store"))
    if answer is None:
        return None
    about: dict[str, object] = {"phase": answer.phase.value, "reason": answer.reason, "store_id": answer.store_id}
    return about | dict(answer.fields)


def _call(store: str) -> RunnerCall:
    return RunnerCall(verb=Verb.INIT, store=store, nonce=_NONCE)
