"""`gateway operations export`: one operation's evidence in one piece, for people who were not there."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.engine.evidence import Proof, prove
from gateway.surfaces.cli.acting import OperationArgument, operations
from gateway.surfaces.cli.asking import ask, client_of, path_of
from gateway.surfaces.cli.context import Exit, JsonFlag, current, fail

__all__ = ["operations"]

BUNDLE = 1
"""Version of the bundle's form."""


@operations.command()
def export(
    operation: OperationArgument,
    *,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An auditor's key: adds the audit records, with proofs.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new folder with a file for each part; default: print all.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Bundle what is known of an operation: request digest, attempts, findings, approval, receipt and proofs.

    With --key it holds a disclosure, which strangers check with `gateway audit check-disclosure`; it shows no other
    operation. The receipt is checked with `gateway audit verify --receipts`. Run it where the audit log's files are.
    """
    context = current()
    context.as_json = as_json
    if out is not None and out.exists():
        fail(f"{out} exists already; evidence is never overwritten.", Exit.USAGE)

    async def work() -> dict[str, Any]:
        document = (await ask(client_of(context), "GET", path_of(operation))).document
        receipt = document["receipt"]
        if receipt is None:
            return _bundle(document, Proof(None))
        logs = Path(context.settings().data_folder) / "audit"
        return _bundle(document, prove(logs, receipt["origin"], document["operation_id"], key, _skipped))

    bundle = context.run(work())
    if out is None:
        context.print_json(bundle)
        return
    names = _write(out, bundle)
    if as_json:
        context.print_json({"folder": str(out), "files": names})
        return
    context.out.print(f"Written to {out}: {', '.join(names)}", markup=False)


def _skipped(reason: str) -> None:
    sys.stderr.write(f"gateway: {reason}\n")


def _bundle(document: dict[str, Any], proof: Proof) -> dict[str, Any]:
    return {
        "bundle": BUNDLE,
        "operation_id": document["operation_id"],
        "request_sha256": document["request_sha256"],
        "outcome": {name: document[name] for name in ("state", "outcome", "executed", "basis", "contradicted")},
        "steps": document["steps"],
        "attempts": document["attempts"],
        "findings": document["evidence"],
        "authorization": document["authorization"],
        "attestation": document["attestation"],
        "receipt": document["receipt"],
        "checkpoint": proof.checkpoint,
        "disclosure": proof.disclosure,
        "operation": document,
    }


def _write(folder: Path, bundle: dict[str, Any]) -> list[str]:
    """A file for each part, in the form that the tool for it reads."""
    receipt = bundle["receipt"]
    parts = {
        "evidence.json": json.dumps({**bundle, "checkpoint": None, "disclosure": None}, indent=2) + "\n",
        "receipts.jsonl": None if receipt is None else json.dumps(receipt) + "\n",
        "checkpoint": bundle["checkpoint"],
        "disclosure": bundle["disclosure"],
    }
    folder.mkdir(mode=0o700, parents=True)
    written = {name: text for name, text in parts.items() if text is not None}
    for name, text in written.items():
        # What an auditor's key has opened is for those alone to whom its holder hands it.
        fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    return sorted(written)
