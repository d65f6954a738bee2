"""May this principal run this action with these arguments? First fit decides, and no fit means no."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from gateway.core.matching import json_equal
from gateway.core.strictjson import Json
from gateway.model.access import AccessRule, Decision, Policy
from gateway.model.action import Action, Effect
from gateway.model.principal import Deed, Principal, PrincipalKind
from gateway.model.problem import Code, Problem

DEFAULT_DENY: Final = "default-deny"
READS_ONLY: Final = "reads-only"

DEEDS: Final[Mapping[PrincipalKind, frozenset[Deed]]] = {
    PrincipalKind.CALLER: frozenset({Deed.SUBMIT, Deed.READ_OWN, Deed.PROBE, Deed.CANCEL}),
    PrincipalKind.PERSON: frozenset({
        Deed.SUPERSEDE, Deed.READ_OWN, Deed.READ_ALL, Deed.PROBE, Deed.CANCEL,
        Deed.ATTEST, Deed.DECIDE, Deed.READ_AUDIT, Deed.ADMINISTER,
    }),
}  # fmt: skip
"""What each kind of key may be used for. A deed that is not listed is refused."""

_EFFECTS: Final = frozenset({"*", *Effect})


def decide(policy: Policy, principal: Principal, action: Action, arguments: Mapping[str, Json]) -> Decision:
    """Rule on one call. Never raises: a rule that cannot be evaluated refuses, it is not passed over."""
    if not action.is_read and not _may_write(policy, principal):
        return Decision(allowed=False, rule=READS_ONLY, reason="This key may run reads only.")
    for rule in policy.rules:
        try:
            fits = _fits_action(rule, principal, action) and _fits_arguments(rule, arguments)
        except Exception:  # noqa: BLE001 - any flaw in a rule must refuse, whatever its kind
            return _flawed(rule)
        if fits:
            return _ruling(rule)
    return Decision(allowed=False, rule=DEFAULT_DENY, reason="No access rule allows this.")


def is_visible(policy: Policy, principal: Principal, action: Action) -> bool:
    """Whether some arguments could be allowed: the action is shown to this principal, and exists for it."""
    if not action.is_read and not _may_write(policy, principal):
        return False
    for rule in policy.rules:
        try:
            fits = _fits_action(rule, principal, action)
        except Exception:  # noqa: BLE001 - as in decide
            return False
        if fits and (rule.decision != "deny" or not rule.where):
            # A denial that depends on arguments leaves others that a later rule may allow.
            return _ruling(rule).allowed
    return False


def visible(policy: Policy, principal: Principal, actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions that are shown to this principal, in the order given."""
    return tuple(action for action in actions if is_visible(policy, principal, action))


def require_access(policy: Policy, principal: Principal, action: Action, arguments: Mapping[str, Json]) -> Decision:
    """The decision that allows the call.

    Raises `Problem(unknown_action)` for an action that this principal does not see: a guessed name teaches nothing.
    Raises `Problem(forbidden)`, naming the rule, when only these arguments are refused.
    """
    decision = decide(policy, principal, action, arguments)
    if decision.allowed:
        return decision
    if not is_visible(policy, principal, action):
        raise unknown_action(principal)
    raise Problem(
        Code.FORBIDDEN,
        f"{decision.reason} The rule is {decision.rule}.",
        "Do not try again with other spellings. Ask the owner of this key if the rule should change.",
        extra={"rule": decision.rule},
    )


def unknown_action(principal: Principal) -> Problem:
    """The one answer for names that are not declared and for actions that are not shown to the asker."""
    if principal.is_person:
        more = "For a person's key, too, a line under `access` in the settings has to allow it."
    else:
        more = "What you submitted under it before can still be asked for, by its id or your key."
    return Problem(
        Code.UNKNOWN_ACTION,
        "No action of this name can be run with this key; nothing was sent.",
        f"List the actions and use one of their names exactly. {more}",
    )


def require_deed(principal: Principal, deed: Deed) -> None:
    """Raises `Problem(forbidden)` if this kind of key is not for that."""
    if deed in DEEDS.get(principal.kind, frozenset()):
        return
    if principal.is_person:
        detail = "A person's key does not act as an agent; a new operation needs `supersedes`, or a caller's key."
    else:
        detail = "A caller's key only acts: deciding, attesting and administering need a person's key."
    raise Problem(Code.FORBIDDEN, detail, "Use a key of the other kind, or leave this to its holder.")


def sees(principal: Principal, caller: str) -> bool:
    """Whether operations of that caller exist for this principal. A namesake of the other kind is somebody else."""
    deeds = DEEDS.get(principal.kind, frozenset())
    return Deed.READ_ALL in deeds or (Deed.READ_OWN in deeds and principal.name == caller)


def fits(pattern: str, text: str) -> bool:
    """Whether the whole text has the pattern's form; `*` is any run of characters. Linear in the text."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    *middle, last = rest
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    position, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


_fits_name: Final = lru_cache(maxsize=4096)(fits)
"""For names of callers, actions and services, which are few. Arguments are not kept."""


def _may_write(policy: Policy, principal: Principal) -> bool:
    return all(limits.writes is True for limits in policy.callers if _fits_name(limits.name, principal.name))


def _fits_action(rule: AccessRule, principal: Principal, action: Action) -> bool:
    if rule.effect not in _EFFECTS or rule.decision not in {"allow", "deny"}:
        raise ValueError("the rule cannot be evaluated")
    return (
        _fits_name(rule.caller, principal.name)
        and _fits_name(rule.action, action.name)
        and rule.effect in {"*", action.effect.value}
        and _fits_name(rule.service, action.service.name)
    )


def _fits_arguments(rule: AccessRule, arguments: Mapping[str, Json]) -> bool:
    """An `allow` needs every argument to be as told; a `deny` strikes when none is certainly different.

    An argument that is absent is not as told, and not different either: the service fills in what it likes. Of a list,
    an `allow` wants every item and a `deny` any.
    """
    denies = rule.decision == "deny"
    for name, wanted in rule.where.items():
        if name not in arguments:
            if not denies:
                return False
        elif not _value_fits(wanted, arguments[name], any_item=denies):
            return False
    return True


def _value_fits(wanted: Json, value: Json, *, any_item: bool) -> bool:
    if isinstance(value, list):
        hits = [_value_fits(wanted, item, any_item=any_item) for item in value]
        return any(hits) if any_item else bool(hits) and all(hits)
    choices = wanted if isinstance(wanted, list | tuple) else [wanted]
    return any(_equals(choice, value) for choice in choices)


def _equals(choice: Json, value: Json) -> bool:
    if isinstance(choice, str) and isinstance(value, str):
        return fits(choice, value)
    return json_equal(choice, value)


def _ruling(rule: AccessRule) -> Decision:
    if rule.decision == "allow":
        return Decision(allowed=True, rule=rule.name, reason="An access rule allows this.")
    return Decision(allowed=False, rule=rule.name, reason="An access rule denies this.")


def _flawed(rule: AccessRule) -> Decision:
    return Decision(allowed=False, rule=rule.name, reason="An access rule could not be evaluated, so the answer is no.")
