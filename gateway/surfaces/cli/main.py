"""The `gateway` program: one tree of commands over the composition it is given."""

import io
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from audit.cli import drop_output, guarded
from audit.cli_upkeep import ELSEWHERE
from gateway.surfaces.cli import acting, administering, auditing, choosing, exporting, host_upkeep, local, shredding
from gateway.surfaces.cli.client import AnswerLost
from gateway.surfaces.cli.composition import Composition
from gateway.surfaces.cli.context import Context, Exit, complain, current, enter
from gateway.surfaces.cli.demo.command import demo

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _version(*, wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"action-gateway {version('action-gateway')}")
    except PackageNotFoundError:
        typer.echo("action-gateway, not installed")
    raise typer.Exit


def _root(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=lambda value: _version(wanted=value), is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Outbound gateway for AI agents: an identity before the first byte, one honest outcome, settled by evidence."""


def build() -> typer.Typer:
    """Every command. The order is the order in which a newcomer meets them."""
    app = typer.Typer(
        name="gateway", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, callback=_root
    )
    app.command()(demo)
    app.command()(local.init)
    app.command()(local.check)
    app.command()(local.serve)
    app.command()(acting.call)
    app.add_typer(exporting.operations, name="operations")
    app.add_typer(acting.runs, name="runs")
    app.add_typer(choosing.actions, name="actions")
    app.add_typer(administering.keys, name="keys")
    app.add_typer(administering.credentials, name="credentials")
    app.add_typer(host_upkeep.hosts, name="host")
    app.add_typer(auditing.commands(), name="audit")
    app.add_typer(shredding.subjects, name="subjects")
    app.command()(local.doctor)
    app.command()(local.recover)
    app.command()(local.schema)
    app.command(context_settings=PASS_ON, help=local.FAULTS_HELP)(local.faults)
    return app


def run(composition: Composition, arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    enter(Context(composition))
    _take_every_sign()
    if not all(_is_text(argument) for argument in arguments):
        sys.stderr.write("gateway: An argument is not UTF-8 text.\n")
        return Exit.USAGE
    command = typer.main.get_command(build())
    from gateway.engine.logs import Logs

    # What a command logs on the way is for people: standard output is its answer's alone.
    logs = Logs(composition.clock, level="warning")
    try:
        code = _end_of(command, arguments)
        # Now, not when Python ends: that would change the exit code.
        sys.stdout.flush()
    except OSError as error:
        return _unwritten(error)
    except AnswerLost as lost:
        complain(f"gateway: The gateway's answer was lost ({lost}).\n")
        return Exit.UNKNOWN
    except Exception:  # noqa: BLE001 - Python itself would end with 1, which says that an operation failed
        traceback.print_exc()
        return current().no_verdict
    finally:
        logs.close()
    return code


def _end_of(command: Callable[..., object], arguments: Sequence[str]) -> int:
    """The exit code of a command. Raises `OSError` where its answer could not be written."""
    try:
        if arguments and arguments[0] == "audit":
            ELSEWHERE.set(auditing.subject_keys(current()))
            guarded(lambda: command(list(arguments), prog_name="gateway"))
        else:
            command(list(arguments), prog_name="gateway")
    except SystemExit as done:
        # The library ends so, with 1, if the reader of a pipe is gone; to a caller, 1 says that an operation failed.
        if isinstance(done.__context__, BrokenPipeError):
            raise done.__context__ from None
        return done.code if isinstance(done.code, int) else Exit.ERROR
    return Exit.SUCCESS


def _unwritten(error: OSError) -> int:
    said, code = current().unwritten or ("", current().no_verdict)
    drop_output()
    if isinstance(error, BrokenPipeError) and not said:
        return code
    reason = "whoever should read it is gone" if isinstance(error, BrokenPipeError) else error.strerror or str(error)
    complain(f"gateway: The answer could not be written: {reason}.{said and ' '}{said}\n")
    return code


def _take_every_sign() -> None:
    """Standard output of another encoding spells what it lacks: for one sign, answer and exit code would be lost."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _is_text(argument: str) -> bool:
    """The system hands over bytes that are not text as half characters, which nothing later can write."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True
