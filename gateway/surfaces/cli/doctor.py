"""`gateway doctor`: what an operator should look at, each with what to do about it."""

import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from audit.cli import progress_bar
from audit.report import Finding
from gateway.catalog.lint import Checked
from gateway.catalog.lint import check as check_catalog
from gateway.catalog.load import read_folder
from gateway.catalog.mistake import MistakesError
from gateway.engine.anchoring import witnesses_of
from gateway.settings import Settings
from gateway.store.port import Refused
from gateway.surfaces.cli.client import AnswerLost, Client, Unreachable
from gateway.surfaces.cli.context import Context
from gateway.surfaces.cli.render import counted

PRIVATE_BITS = 0o077
LISTED_MAX = 200
FINDINGS_MAX = 5
"""Of one log; `gateway audit verify` tells them all."""
_PUT_BACK = (
    "Put back what was there, or mount its disk: until then that place vouches for nothing. Only if it is lost for"
    " good, make the folder anew."
)
_BEHIND = (
    "{place} did not get the newest checkpoints: it ends at {held} of {signed} entries. See whether it is full or"
    " read-only, and whose it is; the gateway's own log says why."
)
_DAMAGED = (
    "Keep a copy of {folder} as it is. If a backup holds the file whole, stop the gateway and put that file back;"
    " `gateway audit verify` says whether it is the right one. If not, `gateway recover --accept-loss` goes on under a"
    " new log, and this one stays as evidence."
)
COSIGNATURE_SECONDS_MAX = 5400
"""An idle log beats once an hour, and its witnesses cosign that."""


@dataclass(frozen=True, slots=True)
class Line:
    """One check: fine or not, and a sentence."""

    name: str
    fine: bool
    detail: str


async def examine(context: Context) -> list[Line]:
    """Every check that can be made from here, in the order in which one builds on another."""
    settings = context.settings()
    lines = [Line("settings", fine=True, detail="can be read")]
    lines += _catalog(settings)
    lines += _files(settings)
    lines += _anchors(settings)
    lines += _witnesses(context, settings)
    lines += [line async for line in _gateway(context, settings)]
    # Last: a stopped gateway's log is as it should be only once it was opened, which sets a torn end aside.
    lines += _log(context, settings)
    return lines


def _catalog(settings: Settings) -> list[Line]:
    try:
        checked = check_catalog(read_folder(Path(settings.catalog_folder)))
    except MistakesError as error:
        checked = Checked(tuple(error.mistakes), None)
    errors = [mistake for mistake in checked.mistakes if not mistake.warning]
    if errors:
        return [Line("catalog", fine=False, detail=f"{counted(len(errors), 'mistake')}; `gateway check` names them")]
    count = len(checked.catalog.actions) if checked.catalog is not None else 0
    lines = [Line("catalog", fine=True, detail=counted(count, "action"))]
    if not settings.access:
        lines.append(Line("access", fine=False, detail="no access rule: nobody may run anything; see `access`"))
    return lines


def _files(settings: Settings) -> list[Line]:
    folder = Path(settings.data_folder)
    if not folder.is_dir():
        return [Line("data folder", fine=False, detail=f"{folder} is missing; `gateway init` makes one")]
    lines = []
    for path in (folder, *sorted((folder / "keys").glob("*")), Path(settings.vault.key_file)):
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & PRIVATE_BITS:
            lines.append(Line("files", fine=False, detail=f"{path} can be used by others (mode {mode:04o})"))
    if not lines:
        lines.append(Line("files", fine=True, detail="keys and data can be used by their owner alone"))
    if len(settings.audit.recipients) < 2:
        lines.append(
            Line("recipients", fine=False, detail="fewer than two: without a recovery key a lost key is final")
        )
    else:
        lines.append(Line("recipients", fine=True, detail=counted(len(settings.audit.recipients), "public key")))
    return lines


def _anchors(settings: Settings) -> list[Line]:
    audit = settings.audit
    if not (audit.anchors or audit.print_checkpoints or audit.witnesses or audit.witness_policy):
        detail = "no anchor: a rewritten log could not be told from the true one; see `audit.anchors`"
        return [Line("anchors", fine=False, detail=detail)]
    if not audit.anchors:
        return []
    missing = [anchor for anchor in audit.anchors if not Path(anchor).is_dir()]
    there = counted(len(audit.anchors), "folder")
    detail = f"missing: {', '.join(missing)}. {_PUT_BACK}" if missing else there
    return [Line("anchors", fine=not missing, detail=detail)]


