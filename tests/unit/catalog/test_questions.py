"""The three questions about a write, and what happens without an answer."""

import pytest

from gateway.catalog.questions import questions
from tests.unit.catalog.examples import BIND, RECONCILE, SETTLE, assert_warned, changed, checked, compiled, mistakes

WARNINGS = [
    (SETTLE, "", "What evidence remains", "never conclusive"),
    (BIND, BIND + "    unknown_accepted: true\n    reason: no need\n", "not needed", "Remove it"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), WARNINGS)
def test_each_gap_is_a_warning(old: str, new: str, words: str, hint: str) -> None:
    assert_warned(old, new, words, hint)


def test_an_irreversible_action_without_any_answer_is_refused_unless_its_owner_accepts() -> None:
    bare = changed((BIND, ""), (RECONCILE, ""))
    refused = [mistake for mistake in mistakes(bare) if not mistake.warning]
    assert ["could never be known" in mistake.detail for mistake in refused] == [True]
    accepted = bare + "    unknown_accepted: true\n    reason: a newsletter may be lost\n"
    result = checked(accepted)
    assert result.catalog is not None
    assert result.catalog.actions["things.create"].unknown_accepted == "a newsletter may be lost"
    assert checked(bare.replace("irreversible", "reversible")).catalog is not None


def test_a_repeat_under_the_same_key_is_evidence_enough() -> None:
    window = "    bind: {in: header, name: X-Id, window: {min: 24h, margin: 1h}}\n"
    text = changed((BIND, window + "    resend: same_key\n    replay_after_5xx: same_outcome\n"), (RECONCILE, ""))
    answers = questions(compiled(text))
    assert [answer.answered for answer in answers] == [True, False, True]
    assert "same outcome again" in answers[2].sentence
