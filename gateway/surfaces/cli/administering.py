"""Commands of people who run a gateway: keys and credentials, through the running gateway or on a stopped one."""

import getpass
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.core.template import origin_of
from gateway.model.principal import PrincipalKind
from gateway.surfaces.cli.asking import refused, segment
from gateway.surfaces.cli.client import Answer, AnswerLost, Client, Unreachable
from gateway.surfaces.cli.composition import Opened
from gateway.surfaces.cli.context import Context, Exit, JsonFlag, current, fail, read_input
from gateway.surfaces.cli.render import print_table
from gateway.surfaces.wire import credential_document, key_document, parse_instant

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys of callers and people.")
credentials = typer.Typer(no_args_is_help=True, help="Set, list and remove credentials in the vault.")

Remote = Callable[[Client], Awaitable[Answer]]
Local = Callable[[Opened], Awaitable[Any]]


_NEEDS_KEY = (
    "The gateway runs, so this needs a person's key: set GATEWAY_KEY to it."
    " If nobody has one any more, stop the gateway and make one: gateway keys create NAME --kind person."
)


async def administer(
    context: Context, remote: Remote, local: Local, *, once: str = "List what is there before you do it again."
) -> Any:  # noqa: ANN401 - any JSON value
    """Ask the running gateway; if none runs, open the data folder, which then nobody else has.

    `once` says what to do where the answer was lost.
    """
    client = Client(context.address(), context.key_if_any())
    try:
        answer = await remote(client)
    except Unreachable:
        async with context.composition.open(context.settings()) as opened:
            return await local(opened)
    except AnswerLost as lost:
        fail(f"The gateway's answer was lost ({lost}). {once}", Exit.UNKNOWN)
    if answer.is_problem:
        if answer.status == 401 and not context.as_json:
            fail(_NEEDS_KEY, Exit.REFUSED)
        refused(answer)
    return answer.document


