"""`gateway host enroll`: fetch a host's keys, compare them as a person, and get the lines for the catalog."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.catalog.mistake import MistakesError
from gateway.surfaces.cli.administering import administer
from gateway.surfaces.cli.asking import segment
from gateway.surfaces.cli.composition import Opened
from gateway.surfaces.cli.context import Context, Exit, JsonFlag, current, fail
from gateway.surfaces.cli.hosting import hosts
from gateway.surfaces.cli.render import print_table

HostArgument = Annotated[str, typer.Argument(metavar="NAME", help="The host's name in the catalog.")]
FETCH_SECONDS = 60.0
LOST = "Fetch the keys again; confirming the same ones twice does no harm."


@hosts.command()
def enroll(
    name: HostArgument,
    *,
    address: Annotated[str | None, typer.Option(help="Where it is; default: as the catalog on disk says.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65_535)] = 22,
    allow_private: Annotated[bool, typer.Option(help="Loopback and private addresses are allowed.")] = False,
    jump: Annotated[str | None, typer.Option(help="A declared host to go through.")] = None,
    digest: Annotated[str | None, typer.Option(help="Of the keys that you compared; asked for if not given.")] = None,
    replaces: Annotated[
        list[str] | None, typer.Option(help="Fingerprint that it was believed by and no longer presents.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Fetch the keys of a host, show them, and once a person confirms them, print the lines for the catalog.

    Nothing is sent but the key exchange. Compare the fingerprints with what the host's owner tells you by another way.
    A key that has changed is refused unless you name the old one. Needs a person's key; it is on record.
    """
    context = current()
    context.as_json = as_json
    place = {"address": address, "port": port, "allow_private": allow_private, "jump": jump}
    if address is None:
        place |= _declared(context, name)
    if digest is None:
        seen = context.run(_keys(context, name, place))
        if as_json:
            context.print_json(seen)
            raise typer.Exit(Exit.ERROR if seen["changed"] else Exit.SUCCESS)
        _show(context, seen, replaces or [])
        digest = seen["digest"]
    made = context.run(_keys(context, name, place, confirmed=(digest, replaces or [])))
    context.unwritten = (f"The keys of {name} are on record. To read what belongs into the catalog: {LOST}", Exit.ERROR)
    if as_json:
        context.print_json(made)
        return
    context.out.print(f"On record. In the catalog, below `{name}`:", markup=False)
    for line in ("host_keys:", *(f'  - "{key["line"]}"' for key in made["keys"])):
        context.out.print(f"    {line}", markup=False)


async def _keys(
    context: Context, name: str, place: dict[str, Any], *, confirmed: tuple[str, list[str]] | None = None
) -> Any:  # noqa: ANN401 - any JSON value
    """Fetch the keys, or confirm them by digest and what they replace: both under a person's key, served or not."""
    key = context.key()
    path = f"/v1/hosts/{segment(name)}/{'keys' if confirmed is None else 'enroll'}"
    body = place if confirmed is None else place | {"digest": confirmed[0], "replaces": confirmed[1]}

    async def local(opened: Opened) -> Any:  # noqa: ANN401 - any JSON value
        from gateway.engine.enrolling import Place
        from gateway.surfaces.host_wire import keys_document

        who = opened.keys.authenticate(f"Bearer {key}")
        async with context.composition.hosts(context.settings(), opened) as asked:
            # Opened as written: what the catalog on disk says of a declared host holds here.
            declared = asked.desk.hosts.get(name) is not None
            there = None if declared or place["address"] is None else Place(**place)
            if confirmed is None:
                return keys_document(await asked.enrolment.offer(who, name, there), enrolled=False)
            seen, replaces = confirmed
            made = await asked.enrolment.confirm(who, name, there, seen=seen, replaces=replaces)
            return keys_document(made, enrolled=True)

    return await administer(
        context, lambda client: client.call("POST", path, body=body, wait_seconds=FETCH_SECONDS), local, once=LOST
    )


def _declared(context: Context, name: str) -> dict[str, Any]:
    """What the catalog on disk says of the host; it may hold mistakes, for example that no key is pinned yet."""
    from gateway.catalog.load import load, read_folder

    try:
        loaded = load(read_folder(Path(context.settings().catalog_folder)))
    except MistakesError:
        return {}
    entry = loaded.hosts.get(name)
    if entry is None:
        return {}
    form = entry.form
    return {"address": form.address, "port": form.port, "allow_private": form.allow_private, "jump": form.jump}


def _show(context: Context, seen: dict[str, Any], replaces: list[str]) -> None:
    context.out.print(f"{seen['host']} at {seen['address']}, port {seen['port']}, presents:", markup=False)
    rows = [
        (key["algorithm"], key["fingerprint"], "yes" if key["fingerprint"] in seen["believed"] else "no")
        for key in seen["keys"]
    ]
    print_table(context.out, ("algorithm", "fingerprint", "believed so far"), rows, empty="No key.")
    if seen["authorities"]:
        context.out.print(
            f"Its certificates are believed as well, if made by {', '.join(seen['authorities'])}. As `host_keys` a key"
            " is believed without one.",
            markup=False,
        )
    if seen["changed"] and set(replaces) != set(seen["missing"]):
        fail(
            f"It does not present {', '.join(seen['missing'])}, by which it is believed. Somebody may stand in between;"
            " nothing was recorded. Only if its owner says, by another way, that the key was changed, confirm with"
            + "".join(f" --replaces {fingerprint}" for fingerprint in seen["missing"]),
            Exit.REFUSED,
        )
    if not typer.confirm("Has the host's owner told you these fingerprints by another way?"):
        fail("Nothing was recorded.", Exit.ERROR)
