"""Policies are put together from their parts, refused if they can never be met, and said in plain words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from audit.cosign import Cosigner
from audit.note import NoteSigner
from audit.trust import BadPolicy, Group, TrustPolicy
from audit.trust_words import explain, make_policy, policy_json
from tests.unit.audit.logs import ORIGIN, entropy

DRAW = entropy("policy")
KEY = NoteSigner.generate(ORIGIN, DRAW).key
NEXT = NoteSigner.generate(ORIGIN, DRAW).key
W1, W2, W3 = (Cosigner.generate(f"w{number}.example", DRAW).key for number in (1, 2, 3))
WITNESSES = [f"one {W1} https://w1.example", f"witness two {W2}", f"three {W3}"]


def test_number_of_all_witnesses_makes_a_group() -> None:
    policy = make_policy([f"log {KEY}"], WITNESSES, [], "2")
    assert policy.groups == {"witnesses": Group(2, ("one", "two", "three"))}
    assert policy.quorum == "witnesses"
    assert TrustPolicy.parse(policy.to_text()) == policy
    assert explain(policy)[-1] == "a checkpoint counts only if 2 of these 3 cosigned it: one, two, three"
    assert explain(make_policy([str(KEY)], WITNESSES, [], "all"))[-1].startswith("a checkpoint counts only if all 3 of")


def test_groups_of_groups_are_said_with_who_is_left_over() -> None:
    policy = make_policy([str(KEY)], WITNESSES, ["pair any one two", "both all pair three"], "both")
    words = explain(policy)
    assert words[-1] == (
        "a checkpoint counts only if all 2 of these cosigned it: pair (that is 1 of these 2: one, two), three"
    )
    words = explain(make_policy([str(KEY)], WITNESSES, [], "two"))
    assert words[-2:] == [
        "a checkpoint counts only if the witness two cosigned it",
        "named but not needed for that: one, three",
    ]
    assert "asked at https://w1.example" in words[1]


def test_policy_without_witnesses_says_what_it_does_not_show() -> None:
    policy = make_policy([str(KEY)], [], [], "none")
    assert policy == TrustPolicy((KEY,))
    assert "asks for no witness" in explain(policy)[-1]


@pytest.mark.parametrize(
    ("groups", "quorum", "word"),
    [
        (["g 4 one two three"], "g", "line 5: a group that asks for 4 of 3 can never be met"),
        (["g 0 one two three"], "g", "line 5: a group that asks for 0 of 3 is always met"),
        (["g all one nobody"], "g", "line 5: no witness or group before this line is called 'nobody'"),
        ([], "nobody", "line 5: no witness or group before this line is called 'nobody'"),
        ([], "4", "line 5: a group that asks for 4 of 3 can never be met"),
        (["g any one", "h any one"], "h", "line 6: a member may be listed only once"),
        (["one any two"], "one", "line 5: the name 'one' is taken"),
        (["g some one"], "g", "line 5: a group's threshold"),
    ],
)
def test_policy_that_cannot_be_met_is_refused_by_line(groups: list[str], quorum: str, word: str) -> None:
    with pytest.raises(BadPolicy, match=word):
        make_policy([str(KEY)], WITNESSES, groups, quorum)


def test_quorum_of_a_number_needs_witnesses() -> None:
    with pytest.raises(BadPolicy, match="needs witnesses"):
        make_policy([str(KEY)], [], [], "1")
    with pytest.raises(BadPolicy, match="line 1"):
        make_policy(["nonsense"], [], [], "none")


def test_changed_log_keys_carry_the_sizes_they_speak_for() -> None:
    old, new = replace(KEY, until=70), replace(NEXT, since=70)
    policy = TrustPolicy((old, new))
    text = policy.to_text()
    assert "#agl1 sizes 0-70\nlog " in text
    assert "#agl1 sizes 70-\nlog " in text
    assert TrustPolicy.parse(text) == policy
    assert make_policy([text.replace("quorum none\n", "")], [], [], "none") == policy
    assert (old.signs_tree(70), old.signs_tree(71), new.signs_tree(69), new.signs_tree(70)) == (
        True,
        False,
        False,
        True,
    )
    assert (old.certifies_at(69), old.certifies_at(70), new.certifies_at(70)) == (True, False, True)
    words = explain(policy)
    assert words[0].endswith("for its trees of 0 to 70 entries")
    assert words[1].endswith("for its trees of 70 entries and more")
    told = json.loads(json.dumps(policy_json(policy)))
    assert [(log["since"], log["until"]) for log in told["logs"]] == [(0, 70), (70, None)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("#agl1 sizes 0-70\n", "followed by no log"),
        (f"#agl1 sizes 0-70\nquorum none\nlog {KEY}\n", "line 2"),
        (f"#agl1 size 0-70\nlog {KEY}\n", "line 1: expected '#agl1 sizes"),
        (f"#agl1 sizes 070-\nlog {KEY}\n", "line 1: expected '#agl1 sizes"),
        (f"#agl1 sizes 9-8\nlog {KEY}\n", "line 1: no log has sizes from 9 to 8"),
        (f"#agl1 sizes 0-7 8\nlog {KEY}\n", "line 1: expected '#agl1 sizes"),
        (f"#agl1x\nlog {KEY}\n", "line 1: expected 'log'"),
    ],
)
def test_misspelt_sizes_are_refused_and_not_passed_over(text: str, word: str) -> None:
    with pytest.raises(BadPolicy, match=word):
        TrustPolicy.parse(text)


def test_words_of_a_policy_part_at_spaces_and_tabs_and_nowhere_else() -> None:
    lines = f"# a log\n \t# and its witness\nlog\t{KEY}\n  witness   w\u00a01 {W1} \nquorum w\u00a01\n"
    policy = TrustPolicy.parse(lines)
    assert (policy.logs, list(policy.witnesses), policy.quorum) == ((KEY,), ["w\u00a01"], "w\u00a01")


@pytest.mark.parametrize("char", ["\r", "\x0b", "\x0c", "\x1c", "\x00", "\x7f"])
def test_a_control_character_in_a_policy_is_refused_where_it_stands(char: str) -> None:
    with pytest.raises(BadPolicy, match="line 2: a control character"):
        TrustPolicy.parse(f"log {KEY}\nquorum none{char}\n")
