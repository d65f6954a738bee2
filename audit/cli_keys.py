"""The commands that make, change and hand on keys."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from audit import machine
from audit.arguments import (
    JsonFlag,
    LogFolder,
    log_at,
    own_log_at,
    policy_at,
    reader_key,
    recipients_in,
    refusals,
    usage,
    warn,
)
from audit.cosign import Cosigner
from audit.disk import DiskDirectory
from audit.epochs import SealKeyFile
from audit.kem import KEM_HYBRID, KEM_X25519
from audit.keyfiles import read_log_key, write_key
from audit.keyring import KeyProblem, RecipientKey, Role, SealKey
from audit.note import NoteSigner
from audit.reshare import render_reshare, reshare
from audit.rotate import Rotation, Session, policy_after, rotate_keys
from audit.subjects import PersonalKey
from audit.trust import TrustPolicy


class KeyKind(StrEnum):
    AUDITOR = "auditor"
    RECOVERY = "recovery"
    LOG = "log"
    SEAL = "seal"
    WITNESS = "witness"
    PERSONAL = "personal"


def keygen_command(
    kind: Annotated[KeyKind, typer.Argument(help="What the key is for.")],
    out: Annotated[Path, typer.Option(help="New file for the private key, mode 0600; never overwritten.")],
    *,
    name: Annotated[str | None, typer.Option(help="Name of a reader's or witness's key; default: the kind.")] = None,
    origin: Annotated[str | None, typer.Option(help="The log's origin, for a log key or a personal one.")] = None,
    log_key: Annotated[Path | None, typer.Option(help="The log key that certifies a seal key.")] = None,
    hybrid: Annotated[bool, typer.Option(help="A reader's key of ML-KEM-768 with X25519, for the long run.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a key: the private part goes into a file, the public part is printed."""
    if hybrid and kind not in {KeyKind.AUDITOR, KeyKind.RECOVERY}:
        usage("--hybrid is for readers' keys, auditor or recovery: the others sign, and seal nothing")
    try:
        if kind in {KeyKind.AUDITOR, KeyKind.RECOVERY}:
            private, public, facts = _reader(Role[kind.name], name or kind.value, hybrid=hybrid)
        else:
            private, public, facts = _signing(kind, name or kind.value, origin, log_key)
        write_key(out, private)
    except FileExistsError:
        usage(f"{out} exists already; a key file is never overwritten")
    except (OSError, KeyProblem) as error:
        usage(str(error))
    typer.echo(json.dumps({"kind": kind.value, "file": str(out), "public": public} | facts) if as_json else public)


def _reader(role: Role, name: str, *, hybrid: bool) -> tuple[str, str, dict[str, Any]]:
    key = RecipientKey.generate(role, name, machine.entropy, KEM_HYBRID if hybrid else KEM_X25519)
    who = key.recipient
    return key.to_line(), str(who), {"name": name, "key_id": who.key_id.hex(), "kem": f"{who.kem:#06x}"}


def _signing(kind: KeyKind, name: str, origin: str | None, log_key: Path | None) -> tuple[str, str, dict[str, Any]]:
    """Private line, public line, and further facts."""
    if kind is KeyKind.PERSONAL:
        if origin is None:
            usage("a key for personal data needs --origin, the log that it is for")
        personal = PersonalKey.generate(origin, machine.entropy)
        return personal.to_line(), f"key for personal data of {origin}; it has no public part", {"name": origin}
    if kind is KeyKind.LOG:
        if origin is None:
            usage("a log key needs --origin, for example gw.example/audit/prod-1")
        signer = NoteSigner.generate(origin, machine.entropy)
        return signer.to_line(), f"log {signer.key}", {"name": origin, "key_id": signer.key.key_id.hex()}
    if kind is KeyKind.WITNESS:
        cosigner = Cosigner.generate(name, machine.entropy)
        return cosigner.to_line(), f"witness {name} {cosigner.key}", {"name": name, "key_id": cosigner.key.key_id.hex()}
    if log_key is None:
        usage("a seal key needs --log-key, the key that certifies it")
    certifier = read_log_key(log_key)
    seal = SealKey.issue(certifier.signer, certifier.name, machine.entropy)
    public = f"seal key of epoch {seal.epoch} for {seal.origin}: {seal.public.hex()}"
    return seal.to_line(), public, {"name": seal.origin, "epoch": seal.epoch}


