"""Do the promises of an action hold together? What it claims about repeats, look-ups, absence and time."""

import re
from collections.abc import Iterator

from gateway.catalog.finding import Declared, Finding, Subject
from gateway.catalog.schema import BindForm
from gateway.catalog.schema_answers import RuleForm
from gateway.catalog.schema_lookup import IdentifyForm
from gateway.catalog.values import seconds
from gateway.catalog.yamltext import Path
from gateway.core.ids import format_id, outward
from gateway.core.placeholders import RESERVED, names_in
from gateway.model.action import BindPlace, Fence, IdFormat, Predicate, ReplayAfter5xx, Resend, Settle
from gateway.model.evidence import Finding as Shown

_VARIABLE = {"op": "operation_id", "uuid": "operation_uuid", "hex": "operation_hex"}
_OF_THE_OPERATION = frozenset(_VARIABLE.values())
_CHANGING = frozenset({"PUT", "PATCH", "DELETE"})
_INTERVAL_MIN_SECONDS = 0.1
_SAMPLE = format_id(bytes(range(16)))


def read_rules(subject: Subject) -> Iterator[Finding]:
    """A read may be repeated, so that promises about repeats say nothing."""
    form = subject.form
    if not subject.action.is_read:
        if form.reads is not None:
            yield Finding(("reads",), "“reads” describes actions of effect read.", "Remove it.")
        return
    for field in ("bind", "reconcile", "conflict_key", "precondition", "unknown_accepted", "accepted", "exists"):
        if getattr(form, field) is not None:
            hint = "Remove it, or declare the effect that the action has."
            yield Finding((field,), f"“{field}” belongs to actions that change something.", hint)
    if subject.action.resend is not Resend.NEVER:
        yield Finding(("resend",), "A read is repeated whatever “resend” says.", "Remove it.")
    if form.request.method in _CHANGING:
        hint = "Declare the effect that it has; a read is repeated without asking."
        yield Finding(
            ("request", "method"), f"{form.request.method} changes things at most services.", hint, warning=True
        )


def bind_rules(subject: Subject) -> Iterator[Finding]:
    """The outward value must fit its place, and its window must leave room for an attempt."""
    form, action = subject.form.bind, subject.action
    if form is None:
        return
    if form.in_ == "path" and _VARIABLE[form.format] not in names_in(subject.form.request.path):
        hint = f"Put {{{_VARIABLE[form.format]}}} into the path of the request."
        yield Finding(("bind", "in"), "The path of the request does not hold the operation's id.", hint)
    if form.in_ == "body" and subject.form.request.method in {"GET", "HEAD"}:
        yield Finding(("bind", "in"), f"A {subject.form.request.method} request has no body.", "Bind in a header.")
    if form.in_ == "body" and isinstance(subject.form.request.body, list | int | float | bool):
        yield Finding(("bind", "in"), "The body is no object that could hold the value.", "Bind in a header.")
    if form.in_ == "body" and form.name is not None and not all(form.name.split(".")):
        yield Finding(("bind", "name"), "This names no member of the body.", "Write name, or outer.inner.")
    yield from _value_fits(form)
    if form.window is None:
        return
    if form.in_ == "none":
        yield Finding(("bind", "window"), "There is no value for the service to remember.", "Say where it travels.")
    shortest, margin = action.bind.window_min_seconds or 0.0, action.bind.window_margin_seconds
    if margin <= action.deadlines.request_seconds:
        hint = "A request can be held up at least as long as its deadline; raise the margin."
        yield Finding(("bind", "window", "margin"), "The margin does not exceed the request deadline.", hint)
    if shortest <= margin:
        hint = "Nothing of the window would be left for a repeat."
        yield Finding(("bind", "window", "min"), "The window is not longer than its margin.", hint)


def resend_rules(subject: Subject) -> Iterator[Finding]:
    """Each way of sending again rests on a promise of the service."""
    action, form = subject.action, subject.form
    where: Path = ("resend",)
    if action.resend is Resend.SAME_KEY:
        if action.bind.place is BindPlace.NONE:
            hint = "Declare “bind”: without a value that the service remembers, a repeat is a second effect."
            yield Finding(where, "“same_key” needs a key.", hint)
        elif action.bind.window_min_seconds is None:
            hint = "Declare “bind.window” with the shortest time for which the service promises to remember the value."
            yield Finding(where, "Nobody promises how long the service remembers the key.", hint)
        if action.replay_after_5xx is not ReplayAfter5xx.SAME_OUTCOME:
            hint = "Declare “replay_after_5xx: same_outcome” if the service says so, else remove “resend”."
            detail = (
                "A 5xx may have been the answer that was lost, so this action will never be sent again after doubt."
            )
            yield Finding(where, detail, hint, warning=True)
    if action.resend is Resend.ON_ABSENCE:
        absence = action.reconcile.absence if action.reconcile else None
        if isinstance(absence, Fence):
            hint = "A fence occupies the id for good: remove “resend”; what never ran then ends as not executed."
            yield Finding(where, "“on_absence” cannot follow a fence on the same id.", hint)
        elif not isinstance(absence, Settle):
            hint = "Declare “reconcile.absence: {settle: …}”: not there now is not the same as never there."
            yield Finding(where, "“on_absence” needs a way in which absence becomes conclusive.", hint)
    if form.replay_after_5xx != "unknown" and action.bind.place is BindPlace.NONE:
        hint = "Declare “bind”, or remove it."
        yield Finding(("replay_after_5xx",), "Without a key there is nothing to replay.", hint)


