"""What no file of the project may hold: unfinished work, unexplained exceptions, places on one machine only."""

import re

import pytest

from tests.house.source import modules, stale, texts

# Each pattern is written so that it does not match itself.
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b")
SOMEBODYS_FOLDER = re.compile(r"(?<![\w.:*/}\)>-])/(?:home|root|Users|work|workspace|builds|mnt)/\w")
REGISTRY = re.compile(r"py[p]i\.org|python[h]osted|npm[j]s\.|deb\.de[b]ian|--(?:extra-)?in[d]ex-url|--find-li[n]ks")
SILENCED = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no cover|nosec)(?P<rest>.*)$", re.MULTILINE)
EXPLAINED = re.compile(r"^(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|\[[\w,\s-]+\])?+\s*(?:[-–#:(]\s*)+\w.{5,}")
HAS_CODE = re.compile(r"^(?::\s*[A-Z]+\d+|\[[\w,\s-]+\])")

# path -> why it may name what others may not
FOLDERS_EXEMPT: dict[str, str] = {}
REGISTRY_EXEMPT: dict[str, str] = {}


def _matching(pattern: re.Pattern[str]) -> set[str]:
    return {path for path, text in texts().items() if pattern.search(text)}


def test_nothing_is_left_for_later() -> None:
    assert _matching(UNFINISHED) - {"LICENSE"} == set()


def test_no_file_names_a_folder_of_one_machine() -> None:
    found = _matching(SOMEBODYS_FOLDER)

    assert found - set(FOLDERS_EXEMPT) == set()
    assert stale(FOLDERS_EXEMPT, found) == set()


def test_no_file_names_a_package_index() -> None:
    found = _matching(REGISTRY)

    assert found - set(REGISTRY_EXEMPT) == set()
    assert stale(REGISTRY_EXEMPT, found) == set()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (UNFINISHED, "# " + "TO" + "DO: later"),
        (SOMEBODYS_FOLDER, "see /" + "home/ann/notes"),
        (REGISTRY, "https://" + "py" + "pi.org/simple"),
        (REGISTRY, "--in" + "dex-url here"),
    ],
)
def test_each_pattern_finds_what_it_forbids(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def _silenced() -> list[tuple[str, str, str]]:
    return [
        (module.path, match[1], match["rest"])
        for module in modules("gateway", "adapters", "audit", "fixtures", "tests")
        for match in SILENCED.finditer(module.text)
        if module.path != "tests/house/test_text.py"
    ]


def test_a_silenced_rule_names_its_code_and_its_reason() -> None:
    bare = [
        f"{path}: {kind}{rest}"
        for path, kind, rest in _silenced()
        if not EXPLAINED.match(rest) or (kind.startswith(("noqa", "type")) and not HAS_CODE.match(rest))
    ]

    assert bare == []


@pytest.mark.parametrize(
    "rest", [": S104 - refused, never bound", "[misc]  # the stub is wrong", ": E1, E2 (both meant)"]
)
def test_an_explanation_is_recognised(rest: str) -> None:
    assert EXPLAINED.match(rest)
    assert HAS_CODE.match(rest)


@pytest.mark.parametrize("rest", ["", ": S104", "[misc]", " - because I say so", ": S104 - why"])
def test_a_missing_code_or_reason_is_recognised(rest: str) -> None:
    assert not (EXPLAINED.match(rest) and HAS_CODE.match(rest))
