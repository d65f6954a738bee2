"""The canary sweep: tests use made-up secrets, and everything they produced is searched for them, always.

A test asks for `canary_secret` (or mints several with `canaries.mint`), uses it as a credential, and names what came
out with `watch_folder` and `watch_text`. What it watched is searched when the test ends and again when the session
ends. A hit fails the test, a late one fails the session. Messages name the secret by its label and never show it.
"""

import os
import secrets
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.canary_search import Hit, Patterns, files_in, patterns_for, search, search_file

_LETTERS = string.ascii_letters + string.digits
_KEY = pytest.StashKey["Sweep"]()


def _letters(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


@dataclass(frozen=True, slots=True)
class _Family:
    """Canaries that share their first and last twelve characters, so that one search finds every one of them.

    Whatever cuts such a canary once leaves one of the two ends whole. The special characters in both ends make every
    encoding differ from the raw form.
    """

    first: str
    last: str

    def mint(self) -> str:
        return self.first + _letters(8) + self.last


def _family(special: str) -> _Family:
    first, last = (f"{_letters(6)}{special}{_letters(6 - len(special))}" for _ in range(2))
    return _Family(first, last)


@dataclass(slots=True)
class Sweep:
    """All canaries of one test process and all that is to be searched for them."""

    token: _Family = field(default_factory=lambda: _family("+/"))
    awkward: _Family = field(default_factory=lambda: _family('"\\&é'))
    foreign: dict[str, str] = field(default_factory=dict)
    minted: int = 0
    places: list[Path] = field(default_factory=list)
    texts: list[tuple[str, bytes]] = field(default_factory=list)
    seen: dict[Path, tuple[int, int, int]] = field(default_factory=dict)
    bytes_searched: int = 0
    hits: list[Hit] = field(default_factory=list)

    def family_patterns(self) -> dict[bytes, tuple[str, str]]:
        ends = {
            f"{name} canary's {end} end": text
            for name, family in (("a", self.token), ("an awkward", self.awkward))
            for end, text in (("first", family.first), ("last", family.last))
        }
        return patterns_for(ends)

    def sweep(self, places: list[Path], texts: list[tuple[str, bytes]], patterns: Patterns) -> Iterator[Hit]:
        for label, data in texts:
            self.bytes_searched += len(data)
            yield from search(data, patterns, label)
        for place in places:
            for path in files_in(place):
                self.bytes_searched += path.stat().st_size
                yield from search_file(path, patterns)

    def finish(self) -> None:
        """Search again what has changed since its test ended, and everything for secrets minted elsewhere."""
        changed = [path for place in self.places for path in files_in(place) if self.seen.get(path) != _stamp(path)]
        self.hits += self.sweep(changed, [], self.family_patterns())
        if self.foreign:
            self.hits += self.sweep(self.places, self.texts, patterns_for(self.foreign))

    def summary(self) -> dict[str, Any]:
        return {
            "canaries": self.minted + len(self.foreign),
            "artefacts": len(self.places) + len(self.texts),
            "bytes": self.bytes_searched,
            "hits": sorted({str(hit) for hit in self.hits}),
        }


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


class Canaries:
    """What one test mints and watches."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._places: list[Path] = []
        self._texts: list[tuple[str, bytes]] = []
        self._foreign: dict[str, str] = {}

    def mint(self, *, awkward: bool = False) -> str:
        """A fresh 32-character secret: fit for a header, or with quotes, a backslash, `&` and an umlaut."""
        self._sweep.minted += 1
        return (self._sweep.awkward if awkward else self._sweep.token).mint()

    def watch_secret(self, label: str, secret: str) -> None:
        """Search for a secret that the product made itself (a key it printed once, say)."""
        label = f"{label} #{len(self._sweep.foreign) + 1}"
        self._foreign[label] = self._sweep.foreign[label] = secret

    def watch_folder(self, place: str | os.PathLike[str]) -> None:
        """Search this folder, or file, when the test ends. It must exist then: searching nothing proves nothing."""
        self._places.append(Path(place))

    def watch_text(self, text: str | bytes, label: str = "a text") -> None:
        """Search what was printed, answered or logged."""
        self._texts.append((label, text.encode(errors="surrogateescape") if isinstance(text, str) else text))

    def check(self) -> list[str]:
        """Search all that this test watched; the session looks at the same artefacts again at its end."""
        missing = [place for place in self._places if not place.exists()]
        patterns = {**self._sweep.family_patterns(), **patterns_for(self._foreign)}
        watched = bool(self._places or self._texts)
        hits = list(self._sweep.sweep(self._places, self._texts, patterns)) if watched else []
        self._sweep.places += self._places
        self._sweep.texts += self._texts
        self._sweep.seen |= {path: _stamp(path) for place in self._places for path in files_in(place)}
        return [f"{place} is gone: nothing was searched" for place in missing] + sorted({str(hit) for hit in hits})


@pytest.fixture
def canaries(request: pytest.FixtureRequest) -> Iterator[Canaries]:
    mine = Canaries(request.config.stash[_KEY])
    yield mine
    findings = mine.check()
    if findings:
        pytest.fail("canary sweep: " + "\n".join(findings), pytrace=False)


@pytest.fixture
def canary_secret(canaries: Canaries) -> str:
    """A made-up credential that must not be found in anything the test watches."""
    return canaries.mint()


@pytest.fixture
def watch_folder(canaries: Canaries) -> Callable[[str | os.PathLike[str]], None]:
    return canaries.watch_folder


@pytest.fixture
def watch_text(canaries: Canaries) -> Callable[..., None]:
    return canaries.watch_text


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_KEY] = Sweep()
    config.stash[_REPORTS] = []


_REPORTS = pytest.StashKey[list[dict[str, Any]]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Collect what a worker found; a worker that died has failed the session already."""
    report = getattr(node, "workeroutput", {}).get("canary_sweep")
    if report is not None:
        node.config.stash[_REPORTS].append(report)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    sweep = session.config.stash[_KEY]
    sweep.finish()
    worker = getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["canary_sweep"] = sweep.summary()
        return
    reports = session.config.stash[_REPORTS]
    reports.append(sweep.summary())
    if any(report["hits"] for report in reports):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = config.stash[_REPORTS]
    canaries, artefacts, size = (sum(report[key] for report in reports) for key in ("canaries", "artefacts", "bytes"))
    hits = [hit for report in reports for hit in report["hits"]]
    line = f"canary sweep: {canaries} canaries, {artefacts} artefacts, {size / 1e6:.1f} MB searched, {len(hits)} found"
    terminalreporter.write_line(line, red=bool(hits), bold=bool(hits))
    for hit in hits:
        terminalreporter.write_line(f"  SECRET LEAKED: {hit}", red=True)
