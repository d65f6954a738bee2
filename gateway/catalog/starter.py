"""What `gateway init` writes: a commented catalog that runs against the fault kit, and a settings file."""

import json
from collections.abc import Sequence
from typing import Final

CATALOG_FILE: Final = "catalog/starter.yaml"

STARTER_CATALOG: Final = """\
# yaml-language-server: $schema=./catalog.schema.json
# What is not declared here does not exist for an agent. `gateway check` says what is wrong with this file, line by
# line; `gateway schema > catalog/catalog.schema.json` gives your editor the list of fields.

services:
  deploys:
    # The fault kit's deployment service: `gateway faults service --port 8999 --ledger deploys.ledger`.
    # Your own service is https://host/path; a request's path is appended to this one.
    base_url: http://127.0.0.1:8999
    allow_private: true            # only because it runs on this machine; leave it out for services elsewhere
    # credential: deploys-token    # a name; `gateway credentials set deploys-token` stores the value in the vault

actions:
  environments.get:
    description: Show which revision runs in an environment.
    effect: read                   # a read may be repeated; anything else may not, unless the rules below allow it
    service: deploys
    input:
      type: object
      properties:
        environment: {enum: [staging, production]}
      required: [environment]
      additionalProperties: false
    request: {method: GET, path: "/environments/{environment}"}

  deployments.create:
    description: Create a deployment of a revision to an environment.
    effect: irreversible
    service: deploys
    input:                         # JSON Schema 2020-12
      type: object
      properties:
        repository: {type: string, maxLength: 100}
        revision: {type: string, pattern: "^[0-9a-f]{7,40}$"}
        environment: {enum: [staging, production]}
      required: [repository, revision, environment]
      additionalProperties: false
    request:
      method: POST
      path: /deployments
      headers: {X-Correlation-ID: "{run}"}    # quote placeholders; an absent optional one drops its header or member
      body: {repository: "{repository}", revision: "{revision}", environment: "{environment}"}

    # What binds repeats to one operation? The service sees the operation's id under this name.
    bind: {in: header, name: Idempotency-Key, window: {min: 24h, margin: 1h}}

    success: {status: 2xx}
    rejected:                      # definite refusals, beside which every other 4xx keeps its built-in meaning
      any_attempt: [{status: 400}, {status: 422}]
    in_flight: 409                 # the same key is still being worked on: look, do not repeat

    accepted:                      # an answer 202 is followed to its end
      status: 202
      handle: status_url
      rules:
        - {status: 200, path: state, equals: succeeded, finding: executed_ok}
        - {status: 200, path: state, equals: failed, finding: executed_failed}
        - {status: 200, path: state, in: [accepted, running], finding: in_progress}

    # Where can the outcome be looked up when the answer was lost?
    reconcile:
      request: {method: GET, path: "/operations/by-id/{operation_id}"}
      identify: {path: idempotency_key, equals: "{operation_id}"}      # the proof that it is this operation
      rules:                       # the first match wins; whatever matches none proves nothing
        - {status: 200, path: state, equals: succeeded, finding: executed_ok}
        - {status: 200, path: state, equals: failed, finding: executed_failed}
        - {status: 200, path: state, in: [accepted, running], finding: in_progress}
        - {status: 404, finding: absent}
      # What remains when the connection breaks? "Not there now" counts once no copy can still be on its way.
      absence: {settle: 30s}
      result: deployment

    resend: on_absence             # never (default), same_key, or on_absence
    deadlines: {request: 10s, recovery: 5m}
    conflict_key: "deploy:{environment}"     # no two deployments to one environment at the same time
    output: {select: "{id: id, state: state, revision: revision}"}
"""


def starter_settings(*, origin: str, recipients: Sequence[str] = (), anchors: Sequence[str] = ()) -> str:
    """The text of `gateway.yaml`. Texts are written as JSON strings, which YAML reads the same way."""
    return _SETTINGS.format(
        origin=json.dumps(origin),
        recipients=json.dumps(list(recipients)),
        anchors=json.dumps(list(anchors)),
    )


_SETTINGS = """\
# Settings of the gateway. ${{NAME}} takes a value from the environment. Every setting and its default is listed in the
# documentation; callers' and people's keys are not here but in the store, hashed (`gateway keys create`).

server:
  host: 127.0.0.1                  # loopback only, unless you say otherwise; GATEWAY_ADDR overrides it
  port: 8420

data_folder: data                  # database, audit log and vault; relative to this file
catalog_folder: catalog            # every *.yaml in it

audit:
  origin: {origin}
  recipients: {recipients}         # public keys of the auditors; the gateway itself cannot read its log
  anchors: {anchors}               # folders, best on other machines, that receive signed checkpoints

access:                            # the first line that fits decides; if none fits, the answer is no
  - {{name: everyone-reads, caller: "*", effect: read, decision: allow}}
  - {{name: agents-deploy, caller: "agent-*", action: "deployments.*", decision: allow}}
  # A person who may put another operation in place of an unresolved one (`gateway call --supersedes`) needs a line too:
  # - {{name: operator-replaces, caller: operator, action: "deployments.*", decision: allow}}

limits:
  wait_seconds_max: 25             # a call that takes longer is answered with a handle
"""