@keys.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the caller or person.")],
    *,
    kind: Annotated[PrincipalKind, typer.Option(help="caller: an agent. person: decides and administers.")] = (
        PrincipalKind.CALLER
    ),
    owner: Annotated[str | None, typer.Option(help="Person who answers for a caller's key.")] = None,
    expires: Annotated[str | None, typer.Option(help="When it ends, RFC 3339; never if not given.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key and show it, this once."""
    context = current()
    context.as_json = as_json
    if kind is PrincipalKind.CALLER and owner is None:
        fail("A caller's key needs --owner: the person who answers for it.", Exit.USAGE)
    body = {"kind": kind.value, "name": name, "owner": owner or name, "expires_at": expires}
    expires_ms = _expiry(expires)

    async def local(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        made = await opened.keys.create(kind, name, owner or name, by=operator(), expires_ms=expires_ms)
        return {"key": made.text, "line": key_document(made.line)}

    made = context.run(administer(context, lambda client: client.call("POST", "/v1/keys", body=body), local))
    context.unwritten = (f"The key {made['line']['prefix']} was made, and nobody has it now: revoke it.", Exit.ERROR)
    if as_json:
        context.print_json(made)
        return
    context.out.print(f"Key of {kind.value} {name}. It is shown this once and kept only as a hash:")
    sys.stdout.write(f"{made['key']}\n")


def _expiry(text: str | None) -> int | None:
    if text is None:
        return None
    moment = parse_instant(text)
    if moment is None:
        fail("--expires takes a time with a zone, for example 2027-01-31T00:00:00Z.", Exit.USAGE)
    return moment


@keys.command("list")
def list_keys(*, as_json: JsonFlag = False) -> None:
    """List keys by their beginnings; secrets are not kept."""
    context = current()
    context.as_json = as_json

    async def local(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        return {"keys": [key_document(line) for line in opened.keys.list()]}

    found = context.run(administer(context, lambda client: client.call("GET", "/v1/keys"), local))
    if as_json:
        context.print_json(found)
        return
    rows = [
        (
            item["prefix"],
            item["kind"],
            item["name"],
            item["owner"],
            item["created_at"],
            item["expires_at"] or "never",
            "yes" if item["usable"] else "no",
        )
        for item in found["keys"]
    ]
    print_table(context.out, ("key", "kind", "name", "owner", "created", "expires", "usable"), rows, empty="No keys.")


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's beginning, as `keys list` shows it.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """End a key at once, open streams included."""
    context = current()
    context.as_json = as_json
    key_id = key.removeprefix("gwk_")[:10]

    async def local(opened: Opened) -> None:
        await opened.keys.revoke(key_id, by=operator())

    context.run(administer(context, lambda client: client.call("DELETE", f"/v1/keys/{segment(key_id)}"), local))
    context.unwritten = (f"The key gwk_{key_id} is revoked.", Exit.ERROR)
    if as_json:
        context.print_json({"key_id": key_id, "revoked": True})
        return
    context.out.print(f"Revoked: gwk_{key_id}…", markup=False)


@credentials.command("set")
def set_credential(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that the catalog uses.")],
    *,
    kind: Annotated[str, typer.Option(help="bearer, header, basic (user:password), query or ssh_key.")] = "bearer",
    header_name: Annotated[str | None, typer.Option(help="Header or query parameter, for these two kinds.")] = None,
    origin: Annotated[
        str | None, typer.Option(help="scheme://host[:port]; default: where the catalog uses it.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Store a credential, read from standard input. It is never shown again and sent to that one origin only."""
    context = current()
    context.as_json = as_json
    bound = origin or _origin_in_catalog(context, name)
    value = getpass.getpass(f"Value of {name}: ") if sys.stdin.isatty() else read_input()
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        fail("No value came on standard input.", Exit.USAGE)
    body = {"kind": kind, "value": value, "origin": bound, "header_name": header_name}

    async def local(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        line = await opened.vault.set(name, kind, value, origin=bound, by=operator(), header_name=header_name)
        return credential_document(line)

    made = context.run(
        administer(context, lambda client: client.call("PUT", f"/v1/credentials/{segment(name)}", body=body), local)
    )
    context.unwritten = (f"The credential {name} was stored.", Exit.ERROR)
    if as_json:
        context.print_json(made)
        return
    context.out.print(f"Stored {name} ({made['kind']}), for {made['origin']} only.", markup=False)


def _origin_in_catalog(context: Context, name: str) -> str:
    from gateway.catalog.declared_hosts import DeclaredHosts
    from gateway.catalog.lint import open_catalog
    from gateway.catalog.load import load, read_folder

    async def look() -> set[str]:
        folder = Path(context.settings().catalog_folder)
        loaded = load(read_folder(folder))
        declared = DeclaredHosts({known: entry.form for known, entry in loaded.hosts.items()})
        hosts = [declared.get(known) for known in declared.names]
        found = {host.origin for host in hosts if host is not None and host.credential == name}
        services = [entry.form for entry in loaded.services.values() if entry.form.credential == name]
        if services or not found:
            # Only for hosts may mistakes stand elsewhere: the key for a jump host is needed before those behind it can
            # be asked for theirs, and without these the catalog is not in order yet.
            open_catalog(folder)
        return found | {origin_of(service.base_url) for service in services}

    origins = context.run(look())
    if len(origins) != 1:
        how_many = "no service or host" if not origins else "places at several origins"
        fail(f"The catalog uses {name} for {how_many}; say where it may go with --origin.", Exit.USAGE)
    return origins.pop()


@credentials.command("list")
def list_credentials(*, as_json: JsonFlag = False) -> None:
    """List credentials by name, without their values."""
    context = current()
    context.as_json = as_json

    async def local(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        return {"credentials": [credential_document(line) for line in opened.vault.list()]}

    found = context.run(administer(context, lambda client: client.call("GET", "/v1/credentials"), local))
    if as_json:
        context.print_json(found)
        return
    rows = [
        (item["name"], item["kind"], item["origin"], item["changed_at"], "yes" if item["readable"] else "no")
        for item in found["credentials"]
    ]
    print_table(context.out, ("name", "kind", "origin", "changed", "readable"), rows, empty="The vault is empty.")


@credentials.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the credential.")], *, as_json: JsonFlag = False
) -> None:
    """Forget a credential. Actions that need it are refused from then on."""
    context = current()
    context.as_json = as_json

    async def local(opened: Opened) -> None:
        if not await opened.vault.remove(name, by=operator()):
            fail("There is no credential of that name.", Exit.REFUSED)

    context.run(administer(context, lambda client: client.call("DELETE", f"/v1/credentials/{segment(name)}"), local))
    context.unwritten = (f"The credential {name} was removed.", Exit.ERROR)
    if as_json:
        context.print_json({"name": name, "removed": True})
        return
    context.out.print(f"Removed {name}.", markup=False)


def operator() -> str:
    """Who works on a stopped gateway: the user of the operating system."""
    return f"os:{getpass.getuser()}"
