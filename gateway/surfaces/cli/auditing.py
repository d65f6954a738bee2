"""`gateway audit`: the auditor's own commands, and `drain` for a stopped gateway."""

from pathlib import Path

import typer

from audit.cli import app as audit_app
from gateway.surfaces.cli.context import JsonFlag, current


def drain(*, as_json: JsonFlag = False) -> None:
    """Copy what a stopped gateway's store still holds of the audit log into its files, and sign a checkpoint."""
    context = current()

    async def work() -> tuple[str, Path]:
        async with context.composition.open(context.settings()) as opened:
            return opened.origin, opened.log_folder

    origin, folder = context.run(work())
    if as_json:
        context.print_json({"origin": origin, "folder": str(folder), "complete": True})
        return
    context.out.print(f"Store and files agree; the audit log {origin} is complete in {folder}.", markup=False)


def commands() -> typer.Typer:
    """`audit` with the gateway's `drain` beside the auditor's commands."""
    group = typer.Typer(no_args_is_help=True, help="Verify and read the audit log; drain a stopped gateway's rest.")
    group.registered_commands += audit_app.registered_commands
    group.registered_groups += audit_app.registered_groups
    group.command()(drain)
    return group
