"""A catalog with a host and a command that is right in every point, and ways to make it wrong in one."""

from gateway.catalog.lint import Checked, check
from gateway.catalog.mistake import Mistake
from gateway.model.action import Action
from tests.unit.catalog.examples import FILE, MARK, marked_line

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1sVDrVWpbSrxBzHhLwQvnGyLSLYt4/4vvcnzLnRTBe"

BASE = f"""\
hosts:
  web-1:
    address: web-1.example.com
    user: deploy
    credential: deploy-key
    host_keys: ["{KEY}"]
    store: /var/lib/gateway-runner
    store_id: s0123456789abcdef
actions:
  release.migrate:
    description: Run the database migration of a release.
    effect: irreversible
    host: web-1
    input:
      type: object
      properties:
        version: {{type: string, maxLength: 50}}
        note: {{type: string}}
        list: {{type: array}}
      required: [version, list]
      additionalProperties: false
    command: [/usr/local/bin/migrate-db, --to, "{{version}}"]
    conflict_key: "migrate:{{version}}"
"""
H = MARK
ADDRESS = "    address: web-1.example.com\n"
USER = "    user: deploy\n"
KEYS = f'    host_keys: ["{KEY}"]\n'
STORE = "    store: /var/lib/gateway-runner\n"
STORE_ID = "    store_id: s0123456789abcdef\n"
EFFECT = "    effect: irreversible\n"
HOST = "    host: web-1\n"
COMMAND = '    command: [/usr/local/bin/migrate-db, --to, "{version}"]\n'
CONFLICT = '    conflict_key: "migrate:{version}"\n'
STATUS = """\
    reconcile:
      command: [/usr/local/bin/release-status, --json]
      identify: {path: operation_id, equals: "{operation_id}"}
      rules:
        - {path: phase, equals: migrated, finding: executed_ok}
        - {path: known, equals: false, finding: absent}
"""


def changed(*changes: tuple[str, str]) -> str:
    """The example with pieces replaced; each piece must be there exactly once."""
    text = BASE
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the example"
        text = text.replace(old, new)
    return text


def checked(text: str) -> Checked:
    return check({FILE: text.encode()})


def compiled(*changes: tuple[str, str]) -> Action:
    result = checked(changed(*changes))
    assert result.catalog is not None, [str(mistake) for mistake in result.mistakes]
    return result.catalog.actions["release.migrate"]


def told(old: str, new: str, words: str, hint: str, *, warning: bool = False) -> list[Mistake]:
    """The example with `old` replaced is refused (or warned of) at the marked line, in these words, with this hint."""
    text = changed((old, new))
    result = checked(text)
    found = [mistake for mistake in result.mistakes if words in mistake.detail]
    assert found, [str(mistake) for mistake in result.mistakes]
    assert {mistake.warning for mistake in found} == {warning}
    assert hint in found[0].hint
    assert (result.catalog is not None) is warning
    if MARK in text:
        assert marked_line(text) in {mistake.line for mistake in found}
    return found
