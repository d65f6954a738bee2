"""The demo's own catalog and settings: the ordinary ones, with deadlines short enough to watch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

SERVICE: Final = "@SERVICE@"
PROXY: Final = "@PROXY@"
NOBODY: Final = "@NOBODY@"

_HEAD: Final = """\
# Written by `gateway demo`. Everything here also works against a service of your own; only the times are shorter than
# a real network allows: `settle` says how long a request can be held up, and here nothing is held up by itself.

"""

# Shared parts are written once here. Catalogs take no aliases, so the file that the demo writes has them written out.
_SHARED: Final = """\
services:
  deploys: {base_url: "@SERVICE@", allow_private: true}
  deploys-far: {base_url: "@PROXY@", allow_private: true}         # the same service behind the fault proxy
  deploys-gone: {base_url: "@NOBODY@", allow_private: true}       # nobody listens there

actions:
  environments.get:
    description: Show which revision runs in an environment.
    effect: read
    service: deploys
    input: &environment
      type: object
      properties: {environment: {type: string, pattern: "^[a-z0-9-]{1,40}$"}}
      required: [environment]
      additionalProperties: false
    request: {method: GET, path: "/environments/{environment}"}
    deadlines: {connect: 900ms, request: 1s, recovery: 2m}

  # The usual case: the service remembers the operation's id, and a status endpoint can be asked for it.
  deployments.put: &put
    description: Deploy a revision under a name.
    effect: irreversible
    service: deploys
    input: &deployment
      type: object
      properties:
        name: {type: string, pattern: "^[a-z0-9-]{1,40}$"}
        revision: {type: string, pattern: "^[0-9a-f]{7}$"}
      required: [name]
      additionalProperties: false
    request: &put_request
      method: PUT
      path: "/deployments/{name}"
      body: {repository: web, revision: "{revision}", environment: "{name}"}
    bind: {in: header, name: Idempotency-Key, window: {min: 24h, margin: 1h}}
    rejected: {any_attempt: [{status: 400}]}
    in_flight: 409
    reconcile: &lookup
      request: {method: GET, path: "/operations/by-id/{operation_id}"}
      identify: {path: idempotency_key, equals: "{operation_id}"}
      rules: &findings
        - {status: 200, path: state, equals: succeeded, finding: executed_ok}
        - {status: 200, path: state, equals: failed, finding: executed_failed}
        - {status: 200, path: state, in: [accepted, running], finding: in_progress}
        - {status: 404, finding: absent}
      absence: {settle: 1s}
      interval: 300ms
      result: deployment
    deadlines: {connect: 900ms, request: 1s, recovery: 2m}

  # Held up on its way: nothing says for how long, so "not there" never becomes final.
  deployments.put_far:
    <<: *put
    service: deploys-far
    reconcile: {<<: *lookup, absence: none}

  # The place of the operation is occupied, so that a late copy finds it taken.
  deployments.put_fenced:
    <<: *put
    reconcile:
      <<: *lookup
      rules:
        - {status: 200, path: request.kind, equals: tombstone, finding: fenced}
        - {status: 200, path: state, equals: succeeded, finding: executed_ok}
        - {status: 404, finding: absent}
      absence:
        fence:
          request:
            method: PUT
            path: "/claims/{operation_id}"
            headers: {If-None-Match: "*"}
            body: {kind: tombstone, operation: "{operation_id}"}
          won: 201
          lost: 412

  # Proven never to have happened: then, and only then, it may be sent again.
  deployments.put_again:
    <<: *put
    resend: on_absence

  # No status endpoint, but the service promises that the same value is one operation.
  deployments.put_same_key:
    <<: *put
    reconcile: null
    resend: same_key
    replay_after_5xx: same_outcome

  # Long enough to be killed in the middle of it.
  deployments.put_slow:
    <<: *put
    reconcile: {<<: *lookup, absence: {settle: 2s}}
    deadlines: {connect: 1s, request: 2s, recovery: 2m}

  deployments.put_gone:
    <<: *put
    service: deploys-gone
    attempts_max: 2

  # Answered 202: the work goes on after the answer.
  deployments.start:
    <<: *put
    request:
      <<: *put_request
      headers: {Prefer: respond-async}
    accepted:
      status: 202
      handle: status_url
      rules: *findings
      interval: 300ms

  # Neither a key that the service keeps nor anything to ask: a lost answer stays unknown until a person settles it.
  payments.create:
    description: Pay an amount to an account.
    effect: irreversible
    service: deploys
    input:
      type: object
      properties: {account: {type: string, maxLength: 40}, amount: {type: integer, minimum: 1}}
      required: [account, amount]
      additionalProperties: false
    request:
      method: POST
      path: /payments
      headers: {X-Operation-Id: "{operation_id}"}
      body: {account: "{account}", amount: "{amount}"}
    rejected: {any_attempt: [{status: 400}, {status: 409}]}
    deadlines: {connect: 900ms, request: 1s, recovery: 2m}
    unknown_accepted: true
    reason: A person compares the books of the service.
"""


class _WrittenOut(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        """Write everything out."""
        return True


def written_out(document: Mapping[str, Any]) -> str:
    """A catalog as text; what is shared in the document is written out each time."""
    return yaml.dump(dict(document), Dumper=_WrittenOut, sort_keys=False, width=110)


def catalog_text(*, service: str, proxy: str, nobody: str) -> str:
    """The catalog for three base URLs."""
    document = yaml.safe_load(_SHARED.replace(SERVICE, service).replace(PROXY, proxy).replace(NOBODY, nobody))
    for action in document["actions"].values():
        if action.get("reconcile", {}) is None:
            del action["reconcile"]
    return _HEAD + written_out(document)


def write_configuration(folder: Path, catalog: str) -> None:
    """Put the demo's catalog and rules into a folder that `gateway init` made."""
    (folder / "catalog" / "starter.yaml").unlink()
    (folder / "catalog" / "demo.yaml").write_text(catalog, encoding="utf-8")
    file = folder / "gateway.yaml"
    settings: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    settings["server"] = {"host": "127.0.0.1", "port": 0, "drain_seconds": 5.0}
    settings["access"] = [{"name": "demo", "caller": "agent-*", "decision": "allow"}]
    settings["recovery"] = {"sweep_interval_seconds": 0.5}
    file.write_text("# Written by `gateway demo`.\n" + yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
