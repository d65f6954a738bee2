"""`gateway subjects`: erase what the audit log holds of a person."""

from typing import Annotated

import typer

from gateway.surfaces.cli.context import Exit, JsonFlag, current

subjects = typer.Typer(no_args_is_help=True, help="People whose personal fields the audit log carries in boxes.")


@subjects.callback()
def _group() -> None:
    """People whose personal fields the audit log carries in boxes."""


@subjects.command()
def shred(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The person, as the records' boxes were made for.")],
    *,
    by: Annotated[str, typer.Option(help="Who decided it; written into the log.")] = "operator",
    as_json: JsonFlag = False,
) -> None:
    """Erase a person's fields in the log of a stopped gateway: the key goes, the log says so, every hash stays valid.

    Copies of the database and of the key file hold the key as well: they are part of what was promised. Ends with 1 if
    there is no key of that person: erased before, or never recorded.
    """
    context = current()

    async def work() -> tuple[bytes, ...]:
        async with context.composition.open(context.settings()) as opened:
            return await opened.subjects.shred(subject, by=by)

    tags = [tag.hex() for tag in context.run(work())]
    if as_json:
        context.print_json({"erased": tags})
    else:
        told = f"Erased; the audit log names it {', '.join(tags)}." if tags else "There is no key of that person."
        context.out.print(told, markup=False)
    if not tags:
        raise typer.Exit(Exit.ERROR)
