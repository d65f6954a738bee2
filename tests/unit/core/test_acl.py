"""Access: first fit decides, no fit means no, a flawed rule refuses, and a guessed name teaches nothing."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import acl
from gateway.core.acl import DEFAULT_DENY, READS_ONLY, decide, fits, require_access, require_deed, sees, visible
from gateway.model.access import AccessRule, CallerLimits, Policy
from gateway.model.action import Action, Effect, Predicate, RequestTemplate, Service
from gateway.model.principal import Deed, Principal, PrincipalKind
from gateway.model.problem import Code, Problem

AGENT = Principal(PrincipalKind.CALLER, "agent-a", "ann", "k1")
PERSON = Principal(PrincipalKind.PERSON, "ann", "ann", "k2")


def action(name: str = "deploys.create", effect: Effect = Effect.IRREVERSIBLE, service: str = "deploys") -> Action:
    return Action(
        name=name, description="", effect=effect, digest="", service=Service(service, "https://deploys.example"),
        request=RequestTemplate("POST", "/"), input_schema={}, success=Predicate(),
    )  # fmt: skip


READ = action("deploys.get", Effect.READ)
WRITE = action()
STAGING = {"environment": "staging"}
PRODUCTION = {"environment": "production"}


def allow(name: str = "r", **parts: Any) -> AccessRule:
    return AccessRule("allow", name, **parts)


def deny(name: str = "d", **parts: Any) -> AccessRule:
    return AccessRule("deny", name, **parts)


def ruled(*rules: AccessRule, arguments: dict[str, Any] | None = None, what: Action = WRITE) -> str:
    decision = decide(Policy(rules), AGENT, what, STAGING if arguments is None else arguments)
    return f"{'yes' if decision.allowed else 'no'}: {decision.rule}"


TABLE: list[tuple[tuple[AccessRule, ...], dict[str, Any] | None, str]] = [
    ((), None, "no: default-deny"),
    ((allow(),), None, "yes: r"),
    ((deny(), allow()), None, "no: d"),
    ((allow(), deny()), None, "yes: r"),
    ((allow(caller="agent-b"),), None, "no: default-deny"),
    ((allow(caller="agent-*"),), None, "yes: r"),
    ((allow(caller="agent"),), None, "no: default-deny"),
    ((allow(action="deploys.*"),), None, "yes: r"),
    ((allow(action="deploy.*"),), None, "no: default-deny"),
    ((allow(action="*.create"),), None, "yes: r"),
    ((allow(action="deploys?create"),), None, "no: default-deny"),
    ((allow(action="deploys.creat[e]"),), None, "no: default-deny"),
    ((allow(action="Deploys.*"),), None, "no: default-deny"),
    ((allow(effect="irreversible"),), None, "yes: r"),
    ((allow(effect="read"),), None, "no: default-deny"),
    ((allow(service="deploys"),), None, "yes: r"),
    ((allow(service="billing"),), None, "no: default-deny"),
    ((allow(where=STAGING),), STAGING, "yes: r"),
    ((allow(where=STAGING),), PRODUCTION, "no: default-deny"),
    ((allow(where=STAGING),), {}, "no: default-deny"),
    ((allow(where={"environment": "stag*"}),), STAGING, "yes: r"),
    ((allow(where={"environment": ["staging", "test"]}),), STAGING, "yes: r"),
    ((allow(where={"environment": ["test"]}),), STAGING, "no: default-deny"),
    ((allow(where={"n": 1}),), {"n": 1.0}, "yes: r"),
    ((allow(where={"n": 1}),), {"n": True}, "no: default-deny"),
    ((allow(where={"n": 1}),), {"n": "1"}, "no: default-deny"),
    ((allow(where={"n": None}),), {"n": None}, "yes: r"),
    ((allow(where={"n": "*"}),), {"n": {"deep": 1}}, "no: default-deny"),
    ((allow(where=STAGING),), {"environment": ["staging"]}, "yes: r"),
    ((allow(where=STAGING),), {"environment": ["staging", "production"]}, "no: default-deny"),
    ((allow(where=STAGING),), {"environment": []}, "no: default-deny"),
    ((allow(where={**STAGING, "n": 1}),), {**STAGING, "n": 2}, "no: default-deny"),
    ((deny(where=PRODUCTION), allow()), STAGING, "yes: r"),
    ((deny(where=PRODUCTION), allow()), PRODUCTION, "no: d"),
    ((deny(where=PRODUCTION), allow()), {}, "no: d"),
    ((deny(where=PRODUCTION), allow()), {"environment": ["staging", "production"]}, "no: d"),
]


@pytest.mark.parametrize(("rules", "arguments", "expected"), TABLE)
def test_the_first_rule_that_fits_decides(
    rules: tuple[AccessRule, ...], arguments: dict[str, Any] | None, expected: str
) -> None:
    assert ruled(*rules, arguments=arguments) == expected


@pytest.mark.parametrize(
    "flawed",
    [
        AccessRule("hold", "bad"),
        AccessRule("", "bad"),
        AccessRule("ALLOW", "bad"),
        allow("bad", effect="destructive"),
        allow("bad", caller=None),
        allow("bad", where=None),
    ],
)
def test_a_rule_that_cannot_be_evaluated_refuses_and_is_not_passed_over(flawed: AccessRule) -> None:
    assert ruled(flawed, allow()) == "no: bad"
    assert ruled(allow(), flawed) == "yes: r"


@given(
    st.builds(
        AccessRule,
        decision=st.sampled_from(["deny", "hold", "", "Allow", "allow "]),
        name=st.just("x"),
        caller=st.text("*agent-", max_size=9),
        action=st.text("*deploys.", max_size=9),
    )
)
def test_nothing_but_an_allowing_rule_ever_allows(rule: AccessRule) -> None:
    assert not decide(Policy((rule,)), AGENT, WRITE, STAGING).allowed
    assert visible(Policy((rule,)), AGENT, [WRITE, READ]) == ()


def test_a_caller_that_may_not_write_sees_and_runs_reads_only() -> None:
    policy = Policy((allow(),), (CallerLimits("agent-*", writes=False), CallerLimits("agent-a", writes=True)))

    assert visible(policy, AGENT, [WRITE, READ]) == (READ,)
    assert decide(policy, AGENT, READ, {}).allowed
    assert decide(policy, AGENT, WRITE, {}).rule == READS_ONLY
    assert visible(policy, replace(AGENT, name="other"), [WRITE, READ]) == (WRITE, READ)


@pytest.mark.parametrize(
    ("rules", "shown"),
    [
        ((), False),
        ((allow(),), True),
        ((allow(where=STAGING),), True),
        ((deny(), allow()), False),
        ((deny(where=PRODUCTION), allow()), True),
        ((deny(where=PRODUCTION),), False),
        ((deny(caller="agent-b"), allow()), True),
        ((AccessRule("hold", "bad"), allow()), False),
    ],
)
def test_an_action_is_shown_if_some_arguments_could_be_allowed(rules: tuple[AccessRule, ...], shown: bool) -> None:
    assert (visible(Policy(rules), AGENT, [WRITE]) == (WRITE,)) is shown


def test_a_guessed_name_gets_the_answer_of_a_name_that_does_not_exist() -> None:
    policy = Policy((allow(),), (CallerLimits("*", writes=False),))

    with pytest.raises(Problem) as refused:
        require_access(policy, AGENT, WRITE, STAGING)
    unknown = acl.unknown_action(AGENT)
    assert (refused.value.code, refused.value.detail) == (unknown.code, unknown.detail)
    assert refused.value.guidance == unknown.guidance
    assert refused.value.extra == unknown.extra == {}


def test_a_person_is_told_that_a_line_has_to_allow_it_and_an_agent_that_it_can_ask() -> None:
    person = acl.unknown_action(replace(AGENT, kind=PrincipalKind.PERSON))

    assert "a line under `access`" in person.guidance
    assert "can still be asked for" in acl.unknown_action(AGENT).guidance


def test_refused_arguments_of_a_visible_action_name_the_rule_and_repeat_no_argument() -> None:
    with pytest.raises(Problem) as refused:
        require_access(Policy((deny("no-prod", where=PRODUCTION), allow())), AGENT, WRITE, PRODUCTION)
    assert refused.value.code is Code.FORBIDDEN
    assert "no-prod" in refused.value.detail
    assert "production" not in refused.value.detail + refused.value.guidance
    assert require_access(Policy((allow("yes"),)), AGENT, WRITE, STAGING).rule == "yes"


def test_no_rule_at_all_is_named_as_such() -> None:
    assert decide(Policy(), AGENT, READ, {}).rule == DEFAULT_DENY


@pytest.mark.parametrize("deed", list(Deed))
def test_each_kind_of_key_does_its_own_work_only(deed: Deed) -> None:
    acts = {Deed.SUBMIT, Deed.READ_OWN, Deed.PROBE, Deed.CANCEL}
    for principal, may in ((AGENT, deed in acts), (PERSON, deed is not Deed.SUBMIT)):
        if may:
            require_deed(principal, deed)
        else:
            with pytest.raises(Problem) as refused:
                require_deed(principal, deed)
            assert refused.value.code is Code.FORBIDDEN


def test_operations_of_others_do_not_exist_for_a_caller() -> None:
    assert sees(AGENT, "agent-a")
    assert not sees(AGENT, "agent-b")
    assert sees(PERSON, "agent-b")


@given(st.lists(st.text("ab*", max_size=4), max_size=4).map("*".join), st.text("ab*", max_size=12))
def test_patterns_agree_with_a_plain_definition(pattern: str, text: str) -> None:
    def plain(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(plain(pattern[1:], text[start:]) for start in range(len(text) + 1))
        return bool(text) and text[0] == pattern[0] and plain(pattern[1:], text[1:])

    assert fits(pattern, text) is plain(pattern, text)


def test_a_pattern_of_many_stars_is_no_trap_for_long_text() -> None:
    assert not fits("*a" * 30 + "b", "a" * 200_000)
