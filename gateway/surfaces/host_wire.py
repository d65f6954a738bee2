"""The one rendering of what is known of hosts, for every door."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gateway.engine.enrolling import Offer
from gateway.engine.host_desk import Checkup


def check_document(seen: Checkup) -> dict[str, Any]:
    """A look at a host as `rest.hosting.HostCheckDocument` describes it."""
    return {"host": seen.host, "fine": seen.fine, "findings": [asdict(item) for item in seen.findings]}


def keys_document(found: Offer, *, enrolled: bool) -> dict[str, Any]:
    """Keys as `rest.hosting.HostKeysDocument` describes them."""
    return {
        "host": found.host,
        "address": found.address,
        "port": found.port,
        "keys": [asdict(key) for key in found.keys],
        "believed": list(found.believed),
        "authorities": list(found.authorities),
        "missing": list(found.missing),
        "changed": bool(found.missing),
        "digest": found.digest,
        "enrolled": enrolled,
    }


def stored_page(found: Sequence[Any], *, more: bool) -> dict[str, Any]:
    """A page as `rest.hosting.StoredOperationPage` describes it."""
    shown = [
        {
            "operation": item["operation"],
            "attempt": item["attempt"],
            "phase": item["phase"],
            "issued_ms": item["issued"],
            "began": item["began"] or None,
            "ended": item["ended"],
            "exit": item["exit"],
        }
        for item in found
    ]
    return {"operations": shown, "after": found[-1]["operation"] if more and found else None}
