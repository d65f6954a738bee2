"""Addresses, paths and headers that could not be sent, or would be sent somewhere else."""

import pytest

from tests.unit.catalog.examples import BIND, BODY, LOOK, SERVICE, H, assert_told

MISTAKES = [
    (SERVICE, f"  api: {{base_url: https://a.example, proxy: 'http://[p:1'}} {H}\n", "proxy", "http://host:port"),
    ("path: /things\n", f'path: "/things/{{list}}" {H}\n', "“list” does not fit into a path", "whole number"),
    (SERVICE, f"  api: {{base_url: http://api.example.com}} {H}\n", "Without TLS", "Use https"),
    (SERVICE, f"  api: {{base_url: ftp://api.example.com}} {H}\n", "no address of a service", "https://host"),
    (SERVICE, f"  api: {{base_url: api.example.com}} {H}\n", "no address of a service", "https://host"),
    (SERVICE, f"  api: {{base_url: 'https://[::1'}} {H}\n", "no address of a service", "https://host"),
    (SERVICE, f"  api: {{base_url: 'https://u:p@api.example.com'}} {H}\n", "A name or password", "“credential”"),
    (SERVICE, f"  api: {{base_url: 'https://api.example.com/?a=b'}} {H}\n", "query or fragment", "action"),
    (SERVICE, f"  api: {{base_url: 'https://{{host}}.example.com'}} {H}\n", "placeholder", "one service per host"),
    (SERVICE, f"  api: {{base_url: 'https://api.example.com/a/../b'}} {H}\n", "not plain", "“..”"),
    (SERVICE, f"  api: {{base_url: https://127.0.0.1:8443}} {H}\n", "private", "allow_private"),
    (SERVICE, f"  api: {{base_url: http://localhost:80}} {H}\n", "private", "allow_private"),
    (SERVICE, f"  api: {{base_url: https://10.0.0.8}} {H}\n", "private", "allow_private"),
    (SERVICE, f"  api: {{base_url: https://a.example, proxy: 'http://u:p@p:1'}} {H}\n", "proxy", "without a password"),
    (SERVICE, f"  api: {{base_url: https://a.example, credential: a b}} {H}\n", "A name has up to", "example"),
    ("    service: api\n", f"    service: ap {H}\n", "no service “ap”", "Did you mean “api”"),
    ("path: /things\n", f"path: things {H}\n", "does not start with “/”", "base_url"),
    ("path: /things\n", f"path: /things?a=b {H}\n", "query or fragment", "under “query”"),
    ("path: /things\n", f'path: "/things/{{+name}}" {H}\n', "belongs to no placeholder", "{name}"),
    ("path: /things\n", f'path: "/things/{{name" {H}\n', "belongs to no placeholder", "{name}"),
    ("path: /things\n", f"path: /a b {H}\n", "percent-encoded", "%XX"),
    ("path: /things\n", f"path: /a/../b {H}\n", "“.” or “..”", "plain path"),
    ("path: /things\n", f"path: /a/%2E%2e/b {H}\n", "“.” or “..”", "plain path"),
    ("path: /things\n", f"path: /a//b {H}\n", "empty part", "plain path"),
    ("path: /things\n", f'path: "/things/{{note}}" {H}\n', "“{note}” may be absent", "“required”"),
    ("path: /things\n", f'path: "/things/{{run}}" {H}\n', "“{run}” may be absent", "{operation_id}"),
    ("path: /things\n", f"path: /things\n      opaque: [name] {H}\n", "no placeholder of the path", ""),
    (BODY, f"{BODY}      headers: {{X Y: a}} {H}\n", "no name of a header", "Letters"),
    (BODY, f"{BODY}      headers: {{Host: a}} {H}\n", "The gateway sets “Host” itself", "Remove it"),
    (BODY, f"{BODY}      headers: {{Authorization: Bearer x}} {H}\n", "sets “Authorization” itself", "“credential”"),
    (BODY, f"{BODY}      headers: {{X-A: a, x-a: b}} {H}\n", "set twice", "Remove one"),
    (BODY, f"{BODY}      headers: {{X-A: ü}} {H}\n", "visible ASCII", "Remove the others"),
    (BODY, f'{BODY}      headers: {{X-A: "a\\nb"}} {H}\n', "visible ASCII", "Remove the others"),
    (BODY, f"{BODY}      headers: {{Content-Type: text/xml}} {H}\n", "sent as JSON", "application/json"),
    (BODY, f"{BODY}      headers: {{Idempotency-Key: x}}\n#\n", "sets this header already", "Remove it"),
    (
        LOOK,
        f'      request: {{method: GET, path: "/t/{{operation_id}}", body: {{}}}} {H}\n',
        "GET request has no body",
        "query",
    ),
    (BIND, f"    bind: {{in: header, name: Host}} {H}\n", "sets “Host” itself", "Remove it"),
    (BIND, f"    bind: {{in: header, name: 'X Y'}} {H}\n", "no name of a header", "Letters"),
    (BIND, f"{BIND}    precondition: {{header: If-Match, from: note}} {H}\n", "no required argument", "unconditional"),
]


@pytest.mark.parametrize(("old", "new", "words", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_line_with_a_hint(old: str, new: str, words: str, hint: str) -> None:
    assert_told(old, new, words, hint)
