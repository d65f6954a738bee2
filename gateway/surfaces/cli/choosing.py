"""Commands that tell what a key may run, and how."""

import json
from typing import Annotated, Any

import typer
from rich.markup import escape

from gateway.surfaces.cli.asking import ask, client_of, segment
from gateway.surfaces.cli.context import JsonFlag, current
from gateway.surfaces.cli.render import print_table

actions = typer.Typer(no_args_is_help=True, help="See what this key may run.")


@actions.command("list")
def list_actions(*, as_json: JsonFlag = False) -> None:
    """List the actions that this key may run."""
    context = current()
    context.as_json = as_json
    answer = context.run(ask(client_of(context), "GET", "/v1/actions"))
    if as_json:
        context.print_json(answer.document)
        return
    rows = [(item["name"], item["effect"], item["service"], item["description"]) for item in answer.document["actions"]]
    headings = ("action", "effect", "service or host", "description")
    print_table(context.out, headings, rows, empty="This key may run no action.")


@actions.command("show")
def show_action(
    name: Annotated[str, typer.Argument(metavar="ACTION", help="Name of an action.")], *, as_json: JsonFlag = False
) -> None:
    """Show one action: its arguments, and what happens to repeats."""
    context = current()
    context.as_json = as_json
    document = context.run(ask(client_of(context), "GET", f"/v1/actions/{segment(name)}")).document
    if as_json:
        context.print_json(document)
        return
    context.out.print(
        f"[bold]{escape(document['name'])}[/]  {document['effect']}  service or host {escape(document['service'])}"
    )
    context.out.print(f"  {document['description']}\n  {document['repeat']}", markup=False)
    if document["steps"]:
        context.out.print(f"  steps: {', '.join(document['steps'])}", markup=False)
    properties = properties_of(document)
    required = set(document["input_schema"].get("required", [])) if properties else set()
    rows = [
        (
            argument,
            "yes" if argument in required else "no",
            _form(schema),
        )
        for argument, schema in properties.items()
    ]
    print_table(context.out, ("argument", "required", "form"), rows, empty="  It takes no arguments.")


def _form(schema: object) -> str:
    """What an argument must look like, as JSON Schema says it."""
    shown = (
        {name: value for name, value in schema.items() if name != "description"} if isinstance(schema, dict) else schema
    )
    return json.dumps(shown, ensure_ascii=False)


def properties_of(action: dict[str, Any]) -> dict[str, Any]:
    """The arguments that an action declares, each with its schema."""
    schema = action["input_schema"]
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}
