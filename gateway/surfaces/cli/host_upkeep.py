"""`gateway host check|operations|fence|unlock|collect`: what a host offers and holds, and what changes it."""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from gateway.surfaces.cli.administering import administer
from gateway.surfaces.cli.asking import ask, client_of, hold_fast, segment
from gateway.surfaces.cli.composition import HostQuestions, Opened
from gateway.surfaces.cli.context import Context, Exit, JsonFlag, current, fail
from gateway.surfaces.cli.enrolling import HostArgument
from gateway.surfaces.cli.hosting import hosts
from gateway.surfaces.cli.render import exit_code, print_operation, print_table
from gateway.surfaces.wire import instant

__all__ = ["hosts"]

WAIT_SECONDS = 90.0
_STYLES = {"fine": "green", "note": "cyan", "finding": "red"}
_WORDS = {"fine": "ok", "note": "note", "finding": "finding"}
ReasonOption = Annotated[str | None, typer.Option(help="Why; kept in the audit log.")]


def _path(name: str, deed: str) -> str:
    return f"/v1/hosts/{segment(name)}/{deed}"


async def _look(
    context: Context, path: str, query: dict[str, str], local: Callable[[HostQuestions], Awaitable[Any]]
) -> Any:  # noqa: ANN401 - any JSON value
    """Ask the running gateway to look; if none runs, look with what its data folder holds."""

    async def opened_here(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        async with context.composition.hosts(context.settings(), opened) as asked:
            return await local(asked)

    return await administer(
        context,
        lambda client: client.call("GET", path, query=query, wait_seconds=WAIT_SECONDS),
        opened_here,
        once="Ask again; asking changes nothing.",
    )


@hosts.command()
def check(name: HostArgument, *, as_json: JsonFlag = False) -> None:
    """Look at what commands on a host rest on: key, login, shell, store, clock, space, programs. Changes nothing."""
    context = current()
    context.as_json = as_json

    async def local(asked: HostQuestions) -> Any:  # noqa: ANN401 - any JSON value
        from gateway.surfaces.host_wire import check_document

        return check_document(await asked.desk.check(name))

    seen = context.run(_look(context, _path(name, "check"), {}, local))
    if as_json:
        context.print_json(seen)
    else:
        for item in seen["findings"]:
            context.out.print(f"[{_STYLES[item['level']]}]{_WORDS[item['level']]:8}[/]", end="")
            context.out.print(f"{item['detail']} {item['advice']}".strip(), markup=False)
    raise typer.Exit(Exit.SUCCESS if seen["fine"] else Exit.ERROR)


@hosts.command()
def operations(name: HostArgument, *, as_json: JsonFlag = False) -> None:
    """List what a host's store holds: operation, attempt, phase, exit code and times. Changes nothing."""
    context = current()
    context.as_json = as_json
    found: list[Any] = []
    after: str | None = ""
    while after is not None:
        query = {"after": after} if after else {}

        async def local(asked: HostQuestions, after: str = after) -> Any:  # noqa: ANN401 - any JSON value
            from gateway.surfaces.host_wire import stored_page

            found, more = await asked.desk.operations(name, after)
            return stored_page(found, more=more)

        page = context.run(_look(context, _path(name, "operations"), query, local))
        found += page["operations"]
        after = page["after"]
    if as_json:
        context.print_json({"host": name, "operations": found})
        return
    rows = [
        (
            item["operation"],
            str(item["attempt"]),
            item["phase"],
            "" if item["exit"] is None else str(item["exit"]),
            instant(item["issued_ms"]) or "",
            _host_time(item["began"]),
            _host_time(item["ended"]),
        )
        for item in found
    ]
    headings = ("operation", "attempt", "phase", "exit", "issued", "began", "ended")
    print_table(context.out, headings, rows, empty="The store holds nothing.")


def _host_time(seconds: int | None) -> str:
    return "" if seconds is None else (instant(seconds * 1000) or "")


@hosts.command()
def fence(
    name: HostArgument,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="Its id, as `host operations` lists it.")],
    *,
    attempts: Annotated[int | None, typer.Option(min=1, max=20, help="Default: as many as there can be.")] = None,
    reason: ReasonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """See to it that an operation which has not begun on a host never will. An operation itself, with a record.

    For operations that this gateway does not know or has settled; one of its own in doubt is cancelled
    (`operations cancel`), which fences it as well.
    """
    body = {"operation": operation, "attempts": attempts, "reason": reason}
    _submit(_context(as_json=as_json), name, "fence", body)


