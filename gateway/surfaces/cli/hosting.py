"""Commands about hosts: the script that makes a runner's store on one, and what the host answered."""

import sys
from typing import Annotated

import typer

from gateway.surfaces.cli.context import Exit, JsonFlag, current, fail, read_input

hosts = typer.Typer(no_args_is_help=True, help="Hosts on which commands run: prepare, enrol, check, look after.")

_REFUSED = {
    "store_write": "the host could not make it, or could not write in it; its shell said why when the script ran",
    "no_hard_links": "the file system there knows no hard links, without which nothing on it is done once only",
    "no_boot_identity": "the host does not say which boot it is in, so that nothing is certain there after a restart",
    "no_digest_tool": "the host has no program for digests: sha256sum, shasum or openssl",
}
"""What the runner's reasons mean where a store is to be made."""


@hosts.command()
def script(
    store: Annotated[str, typer.Option(help="Absolute path on the host, durable and the user's own.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Print the script that makes the store: `gateway host script --store PATH | ssh USER@HOST sh -s`.

    It goes over a connection of yours, which believes the host for reasons of yours; the gateway takes no part in it.
    """
    context = current()
    context.as_json = as_json
    try:
        text = context.composition.host_script(store)
    except ValueError as unfit:
        fail(f"This cannot be the store: {unfit}.", Exit.USAGE)
    if as_json:
        context.print_json({"script": text.decode()})
        return
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


@hosts.command()
def read(*, as_json: JsonFlag = False) -> None:
    """Read on standard input what the script printed on the host, and say what belongs into the catalog."""
    context = current()
    context.as_json = as_json
    found = context.composition.read_host(read_input().encode())
    if found is None:
        fail("There is no answer of the script in this. Was the host reached, and has it `sh`?", Exit.ERROR)
    if found["phase"] != "ok":
        reason = str(found["reason"])
        fail(f"There is no store: {_REFUSED.get(reason, 'the host refused')} [{reason}].", Exit.ERROR)
    if as_json:
        context.print_json(dict(found))
        return
    context.out.print(f"    store_id: {found['store_id']}", markup=False)
    for warning in _warnings(found):
        context.out.print(warning, markup=False)


def _warnings(found: dict[str, object]) -> list[str]:
    said = []
    if found.get("volatile"):
        said.append("The store lies where a restart clears it: what ran before could not be told from what never did.")
    missing = found.get("missing")
    if isinstance(missing, list) and missing:
        said.append(f"The host lacks: {', '.join(map(str, missing))}.")
    return said
