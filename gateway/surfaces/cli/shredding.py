"""`gateway subjects`: erase what the audit log holds of a person."""

from typing import Annotated, Any

import typer

from gateway.surfaces.cli.administering import administer, operator
from gateway.surfaces.cli.composition import Opened
from gateway.surfaces.cli.context import Exit, JsonFlag, current

subjects = typer.Typer(no_args_is_help=True, help="People whose personal fields the audit log carries in boxes.")


@subjects.callback()
def _group() -> None:
    """People whose personal fields the audit log carries in boxes."""


@subjects.command()
def shred(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The person, as the records' boxes were made for.")],
    *,
    by: Annotated[
        str | None, typer.Option(help="Who decided it; written into the log. A running gateway adds who asked.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Erase a person's fields in the audit log: the key goes, the log says so, every hash stays valid.

    A running gateway is asked, under a person's key. Copies of the database and of the key file hold the key as well:
    they are part of what was promised. The store itself keeps each request and result, encrypted, until
    “retention.operations_seconds” after its end. Ends with 1 if there is no key of that person: erased before, or
    never recorded.
    """
    context = current()
    context.as_json = as_json
    body = {"subject": subject, "decided_by": by}

    async def local(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        tags = await opened.subjects.shred(subject, by=by or operator())
        return {"erased": [tag.hex() for tag in tags]}

    done = context.run(
        administer(
            context,
            lambda client: client.call("POST", "/v1/subjects/shred", body=body),
            local,
            once="Ask again: what was erased stays erased.",
        )
    )
    tags = done["erased"]
    told = f"Erased; the audit log names it {', '.join(tags)}." if tags else "There is no key of that person."
    context.unwritten = (told, Exit.ERROR)
    if as_json:
        context.print_json(done)
    else:
        context.out.print(told, markup=False)
    if not tags:
        raise typer.Exit(Exit.ERROR)
