"""Hosts as they are declared, also those that no action uses, and what the gateway itself may do on each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.catalog.compile_command import command_definition, host_of
from gateway.catalog.rules_hosts import way_is_known
from gateway.catalog.schema_hosts import CommandForm, HostForm
from gateway.core.strictjson import Json
from gateway.model.action import Host

Words = Callable[[str, str, str], Sequence[str]]
"""The words of a command from its verb, the host's store and the identity of that."""

BUILT_IN: Final[Mapping[str, str]] = {
    "host.fence": "See to it that an operation which has not begun on this host never will.",
    "host.unlock": "Set aside a lock on this host whose holder is not alive.",
    "host.collect": "Forget what this host's store holds of settled operations, and refuse late copies of them.",
}
"""What people may have done on a host. Commands like any other, but for that no caller is shown one."""
OPERATION: Final = r"^op_[0-7][0-9a-hjkmnp-tv-z]{25}(\.[A-Za-z0-9_-]{1,40})?$"
LOCK: Final = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"
NUMBER_MAX: Final = 999_999_999_999_999
_NUMBER: Final[Json] = {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX}
_ARGUMENTS: Final[Mapping[str, dict[str, Json]]] = {
    "host.fence": {
        "target": {"type": "string", "pattern": OPERATION},
        "issued_ms": _NUMBER,
        "attempts": {"type": "integer", "minimum": 1, "maximum": 20},
    },
    "host.unlock": {"lock": {"type": "string", "pattern": LOCK}, "number": _NUMBER},
    "host.collect": {"before_ms": _NUMBER},
}


class DeclaredHosts:
    """Never changes; belongs to one catalog."""

    def __init__(self, forms: Mapping[str, HostForm] | None = None) -> None:
        """Hosts by name; those that lead nowhere are left out."""
        given = forms or {}
        self._forms = {name: form for name, form in given.items() if way_is_known(name, given)}

    @property
    def names(self) -> Sequence[str]:
        """In the order in which they are declared."""
        return tuple(self._forms)

    def get(self, name: str) -> Host | None:
        """The host of that name with every host on the way to it."""
        return host_of(name, self._forms) if name in self._forms else None

    def built_in(self, words: Words) -> Iterator[bytes]:
        """The definitions of what the gateway may do on each host that has a store."""
        for name, form in self._forms.items():
            if form.store is None or form.store_id is None:
                continue
            for action, description in BUILT_IN.items():
                verb = action.removeprefix("host.")
                command = words(verb, form.store, form.store_id)
                yield command_definition(action, _form(action, description, name, command), self._forms)


def _form(action: str, description: str, host: str, command: Sequence[str]) -> CommandForm:
    arguments: dict[str, Any] = {"host": {"const": host}, **_ARGUMENTS[action]}
    return CommandForm.model_validate(
        {
            "description": description,
            "effect": "irreversible",
            "host": host,
            "command": list(command),
            "marker": "runner",
            "input": {
                "type": "object",
                "properties": arguments,
                "required": list(arguments),
                "additionalProperties": False,
            },
            "deadlines": {"connect": "10s", "request": "30s", "recovery": "1h", "start": "10m"},
            # Done twice it does no more than once, so nobody need be asked whether they mean it.
            "repeat_window": "0s",
        }
    )
