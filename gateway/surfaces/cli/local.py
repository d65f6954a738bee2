"""Commands that work on files: init, serve, check, schema, doctor, recover, and the way to the fault kit."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from gateway.catalog.mistake import MistakesError
from gateway.surfaces.cli.composition import InitOptions
from gateway.surfaces.cli.context import Exit, JsonFlag, current, fail
from gateway.surfaces.cli.render import counted, print_table


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder; made if missing.")] = Path(),
    *,
    origin: Annotated[
        str | None, typer.Option(help="Name of the audit log, like a URL without scheme: gw.example/audit/prod-1.")
    ] = None,
    person: Annotated[str, typer.Option(help="Name of the first person, who decides and administers.")] = "operator",
    auditor: Annotated[str | None, typer.Option(help="An auditor's public key (`audit keygen`).")] = None,
    recovery: Annotated[str | None, typer.Option(help="The recovery key's public part, kept offline.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a gateway in a folder: settings, starter catalog, keys, data folder. Overwrites nothing."""
    context = current()
    if sys.stdin.isatty() and not as_json:
        auditor = auditor or _asked("Public key of an auditor (empty: make one here): ")
        recovery = recovery or _asked("Public recovery key, kept offline (empty: make one here): ")
    made_up = f"{os.uname().nodename or 'gateway'}/audit/{context.composition.chance.bytes(4).hex()}"
    options = InitOptions(folder, made_up if origin is None else origin, person, auditor, recovery)

    made = context.run(context.composition.initialise(options))
    lost = f"The gateway in {made.config.parent} was made, and nobody has its two keys now; there:"
    context.unwritten = (f"{lost} gateway keys create NAME --kind person", Exit.ERROR)
    if as_json:
        context.print_json(
            {
                "config": str(made.config),
                "files": [str(path) for path in made.files],
                "private_files": [str(path) for path in made.private_files],
                "log_key": made.log_vkey,
                "person": {"name": person, "key": made.person_key},
                "caller": {"name": made.caller, "key": made.caller_key},
            }
        )
        return
    out = context.out
    out.print(f"Made a gateway in {escape(str(made.config.parent))}:")
    for path in made.files:
        out.print(f"  {escape(str(path))}")
    for path in made.private_files:
        out.print(f"  {escape(str(path))}  [yellow]private: move it to another machine, it opens the audit log[/]")
    out.print("\nTwo keys, shown this once and kept only as hashes:")
    sys.stdout.write(f"  person {person}:  {made.person_key}\n  caller {made.caller}:  {made.caller_key}\n")
    out.print(f"\nNext:\n  cd {escape(shlex.quote(str(made.config.parent)))}\n  gateway check\n  gateway serve")


def _asked(question: str) -> str | None:
    try:
        return input(question).strip() or None
    except EOFError:
        return None


