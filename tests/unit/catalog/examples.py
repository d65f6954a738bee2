"""A small catalog that is right in every point, and ways to make it wrong in one."""

from gateway.catalog.lint import Checked, check
from gateway.catalog.mistake import Mistake
from gateway.model.action import Action

FILE = "catalog/things.yaml"

BASE = """\
services:
  api: {base_url: https://api.example.com/v1}
actions:
  things.create:
    description: Create a thing.
    effect: irreversible
    service: api
    input:
      type: object
      properties:
        name: {type: string}
        note: {type: string}
        size: {type: number}
        list: {type: array}
      required: [name, list]
      additionalProperties: false
    request:
      method: POST
      path: /things
      body: {name: "{name}", note: "{note}", size: "{size}"}
    bind: {in: header, name: Idempotency-Key}
    rejected: {any_attempt: 409}
    reconcile:
      request: {method: GET, path: "/things/{operation_id}"}
      identify: {path: key, equals: "{operation_id}"}
      rules:
        - {status: 200, path: state, equals: done, finding: executed_ok}
        - {status: 404, finding: absent}
      absence: {settle: 30s}
    conflict_key: "thing:{name}"
"""
MARK = "# HERE"

# The pieces of the example that tests replace.
H = MARK
REQUEST = "      method: POST\n      path: /things\n"
BODY = '      body: {name: "{name}", note: "{note}", size: "{size}"}\n'
BIND = "    bind: {in: header, name: Idempotency-Key}\n"
REJECTED = "    rejected: {any_attempt: 409}\n"
IDENTIFY = '      identify: {path: key, equals: "{operation_id}"}\n'
LOOK = '      request: {method: GET, path: "/things/{operation_id}"}\n'
RULE = "        - {status: 200, path: state, equals: done, finding: executed_ok}\n"
ABSENT = "        - {status: 404, finding: absent}\n"
SETTLE = "      absence: {settle: 30s}\n"
CONFLICT = '    conflict_key: "thing:{name}"\n'
SERVICE = "  api: {base_url: https://api.example.com/v1}\n"
EFFECT = "    effect: irreversible\n"
NAME = "        name: {type: string}\n"
RECONCILE = "    reconcile:\n" + LOOK + IDENTIFY + "      rules:\n" + RULE + ABSENT + SETTLE
FENCE = (
    '      absence: {fence: {request: {method: PUT, path: "/things/{operation_id}"}, won: 201, lost: 409}}\n'
    f"    attempts_max: 3 {H}\n"
)


def changed(*changes: tuple[str, str]) -> str:
    """The example with pieces replaced; each piece must be there exactly once."""
    text = BASE
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the example"
        text = text.replace(old, new)
    return text


def checked(text: str) -> Checked:
    return check({FILE: text.encode()})


def mistakes(text: str) -> tuple[Mistake, ...]:
    return checked(text).mistakes


def compiled(text: str, name: str = "things.create") -> Action:
    result = checked(text)
    assert result.catalog is not None, [str(mistake) for mistake in result.mistakes]
    return result.catalog.actions[name]


def marked_line(text: str) -> int:
    """The line that carries the mark."""
    return next(number for number, line in enumerate(text.splitlines(), start=1) if MARK in line)


def assert_told(old: str, new: str, words: str, hint: str) -> None:
    """The example with `old` replaced by `new` is refused, at the marked line, in these words and with this hint."""
    text = changed((old, new))
    found = [mistake for mistake in mistakes(text) if words in mistake.detail]
    assert found, [str(mistake) for mistake in mistakes(text)]
    assert found[0].file == FILE
    assert found[0].hint
    assert hint in found[0].hint
    assert not found[0].warning
    assert checked(text).catalog is None
    if MARK in text:
        assert marked_line(text) in {mistake.line for mistake in found}


def assert_warned(old: str, new: str, words: str, hint: str) -> None:
    """The example with `old` replaced by `new` works, and its owner is warned in these words and with this hint."""
    result = checked(changed((old, new)))
    found = [mistake for mistake in result.mistakes if words in mistake.detail]
    assert found, [str(mistake) for mistake in result.mistakes]
    assert found[0].warning
    assert hint in found[0].hint
    assert result.catalog is not None
