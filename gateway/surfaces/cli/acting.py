"""Commands of callers: call, operations, runs."""

import asyncio
from typing import Annotated, Any, NoReturn

import typer

from gateway.core.ids import mint_key
from gateway.core.strictjson import JsonError, parse
from gateway.model.operation import Outcome, State
from gateway.surfaces.cli.argument import typed
from gateway.surfaces.cli.asking import ask, client_of, hold_fast, path_of, refused, segment
from gateway.surfaces.cli.client import Answer, AnswerLost, Client, Unreachable
from gateway.surfaces.cli.context import Context, Exit, JsonFlag, check_seconds, complain, current, fail, read_input
from gateway.surfaces.cli.render import exit_code, print_operation, print_operations

operations = typer.Typer(no_args_is_help=True, help="Read, settle and cancel operations.")
runs = typer.Typer(no_args_is_help=True, help="Read what a run has done so far.")

OperationArgument = Annotated[str, typer.Argument(metavar="OPERATION", help="An id, `op_…`.")]
POLL_SECONDS = 20.0
ASK_AGAIN_SECONDS = (0.0, 0.2, 0.5, 1.0, 2.0)
"""After a lost answer: pauses before each look for the operation."""
LOOK_BACK_SECONDS = 2.0
"""After Ctrl-C: how long the gateway may take to tell the operation's id."""


def call(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="Name of a declared action.")],
    *,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", help="One argument, `name=value`; may be given again.")
    ] = None,
    args: Annotated[str | None, typer.Option("--args", help="All arguments as a JSON object; `-` reads them.")] = None,
    key: Annotated[str | None, typer.Option(help="Your own key for this task, new for each time you mean it.")] = None,
    run: Annotated[str | None, typer.Option(help="Your own id of this run.")] = None,
    supersedes: Annotated[str | None, typer.Option(help="Unresolved operation to replace; people only.")] = None,
    wait: Annotated[float, typer.Option(callback=check_seconds, help="Seconds to wait for the outcome.")] = 25.0,
    as_json: JsonFlag = False,
) -> None:
    """Submit an operation and wait for its outcome.

    Exit codes: 0 success, 1 error, 2 usage, 3 unknown, 4 held, 5 gateway unreachable and nothing left, 6 refused.
    """
    context = current()
    context.as_json = as_json
    for option, value in (("--key", key), ("--run", run), ("--supersedes", supersedes)):
        if value == "":
            # Taken for none, a key that a script forgot to set would let a later repeat pass.
            fail(f"{option} is empty; was a variable not set? Give it, or leave the option out.", Exit.USAGE)
    # Ours if none was given: a lost answer can be asked for, and a repeat of the same call is noticed all the same.
    name = key or mint_key(context.composition.chance.bytes(16))
    work = _call(context, action, arg or [], args, key=name, run=run, supersedes=supersedes, wait=wait)
    context.interrupted = (_interrupted(name), Exit.UNKNOWN)
    context.look_back = lambda: _look_back(context, action, name)
    context.run(work)


def _interrupted(key: str) -> str:
    return (
        f"Interrupted. The operation may exist under the key {key} and goes on without you."
        f" Do not submit it again; see: gateway operations list --key {key}"
    )


def _goes_on_without_you(operation: str) -> str:
    return (
        f"Interrupted. The operation {operation} goes on without you."
        f" Do not submit it again; for its outcome: gateway operations wait {operation}"
    )


async def _look_back(context: Context, action: str, key: str) -> str | None:
    """After Ctrl-C: the operation's id, if the gateway tells it at once."""
    try:
        async with asyncio.timeout(LOOK_BACK_SECONDS):
            found = await client_of(context).call("GET", "/v1/operations", query={"key": key, "action": action})
    except (Unreachable, AnswerLost, TimeoutError):
        return None
    if found.is_problem or not found.document["operations"]:
        return None
    return _goes_on_without_you(found.document["operations"][0]["operation_id"])


async def _call(
    context: Context,
    action: str,
    pairs: list[str],
    text: str | None,
    *,
    key: str,
    run: str | None,
    supersedes: str | None,
    wait: float,
) -> None:
    client = client_of(context)
    arguments = await _arguments(client, action, pairs, text)
    body = {"action": action, "args": arguments, "key": key, "run": run, "supersedes": supersedes}
    body = {name: value for name, value in body.items() if value is not None}
    first_wait = min(wait, POLL_SECONDS)
    try:
        answer = await client.call(
            "POST",
            "/v1/operations",
            body=body,
            wait_seconds=first_wait,
            headers={"Prefer": f"wait={int(first_wait)}"},
        )
    except Unreachable as error:
        fail(f"{error}; nothing left. Start it with `gateway serve`.", Exit.UNREACHABLE)
    except AnswerLost:
        # The submission may have been taken. It carried our key, so we can ask instead of sending again.
        looked = await _look_by_key(context, client, action, key)
        if isinstance(looked, str):
            fail(looked, Exit.UNKNOWN)
        answer = looked
    await _show(context, client, answer, wait=wait - first_wait)


