"""What stands in for the machine and the vault of a simulated process: clock, chance, cipher, shaper, definitions."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from adapters.contract import Observation, Secret
from gateway.catalog.compile import compile_definition
from gateway.core.matching import read_body
from gateway.engine.ports import Shaped
from gateway.model.action import Action
from gateway.model.problem import FieldError
from tests.model.kinds import catalog

WALL_START_MS = 1_800_000_000_000


class SimClock:
    """Wall and boot time of the machine. The wall can be stepped; a reboot begins boot time anew."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self.step_ms = 0
        self.booted = 0.0
        self.boots = 1

    def wall_ms(self) -> int:
        return WALL_START_MS + self.step_ms + int(self._loop.now * 1000)

    def boot_ms(self) -> int:
        return 1000 + int((self._loop.now - self.booted) * 1000)

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def reboot(self) -> None:
        self.boots += 1
        self.booted = self._loop.now


class SimChance:
    """Seeded bytes and jitter."""

    def __init__(self, random: Any) -> None:
        self._random = random

    def bytes(self, count: int) -> bytes:
        return bytes(self._random.randbytes(count))

    def jitter(self) -> float:
        return float(self._random.random())


class PlainCipher:
    """Keeps the store's bytes apart by their context, and costs nothing; the real cipher has tests of its own."""

    def encrypt(self, plaintext: bytes, context: bytes) -> bytes:
        return context + b"|" + plaintext

    def decrypt(self, ciphertext: bytes, context: bytes) -> bytes:
        if not ciphertext.startswith(context + b"|"):
            raise AssertionError("these bytes belong to another row")
        return ciphertext[len(context) + 1 :]


class PlainShaper:
    """Shows answers as they are: shaping has tests of its own."""

    def mask(self, observation: Observation) -> Observation:
        return observation

    def shape(self, action: Action, body: bytes, content_type: str | None) -> Shaped:
        value = read_body(body)
        return Shaped(body if isinstance(value, dict) else b"{}", None)

    def shape_value(self, action: Action, value: object) -> Shaped:
        return Shaped(orjson.dumps(value), None)


class HostKeys:
    """Hosts take any key; no service of the simulation asks for a credential."""

    def secret_for(self, name: str, origin: str) -> Secret:
        if not origin.startswith("ssh://"):
            raise AssertionError("no service here has a credential")
        return Secret("ssh_key", "", "a key that nobody looks at")


class SimDefinitions:
    """The compiled kinds; stored definitions are revived from the store's own bytes."""

    def __init__(self) -> None:
        self._catalog = catalog()

    @property
    def actions(self) -> Mapping[str, Action]:
        return self._catalog.actions

    def built_in(self, name: str, host: str) -> Action | None:
        """No agent asks for the gateway's own actions."""
        raise AssertionError(f"{name} on {host} is nobody's")

    def definition(self, action: Action) -> bytes:
        return self._catalog.definition(action)

    def compile(self, definition: bytes) -> Action:
        found = _COMPILED.get(definition)
        if found is None:
            found = _COMPILED[definition] = compile_definition(definition)
        return found

    def validate(self, action: Action, arguments: object) -> list[FieldError]:
        return self._catalog.validate(action, arguments)


_COMPILED: dict[bytes, Action] = {}
