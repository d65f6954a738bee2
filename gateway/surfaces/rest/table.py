"""Finds the route of a request: one decision over the raw path, and whatever is not in the table does not exist."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from gateway.surfaces.rest.routes import Route


@dataclass(frozen=True, slots=True)
class Place:
    """An address: the routes that it takes by method, and the parameters that its path names."""

    routes: Mapping[str, Route]
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def methods(self) -> str:
        """For an `Allow` header."""
        return ", ".join(sorted(self.routes))


NOWHERE = Place({})


class Table:
    """The routes by path. A fixed path wins over one with parameters."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Read once, at start."""
        self._fixed: dict[str, dict[str, Route]] = {}
        self._open: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            if "{" in route.path:
                methods = self._open.setdefault(tuple(route.path.split("/")), {})
            else:
                methods = self._fixed.setdefault(route.path, {})
            methods[route.method] = route
            if route.method == "GET" and route.has_head:
                methods["HEAD"] = route

    def find(self, raw_path: str) -> Place:
        """The place at a path as it came over the wire.

        It is taken apart before it is decoded, so that an encoded slash cannot move the borders of its segments, and
        dots are just characters.
        """
        fixed = self._fixed.get(raw_path)
        if fixed is not None:
            return Place(fixed)
        given = raw_path.split("/")
        for pattern, routes in self._open.items():
            found = _parameters(pattern, given)
            if found is not None:
                return Place(routes, found)
        return NOWHERE


def _parameters(pattern: tuple[str, ...], given: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(given):
        return None
    found: dict[str, str] = {}
    for wanted, segment in zip(pattern, given, strict=True):
        if wanted.startswith("{"):
            if not segment:
                return None
            found[wanted[1:-1]] = unquote(segment)
        elif wanted != segment:
            return None
    return found