async def _look_by_key(context: Context, client: Client, action: str, key: str) -> Answer | str:
    """What the gateway knows under the key, or what to say if it cannot be learnt.

    It is asked more than once: the submission may still be on its way.
    """
    for pause in ASK_AGAIN_SECONDS:
        await context.composition.clock.sleep(pause)
        try:
            found = await client.call("GET", "/v1/operations", query={"key": key, "action": action})
        except (Unreachable, AnswerLost):
            return (
                "The gateway's answer was lost, and it cannot be asked now. The operation may exist under the key"
                f" {key}. Do not submit it under another key; later: gateway operations list --key {key}"
            )
        if found.is_problem:
            refused(found)
        if found.document["operations"]:
            return Answer(200, found.document["operations"][0], found.headers)
    return (
        f"The gateway's answer was lost, and it knows no operation under the key {key}."
        " Submitting again under the same key is safe."
    )


async def _arguments(client: Client, action: str, pairs: list[str], text: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if text is not None:
        try:
            given = parse((read_input() if text == "-" else text).encode())
        except JsonError as error:
            fail(f"--args is not JSON: {error}", Exit.USAGE)
        if not isinstance(given, dict):
            fail("--args must be a JSON object.", Exit.USAGE)
    if not pairs:
        return given
    schema = await _schema(client, action)
    declared = schema.get("properties")
    forms = declared if isinstance(declared, dict) else {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            fail("--arg takes name=value.", Exit.USAGE)
        if name in given:
            fail(f"The argument {name} is given twice; nothing was sent. Give it once.", Exit.USAGE)
        given[name] = typed(value, forms.get(name), schema)
    return given


async def _schema(client: Client, action: str) -> dict[str, Any]:
    """The declared form of the arguments, so that `--arg version=42` is a string where a string is wanted."""
    try:
        answer = await client.call("GET", f"/v1/actions/{segment(action)}")
    except (Unreachable, AnswerLost) as error:
        fail(f"{error}; nothing left. Start it with `gateway serve`.", Exit.UNREACHABLE)
    if answer.is_problem:
        refused(answer)
    schema = answer.document["input_schema"]
    return schema if isinstance(schema, dict) else {}


async def _show(context: Context, client: Client, answer: Answer, *, wait: float) -> NoReturn:
    if answer.is_problem:
        refused(answer)
    document = answer.document
    while wait > 0 and _goes_on(document):
        seconds = min(wait, POLL_SECONDS)
        wait -= seconds
        path = path_of(document["operation_id"])
        flags = {"joined": document["joined"], "replayed": document["replayed"]}
        try:
            answer = await client.call("GET", path, query={"wait": str(int(seconds) or 1)}, wait_seconds=seconds)
        except (Unreachable, AnswerLost) as lost:
            complain(f"gateway: the gateway stopped answering ({lost}); this is the last that it said.\n")
            break
        if answer.is_problem:
            refused(answer)
        document = answer.document | flags
    _end(context, document)


def _goes_on(document: dict[str, Any]) -> bool:
    return document["state"] not in ("succeeded", "failed", "cancelled", "unresolved", "held")


def _end(context: Context, document: dict[str, Any]) -> NoReturn:
    """Show an operation and end with its exit code, which stays its own if the answer cannot be written."""
    code = exit_code(document)
    _print(context, document, code)
    raise typer.Exit(code)


def _print(context: Context, document: dict[str, Any], code: Exit = Exit.SUCCESS) -> None:
    hold_fast(context, document, code)
    if context.as_json:
        context.print_json(document)
    else:
        print_operation(context.out, document)


def _check_choice(option: str, given: str | None, choices: list[str]) -> None:
    if given is not None and given not in choices:
        fail(f"{option} takes {', '.join(choices[:-1])} or {choices[-1]}.", Exit.USAGE)


@operations.command("list")
def list_operations(
    *,
    key: Annotated[str | None, typer.Option(help="Only the one under this key.")] = None,
    state: Annotated[str | None, typer.Option(help="Only in this state, for example `unresolved`.")] = None,
    outcome: Annotated[str | None, typer.Option(help="success, error or unknown.")] = None,
    action: Annotated[str | None, typer.Option(help="Only of this action.")] = None,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    since: Annotated[str | None, typer.Option(help="Only created since, RFC 3339.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the last page ended.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List operations, newest first."""
    context = current()
    context.as_json = as_json
    _check_choice("--state", state, [item.value for item in State])
    _check_choice("--outcome", outcome, [item.value for item in Outcome])
    given = {
        "key": key, "state": state, "outcome": outcome, "action": action, "run": run, "since": since,
        "limit": str(limit), "cursor": cursor,
    }  # fmt: skip
    query = {name: value for name, value in given.items() if value is not None}
    answer = context.run(ask(client_of(context), "GET", "/v1/operations", query=query))
    if as_json:
        context.print_json(answer.document)
        return
    print_operations(context.out, answer.document["operations"])
    if answer.document["cursor"]:
        context.out.print(f"[dim]more: --cursor {answer.document['cursor']}[/]")


@operations.command()
def show(operation: OperationArgument, *, as_json: JsonFlag = False) -> None:
    """Show one operation with its attempts and evidence."""
    context = current()
    context.as_json = as_json
    answer = context.run(ask(client_of(context), "GET", path_of(operation)))
    _end(context, answer.document)


@operations.command()
def wait(
    operation: OperationArgument,
    *,
    seconds: Annotated[
        float, typer.Option("--wait", callback=check_seconds, help="Give up after so many seconds.")
    ] = 300.0,
    as_json: JsonFlag = False,
) -> None:
    """Wait until an operation is final or unresolved."""
    context = current()
    context.as_json = as_json
    client = client_of(context)
    context.interrupted = (_goes_on_without_you(operation), Exit.UNKNOWN)

    async def work() -> None:
        answer = await ask(client, "GET", path_of(operation))
        await _show(context, client, answer, wait=seconds)

    context.run(work())


@operations.command()
def reconcile(operation: OperationArgument, *, as_json: JsonFlag = False) -> None:
    """Look at the service's record now. Never sends the action."""
    context = current()
    context.as_json = as_json
    answer = context.run(ask(client_of(context), "POST", path_of(operation, "/reconcile"), wait=60.0))
    _end(context, answer.document)


@operations.command()
def cancel(
    operation: OperationArgument,
    *,
    signal: Annotated[
        str, typer.Option(help="What a command that runs on a host is sent: TERM, INT or KILL.")
    ] = "TERM",
    as_json: JsonFlag = False,
) -> None:
    """Cancel an operation while nothing of it may have left; a command on a host is told, and its record says the rest.

    That a signal was sent proves nothing, so the outcome stays unknown until the host's record of the end is read.
    One that had already ended stays as it is: its guidance says that nothing was cancelled, `already_ended` is true.
    """
    context = current()
    context.as_json = as_json
    _check_choice("--signal", signal, ["TERM", "INT", "KILL"])
    query = {"signal": signal}
    answer = context.run(ask(client_of(context), "POST", path_of(operation, "/cancel"), query=query, wait=120.0))
    _print(context, answer.document)


@operations.command()
def attest(
    operation: OperationArgument,
    *,
    outcome: Annotated[str, typer.Option(help="success or error: what you found out.")],
    executed: Annotated[str, typer.Option(help="yes, no or unknown: did the effect happen?")],
    reason: Annotated[str, typer.Option(help="How you know; kept for ever.")],
    digest: Annotated[
        str | None, typer.Option(help="`attest_digest` of the document you read; asked for if not given.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needs --digest.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Settle an unresolved operation by a person's word. Shows what is known first."""
    context = current()
    context.as_json = as_json
    _check_choice("--outcome", outcome, ["success", "error"])
    _check_choice("--executed", executed, ["yes", "no", "unknown"])
    if (outcome, executed) in {("success", "no"), ("success", "unknown")}:
        fail("A success was executed: give --executed yes with it.", Exit.USAGE)
    client = client_of(context)
    if digest is None:
        if as_json:
            fail("--json needs --digest: nothing is shown or asked then.", Exit.USAGE)
        seen = context.run(ask(client, "GET", path_of(operation))).document
        if seen["attest_digest"] is None:
            fail(f"The operation is {seen['state']}; only an unresolved one is settled by a person.", Exit.REFUSED)
        print_operation(context.out, seen)
        if yes:
            fail("--yes needs --digest: the digest says what you have read.", Exit.USAGE)
        if not typer.confirm(f"Settle it as {outcome}, executed {executed}?"):
            raise typer.Exit(Exit.ERROR)
        digest = seen["attest_digest"]
    body = {"outcome": outcome, "executed": executed, "reason": reason, "digest": digest}
    answer = context.run(ask(client, "POST", path_of(operation, "/attest"), body=body))
    _print(context, answer.document)


@runs.command("show")
def show_run(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Your own id of the run.")], *, as_json: JsonFlag = False
) -> None:
    """Show every operation of a run, oldest first: read this before you go on after a restart."""
    context = current()
    context.as_json = as_json
    answer = context.run(ask(client_of(context), "GET", f"/v1/runs/{segment(run)}"))
    if as_json:
        context.print_json(answer.document)
        return
    print_operations(context.out, answer.document["operations"])
    context.out.print(answer.document["guidance"], markup=False)