def lookup_rules(subject: Subject) -> Iterator[Finding]:
    """A look-up must ask for what the service was told, and prove that it found this operation."""
    form = subject.form.reconcile
    if form is None:
        return
    seen = _seen(subject)
    yield from _unseen(("reconcile", "request"), names_in(_parts(form.request)), seen)
    if form.identify is None:
        if any(rule.finding not in {"absent", "inconclusive"} for rule in form.rules):
            hint = "Say which value of the answer equals {operation_id}, or “identify: state” if there is none."
            yield Finding(("reconcile",), "“identify” is missing: what was found might be another operation.", hint)
    elif isinstance(form.identify, IdentifyForm):
        where: Path = ("reconcile", "identify", "equals")
        used = names_in(form.identify.equals)
        yield from _unseen(where, used, seen)
        if not used & _OF_THE_OPERATION:
            hint = "Compare with {operation_id}, and send it in “bind” or in the request; else use “identify: state”."
            yield Finding(where, "This cannot tell the operation from another one with the same arguments.", hint)
    elif subject.form.conflict_key is None:
        hint = "Declare “conflict_key”, so that no other operation changes the same state meanwhile."
        yield Finding(("reconcile", "identify"), "“identify: state” needs a “conflict_key”.", hint)
    yield from _unhurried(("reconcile", "interval"), form.interval)
    looks: list[tuple[Path, str]] = [(("reconcile", "request", "method"), form.request.method)]
    if form.positive_control:
        looks.append((("reconcile", "positive_control", "request", "method"), form.positive_control.request.method))
    for path, method in looks:
        if method in _CHANGING:
            yield Finding(path, f"A look-up is repeated and must change nothing; {method} does.", "Use GET.")
    yield from _rules_reach(("reconcile", "rules"), form.rules, {"executed_ok", "absent"})


def absence_rules(subject: Subject) -> Iterator[Finding]:
    """Absence becomes conclusive by waiting long enough, or by occupying the place."""
    action, form = subject.action, subject.form.reconcile
    if form is None or action.reconcile is None:
        return
    absence, where = action.reconcile.absence, ("reconcile", "absence")
    shown = {rule.finding for rule in action.reconcile.rules}
    if absence is not None and Shown.ABSENT not in shown:
        hint = "Add a rule with “finding: absent”, for example for status 404."
        yield Finding(where, "No rule ever finds the operation absent.", hint)
    if isinstance(absence, Settle):
        if absence.seconds < action.deadlines.request_seconds:
            hint = "Count the time a request can be held up, its processing, and the lag of the look-up."
            yield Finding((*where, "settle"), "“settle” is shorter than the request deadline.", hint)
        if absence.seconds + 2 * action.reconcile.interval_seconds >= action.deadlines.recovery_seconds:
            hint = "Raise “deadlines.recovery”, or absence will never become conclusive in time."
            yield Finding((*where, "settle"), "“settle” and two looks do not fit into the recovery deadline.", hint)
    if isinstance(absence, Fence):
        if Shown.FENCED not in shown:
            hint = "Add a rule with “finding: fenced” that recognises the fence's own content."
            yield Finding(where, "No rule tells our fence from the operation itself.", hint)
        body = absence.request
        if not names_in([body.path, dict(body.query), dict(body.headers), body.body]) & _OF_THE_OPERATION:
            hint = "Put {operation_id} into the fence's request."
            yield Finding((*where, "fence", "request"), "The fence does not name the operation.", hint)
        if absence.request.method in {"GET", "HEAD"}:
            hint = "Use a request that creates something only if it is not there."
            yield Finding((*where, "fence", "request", "method"), "A fence must occupy the place.", hint)
    if action.reconcile.positive_control and Shown.ABSENT not in shown:
        hint = "Remove it, or add a rule that finds absence."
        yield Finding(("reconcile", "positive_control"), "Only absence needs a positive control.", hint, warning=True)