def serve(*, as_json: JsonFlag = False) -> None:
    """Serve until SIGTERM or Ctrl-C; both let requests under way be answered first.

    Prints one line of JSON once it listens, with or without --json; the log goes to standard error.
    Exit code 17: the store's state became unknown (or an invariant broke). Start it again; it reads what is there.
    """
    from gateway.engine.logs import Logs

    del as_json  # what is printed is JSON in any case
    context = current()
    settings = context.settings()
    logs = Logs(context.composition.clock)

    def ready(address: str) -> None:
        sys.stdout.write(json.dumps({"address": address, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()

    try:
        code = context.run(context.composition.serve(settings, ready))
    finally:
        logs.close()
    raise typer.Exit(code)


def check(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Catalog folder; default: the settings' own.")
    ] = None,
    *,
    as_json: JsonFlag = False,
) -> None:
    """Check settings and catalog: every mistake with file, line, a plain sentence and a hint.

    Exit 1 on mistakes; settings that cannot be used end this command, like every other, with 2.
    """
    from gateway.catalog.lint import Checked
    from gateway.catalog.lint import check as check_catalog
    from gateway.catalog.load import read_folder

    context = current()
    where = folder or Path(context.settings().catalog_folder)
    try:
        files = read_folder(where)
        checked = check_catalog(files)
    except MistakesError as error:
        files, checked = {}, Checked(tuple(error.mistakes), None)
    errors = [mistake for mistake in checked.mistakes if not mistake.warning]
    if as_json:
        context.print_json(
            {
                "ok": not errors,
                "actions": sorted(checked.catalog.actions) if checked.catalog is not None else [],
                "mistakes": [
                    {
                        "file": item.file,
                        "line": item.line,
                        "column": item.column,
                        "detail": item.detail,
                        "hint": item.hint,
                        "warning": item.warning,
                    }
                    for item in checked.mistakes
                ],
            }
        )
    else:
        for mistake in checked.mistakes:
            sys.stdout.write(f"{mistake}\n")
        count = len(checked.catalog.actions) if checked.catalog is not None else 0
        fine = f"OK: {counted(count, 'action')} in {counted(len(files), 'file')}"
        summary = counted(len(errors), "mistake") if errors else fine
        sys.stdout.write(f"{summary}\n")
    raise typer.Exit(1 if errors else 0)


def schema(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="catalog or settings.")] = "catalog",
    *,
    as_json: JsonFlag = False,
) -> None:
    """Print the JSON Schema of the catalog (or the settings) for your editor; it is JSON with or without --json."""
    from gateway.catalog.config import settings_schema
    from gateway.catalog.jsonschema_export import catalog_schema

    del as_json
    if what not in ("catalog", "settings"):
        fail("There is a schema of the `catalog` and one of the `settings`.", Exit.USAGE)
    current().print_json(catalog_schema() if what == "catalog" else settings_schema())


def doctor(*, as_json: JsonFlag = False) -> None:
    """Look at settings, files, keys, log and the running gateway, and say what is wrong. Exit 1 on findings.

    Settings that cannot be used end it, like every other command, with 2.
    """
    from gateway.surfaces.cli.doctor import examine

    context = current()
    report = context.run(examine(context))
    findings = [line for line in report if not line.fine]
    if as_json:
        context.print_json(
            {"ok": not findings, "checks": [{"check": a.name, "ok": a.fine, "detail": a.detail} for a in report]}
        )
    else:
        rows = [("ok" if line.fine else "FINDING", line.name, line.detail) for line in report]
        print_table(context.out, ("", "check", "detail"), rows, empty="Nothing to check.")
    raise typer.Exit(1 if findings else 0)


def recover(
    *,
    person: Annotated[str, typer.Option(help="Who answers for it; goes into the audit log.")],
    reason: Annotated[str, typer.Option(help="What you found out about operations that the store does not know.")],
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on under a new log although store and log contradict each other.")
    ] = False,
    auditor_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An auditor's or recovery key: what the audit log knows is taken from it."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Let writes go on after the store was restored from a backup. The gateway must be stopped.

    With an auditor's key, operations that the store has forgotten keep their keys, so that no repeat of them is carried
    out, and what was begun after the backup is looked for instead of being sent again. It cannot be given later.
    """
    context = current()
    for option, word in (("--person", person), ("--reason", reason)):
        if not word.strip():
            fail(f"{option} is empty, and nobody could tell later who answers for it and why.", Exit.USAGE)
    work = context.composition.recover(
        context.settings(), person=person, reason=reason, accept_loss=accept_loss, auditor_key=auditor_key
    )
    said = context.run(work)
    context.unwritten = (said, Exit.ERROR)
    if as_json:
        context.print_json({"ok": True, "detail": said})
    else:
        context.out.print(said, markup=False)


FAULTS_HELP = "Start services that misbehave on purpose, for your own tests; `gateway faults --help` lists them."


def faults(context: typer.Context) -> NoReturn:
    """Become the fault kit, a program of its own: a witness shares nothing with what it watches.

    No program of ours stays before it: killed, that one would leave the kit behind with its port and its ledger.
    """
    program = [sys.executable, "-m", "fixtures", *(context.args or ["--help"])]
    # Its help names the command that was typed.
    named = {**os.environ, "FIXTURES_PROGRAM": "gateway faults"}
    os.execve(sys.executable, program, named)  # noqa: S606 - our own program, and no shell is wanted