def _witnesses(context: Context, settings: Settings) -> list[Line]:
    """How old the newest cosignature is. An idle log beats once an hour and asks for new ones then."""
    try:
        witnesses = witnesses_of(settings.audit)
        if not witnesses:
            return []
        look = context.composition.look(settings)
        newest_ms, said = look.cosigned_ms(witnesses), look.start_witnessed()
    except Refused as refused:
        return [Line("witnesses", fine=False, detail=str(refused))]
    at_start = "" if said is None else f". Asked at a start: {said}"
    if newest_ms is None:
        detail = f"none of {len(witnesses)} has cosigned this log; the gateway's own log says why{at_start}"
        return [Line("witnesses", fine=False, detail=detail)]
    seconds = max(0, (context.composition.clock.wall_ms() - newest_ms) // 1000)
    detail = f"newest cosignature is {seconds} s old"
    if seconds > COSIGNATURE_SECONDS_MAX:
        return [Line("witnesses", fine=False, detail=f"{detail}; the gateway's own log says why{at_start}")]
    return [Line("witnesses", fine=True, detail=f"{detail}{at_start}")]


def _log(context: Context, settings: Settings) -> list[Line]:
    """Every byte of the log's files, and what the anchors hold of it."""
    look = context.composition.look(settings)
    try:
        with progress_bar("reading the log", shown=sys.stderr.isatty() and not context.as_json) as (started, progress):
            found = look.damage(context.composition.clock.wall_ms(), started=started, progress=progress)
        emptied, behind = look.emptied_anchors(), look.anchors_behind()
        folder = look.folder(look.origin())
    except Refused as refused:
        return [Line("audit log", fine=False, detail=f"not looked at: {refused}")]
    lines = [
        Line("anchors", fine=False, detail=f"{place} holds nothing of this log; was it emptied? {_PUT_BACK}")
        for place in emptied
    ]
    lines += [
        Line("anchors", fine=False, detail=_BEHIND.format(place=item.place, held=item.held, signed=item.signed))
        for item in behind
    ]
    if not found:
        told = "its files hold together" if emptied or behind else "its files hold together, and the anchors agree"
        return [*lines, Line("audit log", fine=True, detail=told)]
    return [*lines, *(Line("audit log", fine=False, detail=_told(finding, folder)) for finding in found[:FINDINGS_MAX])]


def _told(finding: Finding, folder: Path) -> str:
    place = "" if finding.segment is None else f" (segments/{finding.segment:016x}.agl"
    place += ")" if place and finding.offset is None else f", byte {finding.offset})" if place else ""
    return f"{finding.message}{place}. {_DAMAGED.format(folder=folder)}"


async def _gateway(context: Context, settings: Settings) -> AsyncIterator[Line]:
    client = Client(context.address(), context.key_if_any())
    try:
        ready = await client.call("GET", "/readyz")
    except Unreachable:
        yield await _stopped(context, settings)
        return
    except AnswerLost as lost:
        yield Line("gateway", fine=False, detail=f"{context.address()} does not answer as a gateway would: {lost}")
        return
    reason = "" if ready.status == 200 else f": {ready.document.get('reason')}"
    yield Line("gateway", fine=not reason, detail=f"serves at {context.address()}{reason}")
    for line in _writes(context, settings):
        yield line
    try:
        # A caller's key sees its own operations only: what it does not see is not told as being none.
        people = await client.call("GET", "/v1/keys")
        operations = await client.call("GET", "/v1/operations", query={"state": "unresolved", "limit": f"{LISTED_MAX}"})
    except (Unreachable, AnswerLost) as lost:
        yield Line("operations", fine=False, detail=f"cannot be listed: {lost}")
        return
    if people.is_problem or operations.is_problem:
        yield Line("operations", fine=True, detail="not looked at: GATEWAY_KEY is not set to a person's key")
        return
    count = len(operations.document["operations"])
    more = " or more" if count == LISTED_MAX else ""
    detail = f"{count}{more} unresolved: `gateway operations list --state unresolved`" if count else "none unresolved"
    yield Line("operations", fine=not count, detail=detail)


def _writes(context: Context, settings: Settings) -> list[Line]:
    """A gateway that holds writes is ready all the same: reads go on."""
    try:
        held = context.composition.look(settings).held()
    except Refused as refused:
        return [Line("writes", fine=False, detail=f"not looked at: {refused}")]
    if held is None:
        return []
    return [Line("writes", fine=False, detail=f"held: {held}; stop the gateway, then see `gateway recover`")]


async def _stopped(context: Context, settings: Settings) -> Line:
    """Nobody serves: the folder can be opened, which also holds store and log against each other."""
    try:
        async with context.composition.open(settings) as opened:
            if opened.quarantine is not None:
                return Line("store", fine=False, detail=f"writes are held: {opened.quarantine}; see `gateway recover`")
            counts = await opened.store.counts()
    except Refused as refused:
        return Line("store", fine=False, detail=str(refused))
    total = sum(counts.values())
    stored = counted(total, "operation")
    return Line("store", fine=True, detail=f"not running; {stored}, store and audit log agree")
