"""The commands that make and explain trust policies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from audit.arguments import JsonFlag, policy_at, usage, warn
from audit.inputs import STDIN, read_input, reason_of
from audit.report import printable
from audit.trust import NONE, BadPolicy
from audit.trust_words import explain, left_out, make_policy, policy_json

trust_app = typer.Typer(help="Make a trust policy, or say what one asks for.", no_args_is_help=True)


@trust_app.command("make")
def make_command(
    *,
    log: Annotated[
        list[str], typer.Option(help="A log's vkey, a file with it, or a policy: its log lines, no others.")
    ],
    witness: Annotated[list[str] | None, typer.Option(help="NAME VKEY [URL] of a witness, or a file with it.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="NAME all|any|NUMBER MEMBER... of a group.")] = None,
    quorum: Annotated[
        str, typer.Option(help="Who must agree: a name, a number of all witnesses, all, any, none.")
    ] = NONE,
    out: Annotated[Path | None, typer.Option(help="New file for the policy; never overwritten.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Put a policy together and refuse one that could never be met."""
    logs, witnesses = [_text(item) for item in log], [_text(item) for item in witness or ()]
    try:
        policy = make_policy(logs, witnesses, group or (), quorum)
    except BadPolicy as error:
        usage(str(error))
    for sentence in left_out((*logs, *witnesses), policy):
        warn(sentence)
    if out is not None:
        try:
            _write_new(out, policy.to_text())
        except OSError as error:
            usage(f"{out}: {reason_of(error)}")
    if as_json:
        typer.echo(json.dumps(policy_json(policy) | {"text": policy.to_text()}, indent=2))
    elif out is None:
        typer.echo(policy.to_text(), nl=False)
    else:
        typer.echo("\n".join(map(printable, explain(policy))))


@trust_app.command("show")
def show_command(
    file: Annotated[Path, typer.Argument(help="The policy file.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Say in plain words whom a policy trusts and who must agree."""
    policy = policy_at(file)
    if policy is None:
        usage("name a policy file")
    if as_json:
        typer.echo(json.dumps(policy_json(policy), indent=2))
        return
    typer.echo("\n".join(map(printable, explain(policy))))


def _text(item: str) -> str:
    """The line itself, or the content of the file that it names."""
    path = Path(item)
    if "+" in item or not (path == STDIN or path.exists()):
        return item
    try:
        return read_input(path)
    except (OSError, UnicodeDecodeError) as error:
        usage(f"{item}: {reason_of(error)}")


def _write_new(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
