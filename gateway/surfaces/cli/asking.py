"""What every command that asks the gateway shares: where, under which key, and what to say of a refusal."""

from typing import Any, NoReturn
from urllib.parse import quote

import typer

from gateway.surfaces.cli.client import Answer, AnswerLost, Client, Unreachable
from gateway.surfaces.cli.context import Context, Exit, complain, current, fail
from gateway.surfaces.cli.render import print_operation

NAME_MAX = 255


def segment(text: str) -> str:
    """A piece of a path that stays one piece. Ends the program if it cannot be a name: none would find the door."""
    if not text:
        fail("A name or id is empty; was a variable not set?", Exit.USAGE)
    if len(text) > NAME_MAX:
        fail(f"A name or id has more than {NAME_MAX} characters, and none is as long as that.", Exit.USAGE)
    return quote(text, safe="")


def path_of(operation: str, deed: str = "") -> str:
    """Path of an operation, or of a deed on it."""
    return f"/v1/operations/{segment(operation)}{deed}"


def client_of(context: Context) -> Client:
    """A client with the address and key of the environment."""
    return Client(context.address(), context.key())


def hold_fast(context: Context, document: dict[str, Any], code: Exit) -> None:
    """What is known of an operation, said with its own exit code, if nobody takes what is printed of it."""
    known = f"The operation's state is {document['state']}; see: gateway operations show {document['operation_id']}"
    context.unwritten = (known, code)


async def ask(
    client: Client,
    method: str,
    path: str,
    *,
    query: dict[str, str] | None = None,
    body: object = None,
    wait: float = 0.0,
) -> Answer:
    """One call that may be made again at will. Ends the program with a sentence if there is no answer, or a refusal."""
    try:
        answer = await client.call(method, path, query=query, body=body, wait_seconds=wait)
    except Unreachable as error:
        fail(f"{error}; nothing left. Start it with `gateway serve`.", Exit.UNREACHABLE)
    except AnswerLost as lost:
        then = "Ask again; asking changes nothing." if method == "GET" else "Look at the operation before you go on."
        fail(f"The gateway's answer was lost ({lost}). {then}", Exit.UNKNOWN)
    if answer.is_problem:
        refused(answer)
    return answer


def refused(answer: Answer) -> NoReturn:
    """A problem: say it whole, and where it carries an earlier operation, show that too."""
    context, problem = current(), answer.document
    context.unwritten = ("", Exit.REFUSED)
    if context.as_json:
        context.print_json(problem)
        raise typer.Exit(Exit.REFUSED)
    lines = [f"gateway: {problem['detail']} [{problem['code']}]", f"  {problem['guidance']}"]
    lines += [f"  {item['pointer']}: {item['detail']} {item['guidance']}" for item in problem.get("errors") or []]
    if problem.get("operation_id"):
        lines.append(f"  See: gateway operations show {problem['operation_id']}")
    complain("\n".join(lines) + "\n")
    if problem.get("operation"):
        print_operation(context.out, problem["operation"])
    raise typer.Exit(Exit.REFUSED)
