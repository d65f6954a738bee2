"""From a checked form to an action, by way of the normalised definition that is stored by its digest."""

import json
from hashlib import sha256

from gateway.catalog.compile_command import compile_command
from gateway.catalog.compile_parts import FORMAT, deadlines, dump, identify, output, reads
from gateway.catalog.schema import ActionForm, BindForm, ServiceForm
from gateway.catalog.schema_answers import AcceptedForm, PredicateForm, RateLimitForm, RuleForm, SourceForm
from gateway.catalog.schema_lookup import FenceForm, ReconcileForm, RequestForm, SettleForm
from gateway.catalog.values import seconds, status_ranges
from gateway.core.strictjson import canonical
from gateway.model.action import (
    Accepted,
    Action,
    Bind,
    BindPlace,
    Effect,
    Fence,
    FindingRule,
    HandleSource,
    IdFormat,
    PositiveControl,
    Precondition,
    Predicate,
    RateLimit,
    Reconcile,
    ReplayAfter5xx,
    RequestTemplate,
    Resend,
    Service,
    Settle,
)
from gateway.model.evidence import Finding


def definition_of(name: str, form: ActionForm, service: str, service_form: ServiceForm) -> bytes:
    """The normalised definition: canonical JSON with every default written out and the service inside.

    Defaults are part of it so that a later version with other defaults does not change what an old operation may do.
    """
    return canonical(
        {
            "format": FORMAT,
            "name": name,
            "action": dump(form),
            "service": {"name": service} | dump(service_form),
        }
    )


def compile_definition(definition: bytes) -> Action:
    """The action behind a definition, from the catalog or from the store. Raises `ValueError` for a foreign format."""
    content = json.loads(definition)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("the definition was written in a format that this version does not know")
    if "host" in content:
        return compile_command(content, sha256(definition).hexdigest())
    service = dict(content["service"])
    name = service.pop("name")
    return _action(
        content["name"],
        ActionForm.model_validate(content["action"]),
        _service(name, ServiceForm.model_validate(service)),
        sha256(definition).hexdigest(),
    )


def _action(name: str, form: ActionForm, service: Service, digest: str) -> Action:
    rejected = form.rejected
    return Action(
        name=name,
        description=form.description,
        effect=Effect(form.effect),
        digest=digest,
        service=service,
        request=_request(form.request),
        input_schema=form.input,
        success=predicate(form.success),
        rejected_first=_predicates(rejected.first_attempt if rejected else None),
        rejected_any=_predicates(rejected.any_attempt if rejected else None),
        refused_before_work=_predicates(form.refused_before_work),
        exists=_predicates(form.exists),
        in_flight=_predicates(form.in_flight),
        rate_limit=_rate_limit(form.rate_limit),
        replay_after_5xx=ReplayAfter5xx(form.replay_after_5xx),
        precondition=_precondition(form),
        bind=_bind(form.bind),
        accepted=_accepted(form.accepted),
        reconcile=_reconcile(form.reconcile),
        resend=Resend(form.resend),
        attempts_max=form.attempts_max,
        deadlines=deadlines(form),
        conflict_key=form.conflict_key,
        subject=form.subject,
        repeat_window_seconds=seconds(form.repeat_window),
        reads=reads(form),
        output=output(form),
        unknown_accepted=form.reason,
    )


def _service(name: str, form: ServiceForm) -> Service:
    return Service(
        name=name,
        base_url=form.base_url,
        credential=form.credential,
        concurrency_max=form.limits.concurrency,
        allow_private=form.allow_private,
        ca_file=form.ca_file,
        proxy=form.proxy,
        reuse=form.connection == "reuse",
    )


def _request(form: RequestForm) -> RequestTemplate:
    return RequestTemplate(
        method=form.method,
        path=form.path,
        query=tuple(form.query.items()),
        headers=tuple(form.headers.items()),
        body=form.body,
        opaque=tuple(form.opaque),
    )


def predicate(form: PredicateForm) -> Predicate:
    """The compiled test of an answer."""
    return Predicate(
        statuses=() if form.status is None else status_ranges(form.status),
        header=form.header,
        path=form.path,
        equals=(form.equals,) if "equals" in form.model_fields_set else (),
        any_of=tuple(form.in_ or ()),
    )


def _predicates(forms: list[PredicateForm] | None) -> tuple[Predicate, ...]:
    return tuple(predicate(form) for form in forms or ())


def _rules(forms: list[RuleForm]) -> tuple[FindingRule, ...]:
    return tuple(FindingRule(predicate(form), Finding(form.finding), form.executed) for form in forms)


def _rate_limit(form: RateLimitForm | None) -> RateLimit | None:
    if form is None:
        return None
    wait = form.wait or SourceForm(header="Retry-After")
    return RateLimit(_predicates(form.signals), wait.header, wait.path)


def _precondition(form: ActionForm) -> Precondition | None:
    if form.precondition is None:
        return None
    return Precondition(form.precondition.header, f"{{{form.precondition.from_}}}")


def _bind(form: BindForm | None) -> Bind:
    if form is None:
        return Bind(BindPlace.NONE)
    return Bind(
        place=BindPlace(form.in_),
        name=form.name,
        format=IdFormat(form.format),
        length_max=form.max,
        charset=form.charset,
        window_min_seconds=seconds(form.window.min) if form.window else None,
        window_margin_seconds=seconds(form.window.margin) if form.window else 0.0,
        scope=form.scope,
    )


def _accepted(form: AcceptedForm | None) -> Accepted | None:
    if form is None:
        return None
    return Accepted(
        when=Predicate(statuses=status_ranges(form.status), path=form.path),
        handle=HandleSource(form.handle.header, form.handle.path),
        rules=_rules(form.rules),
        interval_seconds=seconds(form.interval),
        result=form.result,
    )


def _reconcile(form: ReconcileForm | None) -> Reconcile | None:
    if form is None:
        return None
    control = form.positive_control
    return Reconcile(
        request=_request(form.request),
        identify=identify(form.identify),
        rules=_rules(form.rules),
        compare=tuple(form.compare.items()),
        positive_control=PositiveControl(_request(control.request), predicate(control)) if control else None,
        absence=_absence(form.absence),
        result=form.result,
        interval_seconds=seconds(form.interval),
        watch_seconds=seconds(form.watch),
    )


def _absence(form: SettleForm | FenceForm | str) -> Settle | Fence | None:
    if isinstance(form, SettleForm):
        return Settle(seconds(form.settle))
    if isinstance(form, FenceForm):
        return Fence(_request(form.fence.request), predicate(form.fence.won), predicate(form.fence.lost))
    return None
