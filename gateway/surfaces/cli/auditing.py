"""`gateway audit`: the auditor's own commands, and `drain` for a stopped gateway."""

import typer

from audit.cli import app as audit_app
from gateway.surfaces.cli.context import current


def drain() -> None:
    """Copy what a stopped gateway's store still holds of the audit log into its files, and sign a checkpoint."""
    context = current()

    async def work() -> str:
        async with context.composition.open(context.settings()) as opened:
            return f"Store and files agree; the audit log {opened.origin} is complete in {opened.log_folder}."

    context.out.print(context.run(work()))


def commands() -> typer.Typer:
    """`audit` with the gateway's `drain` beside the auditor's commands."""
    group = typer.Typer(no_args_is_help=True, help="Verify and read the audit log; drain a stopped gateway's rest.")
    for command in audit_app.registered_commands:
        group.registered_commands.append(command)
    group.command()(drain)
    return group
