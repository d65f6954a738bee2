"""Operations, runs and actions over REST."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway.core.guidance import nothing_cancelled
from gateway.core.judge import claim
from gateway.engine.gateway import View
from gateway.engine.submit import Request
from gateway.model.action import Action, Resend
from gateway.model.operation import Executed, Outcome, State
from gateway.model.problem import Code, Problem
from gateway.store.port import Filter, StoreUnknown, Unavailable
from gateway.surfaces.documents import AttestRequest, Submission
from gateway.surfaces.rest.call import Call, Reply, invalid_query
from gateway.surfaces.wire import operation_document, parse_instant

NAME: Final = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
SECONDS: Final = re.compile(r"\d{1,6}", re.ASCII)
CURSOR: Final = re.compile(r"op_[0-7][0-9a-hjkmnp-tv-z]{25}", re.ASCII)
LIMIT: Final = re.compile(r"[1-9]\d{0,3}", re.ASCII)
INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)
STATES: Final = re.compile("|".join(state.value for state in State))
SIGNALS: Final = re.compile(r"TERM|INT|KILL")
OUTCOMES: Final = re.compile("|".join(outcome.value for outcome in Outcome))

LIST_QUERY: Final = {
    "key": NAME,
    "state": STATES,
    "outcome": OUTCOMES,
    "action": NAME,
    "run": NAME,
    "since": INSTANT,
    "cursor": CURSOR,
    "limit": LIMIT,
}
RETRY_AFTER_SECONDS: Final = "1"
_TRACE: Final = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


async def submit(call: Call) -> Reply:
    """`POST /v1/operations`."""
    call.query({})
    header_key = call.header("Idempotency-Key")
    body = await call.body(Submission)
    if header_key is not None and body.key is not None and header_key != body.key:
        raise Problem(
            Code.INVALID_KEY,
            "The `Idempotency-Key` header and `key` in the body differ.",
            "Send one of them, or the same value in both.",
        )
    trace = _TRACE.fullmatch(call.request.headers.get("traceparent", ""))
    request = Request(
        action=body.action,
        arguments=body.args,
        key=header_key if header_key is not None else body.key,
        run=body.run,
        parent=body.parent,
        supersedes=body.supersedes,
        trace_id=trace[1] if trace else None,
        correlation_id=body.correlation_id,
    )
    seconds = call.wait_seconds(None)
    first = await call.ports.gateway.submit(call.who, request)
    view = first
    if seconds > 0 and not _is_answer(first):
        view = await later(call, first, seconds)
    return operation_reply(call, view)


async def later(call: Call, first: View, seconds: float) -> View:
    """What was just submitted, once it is final or unresolved, or the time is over."""
    try:
        seen = await call.ports.gateway.wait(call.who, first.operation.id, seconds)
    except (Unavailable, StoreUnknown):
        # It exists, and its caller must learn under which id, whatever cannot be read of it just now.
        return first
    return View(seen.operation, seen.action, seen.receipt, seen.result, first.joined, first.replayed, first.created)


def operation_reply(call: Call, view: View) -> Reply:
    """200 when final or unresolved, else 202 with where and when to look again; unknown never invites a repeat."""
    document = operation_document(view, now_ms=call.now_ms)
    headers: dict[str, str] = {}
    if view.replayed:
        headers["Idempotent-Replayed"] = "true"
    if not document["retry_allowed"] and claim(view.operation).outcome is not Outcome.SUCCESS:
        headers["x-should-retry"] = "false"
    if _is_answer(view):
        return Reply(200, document, headers, written=partial(call.ports.gateway.delivered, view))
    headers |= {"Location": document["links"]["self"], "Retry-After": RETRY_AFTER_SECONDS}
    return Reply(202, document, headers)


def _is_answer(view: View) -> bool:
    return view.operation.final or view.operation.state is State.UNRESOLVED


async def get(call: Call) -> Reply:
    """`GET /v1/operations/{id}`, a long poll with `?wait=`. Reading is never refused for want of an outcome: 200."""
    query = call.query({"wait": SECONDS})
    operation_id = call.path("id")
    if "wait" in query:
        view = await call.ports.gateway.wait(call.who, operation_id, call.wait_seconds(query["wait"]))
    else:
        view = await call.ports.gateway.get(call.who, operation_id)
    reply = operation_reply(call, view)
    return Reply(200, reply.document, reply.headers, written=reply.written)


async def list_operations(call: Call) -> Reply:
    """`GET /v1/operations`, newest first."""
    query = call.query(LIST_QUERY)
    limit = min(int(query.get("limit", "50")), call.ports.settings.limits.page_max)
    wanted = Filter(
        key=query.get("key"),
        states=(query["state"],) if "state" in query else (),
        outcome=query.get("outcome"),
        action=query.get("action"),
        run=query.get("run"),
        since_ms=_instant(query.get("since")),
        cursor=query.get("cursor"),
        limit=limit,
    )
    try:
        views, cursor = await call.ports.gateway.list(call.who, wanted)
    except ValueError:
        raise invalid_query("cursor", CURSOR) from None
    return Reply(200, {"operations": _documents(call, views), "cursor": cursor})


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    moment = parse_instant(text)
    if moment is None:
        raise invalid_query("since", INSTANT)
    return moment


def _documents(call: Call, views: Sequence[View]) -> list[dict[str, object]]:
    return [operation_document(view, now_ms=call.now_ms) for view in views]


async def reconcile(call: Call) -> Reply:
    """`POST /v1/operations/{id}/reconcile`: look now."""
    call.query({})
    view = await call.ports.gateway.reconcile(call.who, call.path("id"))
    return Reply(200, operation_document(view, now_ms=call.now_ms))


async def cancel(call: Call) -> Reply:
    """`POST /v1/operations/{id}/cancel`: only while nothing may have left, or where a host can be told."""
    signal = call.query({"signal": SIGNALS}).get("signal", "TERM")
    view = await call.ports.gateway.cancel(call.who, call.path("id"), signal=signal)
    document = operation_document(view, now_ms=call.now_ms) | {"already_ended": view.already_ended}
    if view.already_ended:
        document["guidance"] = f"{nothing_cancelled(view.operation)} {document['guidance']}"
    return Reply(200, document)


async def attest(call: Call) -> Reply:
    """`POST /v1/operations/{id}/attest`: a person settles it."""
    call.query({})
    body = await call.body(AttestRequest)
    view = await call.ports.gateway.attest(
        call.who,
        call.path("id"),
        outcome=Outcome(body.outcome),
        executed=Executed(body.executed),
        reason=body.reason,
        seen=body.digest,
    )
    return Reply(200, operation_document(view, now_ms=call.now_ms))


async def run(call: Call) -> Reply:
    """`GET /v1/runs/{run}`: what a restarted agent reads first. A run that nobody used yet is empty, not missing."""
    call.query({})
    name = call.path("run")
    if NAME.fullmatch(name) is None:
        raise Problem(Code.NOT_FOUND, "That is not a run id.", "Use the id under which the operations were submitted.")
    views = await call.ports.gateway.run(call.who, name)
    unsettled = sum(1 for view in views if not view.operation.final)
    if not views:
        guidance = "Nothing was submitted in a run of this id that this key can see. Make sure that the id is right."
    elif not unsettled:
        guidance = "Every operation of this run is settled. Do not submit again what already succeeded."
    else:
        guidance = f"Not settled in this run: {unsettled}. Do not submit them again; read each one's guidance."
    document = {"run": name, "operations": _documents(call, views), "unsettled": unsettled, "guidance": guidance}
    return Reply(200, document)


async def list_actions(call: Call) -> Reply:
    """`GET /v1/actions`: what this key may run."""
    call.query({})
    return Reply(200, {"actions": [action_document(action) for action in call.ports.gateway.actions(call.who)]})


async def get_action(call: Call) -> Reply:
    """`GET /v1/actions/{name}`."""
    call.query({})
    return Reply(200, action_document(call.ports.gateway.action(call.who, call.path("name"))))


def action_document(action: Action) -> dict[str, object]:
    """An action as `documents.ActionDocument` describes it. Hints are derived from the effect, never typed by hand."""
    read = action.is_read
    return {
        "name": action.name,
        "description": action.description,
        "effect": action.effect.value,
        "service": action.service.name,
        "input_schema": action.input_schema,
        "output_schema": action.output.schema,
        "hints": {
            "readOnlyHint": read,
            "destructiveHint": action.effect.value == "irreversible",
            "idempotentHint": read or action.resend is Resend.SAME_KEY,
            "openWorldHint": True,
        },
        "repeat": _repeat_sentence(action),
        "steps": [step.name for step in action.steps],
        "definition": action.digest,
    }


def _repeat_sentence(action: Action) -> str:
    if action.is_read:
        return "A read: the gateway repeats it within its deadline."
    if action.steps:
        return "Each step runs at most once; after a loss the gateway goes on at the first one that has no record."
    match action.resend:
        case Resend.SAME_KEY:
            return "After a lost answer the gateway repeats it under the same value, which the service deduplicates."
        case Resend.ON_ABSENCE:
            return "After a lost answer the gateway repeats it only once the service proves that nothing happened."
        case _:
            return "The gateway never sends it twice; a lost answer is settled by looking."