def rotate_keys_command(
    directory: LogFolder,
    *,
    log_key: Annotated[Path, typer.Option(help="The log's private key file.")],
    seal_key: Annotated[
        Path, typer.Option(help="The file of the log's seal keys; it is replaced if the log key changes.")
    ],
    recipient: Annotated[list[str], typer.Option(help="Who may read from now on, all of them: public line or file.")],
    by: Annotated[str, typer.Option(help="Who decided it; written into the log.")],
    new_log_key: Annotated[
        Path | None, typer.Option(help="The private key that signs for the log from now on.")
    ] = None,
    anchor: Annotated[list[Path] | None, typer.Option(help="Folders that keep copies of checkpoints.")] = None,
    trust: Annotated[Path | None, typer.Option(help="The trust policy so far, to print the one that follows.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Change the readers or the log key of a stopped log that is written without a gateway."""
    recipients = recipients_in(recipient)
    if not recipients:
        usage("a log without recipients could never be read")
    policy = policy_at(trust)
    try:
        new = None if new_log_key is None else read_log_key(new_log_key)
        rotation = Rotation(tuple(recipients), read_log_key(log_key), by, new)
    except (OSError, KeyProblem) as error:
        usage(str(error))
    if policy is not None and rotation.log_key.key.public not in {key.public for key in policy.logs}:
        usage(f"the policy {trust} does not pin the log key that is in force")
    folder = own_log_at(directory)
    boot_id = machine.boot_id()
    session = Session(machine.entropy, "audit rotate-keys", boot_id, machine.now_ms())
    store = SealKeyFile(DiskDirectory(seal_key.parent), seal_key.name)
    with refusals():
        rotated = rotate_keys(
            DiskDirectory(folder), store, rotation, session, [DiskDirectory(path) for path in anchor or ()]
        )
        after = policy_after(policy or TrustPolicy((rotated.old_key,)), rotated) if new is not None else policy
    if as_json:
        facts = {
            "cut": rotated.cut,
            "recipients_changed": rotated.recipients_changed,
            "log_key_changed": new is not None,
        }
        typer.echo(json.dumps(facts | {"policy": None if after is None else after.to_text()}))
        return
    warn(f"from entry {rotated.cut} on the new keys are in force")
    if new is not None and after is not None:
        typer.echo(after.to_text(), nl=False)


def reshare_command(
    directory: LogFolder,
    *,
    key: Annotated[Path, typer.Option(help="The private key of the reader who hands on.")],
    to: Annotated[str, typer.Option(help="The new reader: public line, or file with it.")],
    out: Annotated[Path, typer.Option(help="New file for the sealed secrets; never overwritten.")],
    as_json: JsonFlag = False,
) -> None:
    """Seal the secrets of old segments to a reader who came later."""
    giver = reader_key(key)
    receivers = recipients_in([to])
    if len(receivers) != 1:
        usage("--to names one reader")
    folder = log_at(directory)
    with refusals():
        made = reshare(DiskDirectory(folder), giver, receivers[0], skipped=warn)
    text = "".join(render_reshare(made))
    try:
        write_key(out, text.removesuffix("\n"))
    except FileExistsError:
        usage(f"{out} exists already; it is never overwritten")
    except OSError as error:
        usage(str(error))
    facts = {"file": str(out), "origin": made.origin, "to": receivers[0].label, "segments": len(made.sealed)}
    sentence = f"{len(made.sealed)} segments of {made.origin} handed on to {receivers[0].label} in {out}"
    typer.echo(json.dumps(facts) if as_json else sentence)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("keygen")(keygen_command)
    app.command("rotate-keys")(rotate_keys_command)
    app.command("reshare")(reshare_command)
