"""Files as a whole: several at once, of another shape, with the same names, with the environment in them."""

import pytest

from gateway.catalog.lint import check
from gateway.catalog.load import load
from tests.unit.catalog.examples import BASE, EFFECT, SERVICE, H, assert_told, changed, mistakes

MISTAKES = [
    ("path: /things\n", f"path: /things/${{HOME}} {H}\n", "environment is not read", "vault"),
    (SERVICE, f"  api: {{base_url: 'https://${{HOST}}'}} {H}\n", "environment is not read", "vault"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)


def test_mistakes_of_all_files_are_told_at_once() -> None:
    first = changed((EFFECT, "    effect: nope\n")).encode()
    second = b"actions: {b: 5, c: {effect: read}}\n"
    third = b"actions:\n\tb: 1\n"
    result = check({"a.yaml": first, "b.yaml": second, "c.yaml": third})
    assert {mistake.file for mistake in result.mistakes} == {"a.yaml", "b.yaml", "c.yaml"}
    assert len([mistake for mistake in result.mistakes if mistake.file == "b.yaml"]) > 3


def test_the_same_name_in_two_files_is_refused_and_both_places_are_named() -> None:
    result = check({"a.yaml": BASE.encode(), "b.yaml": BASE.encode()})
    told = [str(mistake) for mistake in result.mistakes]
    assert any("b.yaml:4:3: “things.create” is declared already, in a.yaml on line 4." in line for line in told)
    assert any("b.yaml:2:3: “api” is declared already" in line for line in told)


def test_a_service_in_an_unreadable_file_is_not_reported_as_missing() -> None:
    lines = BASE.splitlines(keepends=True)
    actions = "".join(lines[2:])
    result = check({"services.yaml": b"services: {api: &x}\n", "actions.yaml": actions.encode()})
    assert not any("no service" in mistake.detail for mistake in result.mistakes)
    assert check({"services.yaml": "".join(lines[:2]).encode(), "actions.yaml": actions.encode()}).catalog is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "A catalog file is a mapping"),
        ("services: [a]\n", "“services” is a mapping"),
        ("actions: 5\n", "“actions” is a mapping"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, words: str) -> None:
    assert any(words in mistake.detail for mistake in mistakes(text))


def test_empty_files_declare_nothing() -> None:
    result = check({"a.yaml": b"", "b.yaml": b"# nothing\n", "c.yaml": b"services:\nactions:\n"})
    assert result.mistakes == ()
    assert result.catalog is not None
    assert dict(result.catalog.actions) == {}


def test_loading_alone_collects_and_never_raises() -> None:
    loaded = load({"a.yaml": b"a: &x 1\n", "b.yaml": BASE.encode()})
    assert not loaded.complete
    assert list(loaded.actions) == ["things.create"]
    assert len(loaded.mistakes) == 1
