"""The example that every other test changes is right."""

from gateway.catalog.lint import RULES
from tests.unit.catalog.examples import BASE, mistakes


def test_the_example_itself_has_no_mistake() -> None:
    assert [str(mistake) for mistake in mistakes(BASE)] == []


def test_no_rule_is_listed_twice() -> None:
    assert len(set(RULES)) == len(RULES)
