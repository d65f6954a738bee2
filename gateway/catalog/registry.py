"""The catalog in use: actions by name, their definitions by digest, and the check of arguments."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gateway.catalog.arguments import check_arguments, compile_schema
from gateway.catalog.compile import compile_definition
from gateway.catalog.declared_hosts import DeclaredHosts
from gateway.core.strictjson import Json
from gateway.model.action import Action, Service
from gateway.model.problem import FieldError


class Catalog:
    """What is declared. What is not in it does not exist for a caller. Never changes; a new catalog is a new object."""

    def __init__(
        self,
        definitions: Iterable[bytes] = (),
        hosts: DeclaredHosts | None = None,
        *,
        built_in: Iterable[bytes] = (),
    ) -> None:
        """Compile normalised definitions (see `gateway.catalog.compile`).

        `built_in` are those of the gateway's own actions: they can be admitted and checked, and are not in `actions`.
        """
        self.hosts = hosts or DeclaredHosts()
        pairs = [(definition, compile_definition(definition)) for definition in definitions]
        self._actions = {action.name: action for _, action in pairs}
        own = [(definition, compile_definition(definition)) for definition in built_in]
        self._built_in = {(action.name, action.service.name): action for _, action in own}
        pairs += own
        self._definitions = {action.digest: definition for definition, action in pairs}
        self._validators = {action.digest: compile_schema(action.input_schema) for _, action in pairs}

    @property
    def actions(self) -> Mapping[str, Action]:
        """Every action by name."""
        return MappingProxyType(self._actions)

    def built_in(self, name: str, host: str) -> Action | None:
        """The gateway's own action of that name on that host."""
        return self._built_in.get((name, host))

    @property
    def services(self) -> Mapping[str, Service]:
        """Every service that some action uses, by name."""
        return {action.service.name: action.service for action in self._actions.values()}

    def get(self, name: str) -> Action | None:
        """The action of that name as declared now; operations under way keep the definition they came with."""
        return self._actions.get(name)

    def definition(self, action: Action) -> bytes:
        """The normalised definition, to be stored by `action.digest`. Raises `KeyError` for a foreign action."""
        return self._definitions[action.digest]

    def validate(self, action: Action, arguments: Json) -> list[FieldError]:
        """What in the arguments does not fit the action's input schema; empty if all fits.

        Pointers lead into the arguments. Raises `KeyError` for an action of another catalog.
        """
        return check_arguments(self._validators[action.digest], arguments)