@hosts.command()
def unlock(
    name: HostArgument,
    lock: Annotated[str, typer.Argument(metavar="LOCK", help="The lock's name in the catalog.")],
    *,
    reason: Annotated[str, typer.Option(help="Why its holder will not come back; kept in the audit log.")],
    digest: Annotated[str | None, typer.Option(help="Of the lock as you saw it; asked for if not given.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Set aside a lock whose holder does not live, after showing who holds it. A living holder keeps it."""
    context = _context(as_json=as_json)
    if digest is None:
        shown = context.run(
            ask(client_of(context), "GET", _path(name, f"locks/{segment(lock)}"), wait=WAIT_SECONDS)
        ).document
        if as_json:
            context.print_json(shown)
            raise typer.Exit(Exit.SUCCESS)
        _show_lock(context, shown)
        if not typer.confirm("Set it aside?"):
            fail("Nothing was changed.", Exit.ERROR)
        digest = shown["digest"]
    _submit(context, name, "unlock", {"lock": lock, "digest": digest, "reason": reason})


def _show_lock(context: Context, shown: dict[str, Any]) -> None:
    if shown["state"] == "free":
        fail("Nobody holds this lock.", Exit.REFUSED)
    holder = f"{shown['holder']}, attempt {shown['holder_attempt']}" if shown["holder"] else "nobody that can be read"
    alive = {
        "running": "It is alive: the lock stays.",
        "unverifiable": "Whether it lives cannot be seen from this login.",
    }.get(shown["holder_phase"], "Nothing of it lives, and it left no record of its end.")
    until = _host_time(shown["until"]) or "no time"
    context.out.print(f"Lock {shown['lock']} (number {shown['number']}) is held by {holder}.", markup=False)
    context.out.print(f"  {alive}  Its term ends at {until}, by the host's clock.", markup=False)
    if shown["holder_phase"] == "running":
        fail(f"`gateway operations cancel {shown['holder']}` tells the command.", Exit.REFUSED)


@hosts.command()
def collect(
    name: HostArgument,
    *,
    older_than: Annotated[str, typer.Option(help="Age, for example 30d: what is younger stays.")] = "30d",
    reason: ReasonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a host forget settled operations that are old, and refuse late copies of them.

    What is lost there, or not settled here, stays, and so does whatever is younger than the oldest that is not settled.
    """
    from gateway.catalog.values import seconds as seconds_of

    context = _context(as_json=as_json)
    try:
        age = int(seconds_of(older_than))
    except ValueError:
        fail("--older-than takes a whole number with a unit, for example 30d or 12h.", Exit.USAGE)
    _submit(context, name, "collect", {"older_than_seconds": age, "reason": reason})


def _context(*, as_json: bool) -> Context:
    context = current()
    context.as_json = as_json
    return context


def _submit(context: Context, name: str, deed: str, body: dict[str, Any]) -> NoReturn:
    """Submit one, show its document and what the host said, and end with the exit code of its outcome."""
    given = {field: value for field, value in body.items() if value is not None}
    call = ask(client_of(context), "POST", _path(name, deed), body=given, wait=WAIT_SECONDS)
    document = context.run(call).document
    code = exit_code(document)
    hold_fast(context, document, code)
    if context.as_json:
        context.print_json(document)
    else:
        print_done(context.out, document)
    raise typer.Exit(code)


def print_done(out: Console, document: dict[str, Any]) -> None:
    """What was done on a host. What it printed are the runner's answers: told in words, not once more as they came."""
    answers = said(document)
    print_operation(out, {**document, "result": None} if answers else document)
    for line in answers:
        out.print(f"  the host: {line}", markup=False)


def said(document: dict[str, Any]) -> list[str]:
    """What the runner on the host answered, each answer as a line; empty where the command has not ended."""
    result = document["result"]
    printed = result["stdout"]["text"] + result["stdout"]["tail"] if isinstance(result, dict) else ""
    lines = []
    for line in printed.splitlines():
        if not line.startswith("@gw1 "):
            continue
        try:
            answer = json.loads(line.split(" ", 2)[2])
            fields = ("attempt", "phase", "reason", "state", "removed", "kept", "floor", "exit")
            lines.append(", ".join(f"{field} {answer[field]}" for field in fields if answer.get(field) is not None))
            if answer.get("reason") == "has_steps":
                lines.append(_of_steps([str(name) for name in answer["steps"]]))
        except (ValueError, IndexError, AttributeError, KeyError, TypeError):
            continue
    return lines


def _of_steps(names: list[str]) -> str:
    """Why a job is not said to be fenced: what is there of it stands under the names of its steps."""
    return (
        f"it is a job, and of its steps these are here: {', '.join(names)}. None that is not here will begin any more;"
        f" fence those by their own names, for example `gateway host fence HOST {names[-1]}`"
    )
