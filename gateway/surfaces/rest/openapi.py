"""OpenAPI 3.1 generated from the route table and the documents, and a page that shows it."""

from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway.model.problem import CODES
from gateway.surfaces.documents import ProblemDocument
from gateway.surfaces.rest.routes import ROUTES, Route

_REF = "#/components/schemas/{model}"
_DESCRIPTION = """\
Every action gets a durable identity before its first network byte and is answered with one of three outcomes.
`unknown` is a normal answer: stop, look, and do not send the same thing again in another form.
Refusals are `application/problem+json` (RFC 9457) with a stable `code` and guidance; `x-should-retry: false` says that
sending again is wrong."""


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    models: set[type[BaseModel]] = {ProblemDocument, *(model for route in ROUTES for model in _models(route))}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Action Gateway", "version": _version(), "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "gwk_…"}},
            "responses": {"problem": _problem_response()},
        },
        "security": [{"key": []}],
    }


def _version() -> str:
    try:
        return version("action-gateway")
    except PackageNotFoundError:
        return "0"


def _models(route: Route) -> list[type[BaseModel]]:
    found = [model for model in route.answers.values() if model is not None]
    return found if route.body is None else [*found, route.body]


def _operation(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {str(status): _answer(route, status) for status in route.answers}
    for status in route.statuses:
        responses[str(status)] = {"$ref": "#/components/responses/problem"}
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary + (" People only." if route.person else ""),
        "parameters": _parameters(route),
        "responses": responses,
    }
    if route.body is not None:
        schema = {"$ref": _REF.format(model=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if route.open:
        operation["security"] = []
    return operation


def _answer(route: Route, status: int) -> dict[str, Any]:
    model = route.answers[status]
    answer: dict[str, Any] = {"description": route.summary}
    if model is not None:
        answer["content"] = {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}
        if model.__name__ == "OperationDocument":
            answer["links"] = _links()
    elif status != 204:
        kind = {"/openapi.json": "application/json", "/docs": "text/html", "/v1/events": "text/event-stream"}
        answer["content"] = {kind.get(route.path, "text/plain"): {}}
    return answer


def _links() -> dict[str, Any]:
    parameters = {"id": "$response.body#/operation_id"}
    names = ("getOperation", "reconcileOperation", "cancelOperation")
    return {name: {"operationId": name, "parameters": parameters} for name in names}


def _parameters(route: Route) -> list[dict[str, Any]]:
    return [
        *(
            {"in": "path", "name": name, "required": True, "schema": dict(schema)}
            for name, schema in route.parameters.items()
        ),
        *(
            {"in": "query", "name": name, "required": False, "schema": dict(schema)}
            for name, schema in route.query.items()
        ),
        *(
            {"in": "header", "name": name, "required": False, "schema": dict(schema)}
            for name, schema in route.headers.items()
        ),
    ]


def _problem_response() -> dict[str, Any]:
    return {
        "description": "A refusal before anything left, with a stable code and what to do next.",
        "content": {"application/problem+json": {"schema": {"$ref": _REF.format(model="ProblemDocument")}}},
    }


def page() -> str:
    """A plain page over the same table: readable without scripts, and true because it is generated."""
    rows = "".join(
        f"<tr><td><code>{route.method}</code></td><td><code>{escape(route.path)}</code></td>"
        f"<td>{escape(route.summary)}</td><td>{'person' if route.person else 'open' if route.open else 'key'}</td></tr>"
        for route in ROUTES
    )
    codes = "".join(
        f"<tr><td><code>{code.value}</code></td><td>{info.status}</td><td>{escape(info.title)}</td>"
        f"<td>{'yes' if info.retryable else 'no'}</td></tr>"
        for code, info in CODES.items()
    )
    return _PAGE.format(description=escape(_DESCRIPTION), rows=rows, codes=codes)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Action Gateway: interface</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2330 }}
table {{ border-collapse: collapse; width: 100% }} td, th {{ text-align: left; padding: .35rem .6rem }}
td, th {{ border-bottom: 1px solid #dde2ea }}
code {{ font: .9em ui-monospace, monospace }} th {{ color: #56607a; font-weight: 600 }}
</style></head><body>
<h1>Action Gateway</h1><p>{description}</p>
<p>Machine-readable: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
<h2>Calls</h2><table><tr><th>Method</th><th>Path</th><th>Does</th><th>Needs</th></tr>{rows}</table>
<h2>Problem codes</h2><table><tr><th>Code</th><th>Status</th><th>Title</th><th>Send again</th></tr>{codes}</table>
</body></html>
"""