def answer_rules(subject: Subject) -> Iterator[Finding]:
    """What is declared about answers must be possible."""
    action, form = subject.action, subject.form
    for name, tests in (
        ("refused_before_work", action.refused_before_work),
        ("rejected", action.rejected_first + action.rejected_any),
    ):
        if any(_may_be(test, 200, 299) for test in tests if test.path is None and test.header is None):
            yield Finding((name,), "A 2xx alone is no refusal.", "Add a “path” that tells success from refusal.")
    if form.accepted:
        yield from _rules_reach(("accepted", "rules"), form.accepted.rules, {"executed_ok"})
        yield from _unhurried(("accepted", "interval"), form.accepted.interval)
    if form.success.status is None:
        hint = "Add “status: 2xx”: a body that speaks of success may come with an error."
        yield Finding(("success",), "Success needs a status.", hint)
    if action.exists and action.reconcile is None:
        hint = "Declare “reconcile”: “already there” does not say who put it there."
        yield Finding(("exists",), "“exists” leads to a look-up, and there is none.", hint)
    declared = action.rejected_first + action.rejected_any + action.exists + action.in_flight
    if not action.is_read and not any(_may_be(test, 409, 409) for test in declared):
        hint = "Say under “rejected”, “exists” or “in_flight” what it means; until then it leaves the outcome unknown."
        yield Finding((), "Nothing says what a 409 of this service means.", hint, warning=True)


def deadline_rules(subject: Declared) -> Iterator[Finding]:
    """Deadlines nest: connecting within the request, the request within recovery."""
    given = subject.action.deadlines
    for name in ("connect", "request", "recovery", "start"):
        if getattr(given, f"{name}_seconds") <= 0:
            yield Finding(("deadlines", name), "A deadline of no time lets nothing happen.", "For example 10s.")
    if given.connect_seconds > given.request_seconds:
        hint = "The request deadline counts from the start of connecting."
        yield Finding(("deadlines", "connect"), "Connecting may take longer than the whole request.", hint)
    if given.request_seconds >= given.recovery_seconds:
        hint = "Recovery starts with the first attempt and needs time after it."
        yield Finding(("deadlines", "recovery"), "The recovery deadline does not exceed the request deadline.", hint)


def _value_fits(form: BindForm) -> Iterator[Finding]:
    value = outward(_SAMPLE, IdFormat(form.format))
    if form.max is not None and len(value) > form.max:
        yield Finding(("bind", "max"), f"The value has {len(value)} characters.", "“format: hex” is 32, “op” 29.")
    if form.charset is None:
        return
    try:
        fits = re.fullmatch(f"[{form.charset}]*", value) is not None
    except re.error:
        yield Finding(("bind", "charset"), "This is no list of characters.", "For example a-z0-9_-.")
        return
    if not fits:
        yield Finding(("bind", "charset"), "The value holds other characters.", "“format: hex” has 0-9 and a-f only.")


def _unhurried(where: Path, interval: str) -> Iterator[Finding]:
    if seconds(interval) < _INTERVAL_MIN_SECONDS:
        yield Finding(where, "Two looks need time between them.", "At least 100ms, for example 1s.")


def _rules_reach(where: Path, rules: list[RuleForm], wanted: set[str]) -> Iterator[Finding]:
    if not wanted & {rule.finding for rule in rules}:
        hint = f"Add a rule with one of: {', '.join(sorted(wanted))}."
        yield Finding(where, "No rule can ever settle the outcome.", hint)


def _seen(subject: Subject) -> frozenset[str]:
    """The variables whose values the service receives with the action's own request."""
    seen = names_in(_parts(subject.form.request))
    bind, precondition = subject.form.bind, subject.form.precondition
    if bind is not None and bind.in_ not in {"none", "path"}:
        seen |= {_VARIABLE[bind.format]}
    return seen | ({precondition.from_} if precondition else frozenset())


def _parts(request: object) -> list[object]:
    return [getattr(request, part) for part in ("path", "query", "headers", "body")]


def _unseen(where: Path, used: frozenset[str], seen: frozenset[str]) -> Iterator[Finding]:
    for name in sorted(used - seen):
        own = name in RESERVED
        hint = (
            "Send it with the action's request, or bind it in the same format." if own else "Check that it can find it."
        )
        detail = f"The service never saw “{{{name}}}”, which the look-up asks for."
        yield Finding(where, detail, hint, warning=not own)


def _may_be(test: Predicate, low: int, high: int) -> bool:
    return any(first <= high and last >= low for first, last in test.statuses)
