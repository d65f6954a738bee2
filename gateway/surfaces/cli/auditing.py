"""`gateway audit`: the auditor's own commands, and `drain` for a stopped gateway."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from audit.arguments import policy_at
from audit.cli import app as audit_app
from audit.cli_upkeep import Elsewhere
from audit.note import NoteKey
from audit.rotate import BadRotation, Rotated, policy_after
from audit.subjects import KeptKeys, PersonalKey
from audit.trust import TrustPolicy
from gateway.catalog.mistake import MistakesError
from gateway.store.port import Refused
from gateway.surfaces.cli.administering import administer, operator
from gateway.surfaces.cli.composition import Opened
from gateway.surfaces.cli.context import Context, JsonFlag, current
from gateway.surfaces.wire import key_change_document

LOST = "Whether the key was changed is in the log, `gateway audit show --all`; to change it once more does no harm."


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


def rotate_keys(
    *,
    trust: Annotated[
        Path | None, typer.Option(help="An auditor's trust policy so far, to print the one that follows.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Let this gateway's audit log go on under a new key, and print the trust policy that auditors need from now on.

    A running gateway is asked, under a person's key. Who may read the log is a setting, `audit.recipients`: changed
    there, it holds from the next start on, and the log says so. Witnesses need the new key in their policy as well.
    """
    context = current()
    context.as_json = as_json
    given = policy_at(trust)

    async def local(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        rotated = await opened.log_keys.rotate(by=operator())
        return key_change_document(rotated, opened.log_keys.policy)

    made = context.run(
        administer(context, lambda client: client.call("POST", "/v1/audit/rotate-keys"), local, once=LOST)
    )
    policy = _policy_after(given, made)
    if as_json:
        context.print_json(made | {"policy": policy})
        return
    sys.stderr.write(f"gateway: from entry {made['cut']} on the new key speaks for {made['origin']}\n")
    sys.stdout.write(policy)


def _policy_after(given: TrustPolicy | None, made: dict[str, Any]) -> str:
    """The auditor's own policy with the new key; without one, that of this log alone."""
    own: str = made["policy"]
    if given is None:
        return own
    keys = NoteKey.parse(made["old_key"]), NoteKey.parse(made["new_key"])
    try:
        return policy_after(given, Rotated(made["cut"], False, *keys)).to_text()
    except BadRotation as error:
        # The change is made: whoever asked must get what speaks for the log now.
        sys.stderr.write(f"gateway: {error}; this is the policy of this log alone\n")
        return own


def subject_keys(context: Context) -> Elsewhere:
    """Keys for personal fields from the store of the gateway that the settings name, if the log is one of its own."""

    @contextmanager
    def find(folder: Path) -> Iterator[tuple[PersonalKey, KeptKeys] | None]:
        from gateway.catalog.config import config_path, open_settings

        environment = context.composition.environment
        with ExitStack() as opened:
            found = None
            try:
                settings = open_settings(config_path(environment), environment)
                found = opened.enter_context(context.composition.look(settings).subject_keys(folder))
            except MistakesError:
                # An auditor needs no gateway; whose settings cannot be read has none here.
                found = None
            except Refused as refused:
                sys.stderr.write(f"gateway: {refused} Personal fields stay in their boxes.\n")
            yield found

    return find


def commands() -> typer.Typer:
    """The auditor's commands, with what a gateway's own log needs beside them or in their place."""
    group = typer.Typer(no_args_is_help=True, help="Verify and read the audit log; drain a stopped gateway's rest.")
    own = {"drain": drain, "rotate-keys": rotate_keys}
    group.registered_commands += [item for item in audit_app.registered_commands if item.name not in own]
    group.registered_groups += audit_app.registered_groups
    for name, command in own.items():
        group.command(name)(command)
    return group
