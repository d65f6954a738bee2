"""A credential is checked when it is set, becomes exactly one header or parameter, and names all that gives it away."""

import base64
from typing import Any

import asyncssh
import pytest

from adapters.contract import Secret
from gateway.core.credential import VALUE_BYTES_MAX, check
from gateway.model.problem import Code, Problem

ORIGIN = "https://api.example.com"


def made(kind: str, value: str | bytes, header_name: str | None = None, origin: str = ORIGIN) -> Any:
    return check("deploys-token", kind, value, origin=origin, header_name=header_name)


@pytest.mark.parametrize(
    ("kind", "value", "name", "expected"),
    [
        ("bearer", "tok/en+1=", None, Secret("bearer", "Authorization", "Bearer tok/en+1=")),
        ("header", "abc def", "X-Api-Key", Secret("header", "X-Api-Key", "abc def")),
        ("query", "a&b=c", "api_key", Secret("query", "api_key", "a&b=c")),
        ("basic", "ann:pässword", None, Secret("basic", "Authorization", "Basic YW5uOnDDpHNzd29yZA==")),
        ("basic", "sk_live:", "authorization", Secret("basic", "Authorization", "Basic c2tfbGl2ZTo=")),
    ],
)
def test_each_kind_becomes_one_header_or_parameter(kind: str, value: str, name: str | None, expected: Secret) -> None:
    assert made(kind, value, name).secret() == expected


@pytest.mark.parametrize(("given", "kept"), [("token\n", "token"), (b"token\r\n", "token"), ("token", "token")])
def test_the_line_end_of_standard_input_is_no_part_of_it(given: str | bytes, kept: str) -> None:
    assert made("bearer", given).value == kept


@pytest.mark.parametrize(
    ("kind", "value", "name", "pointer"),
    [
        ("cookie", "token", None, "/kind"),
        ("", "token", None, "/kind"),
        ("bearer", "", None, "/value"),
        ("bearer", "\n", None, "/value"),
        ("bearer", "abc", None, "/value"),
        ("bearer", "token\n\n", None, "/value"),
        ("bearer", "Bearer token", None, "/value"),
        ("bearer", "to\x00ken", None, "/value"),
        ("bearer", "to\r\nX: y", None, "/value"),
        ("bearer", "töken", None, "/value"),
        ("bearer", b"tok\xff", None, "/value"),
        ("bearer", "tok\ud800en", None, "/value"),
        ("bearer", "t" * (VALUE_BYTES_MAX + 1), None, "/value"),
        ("header", " token", "X-Key", "/value"),
        ("header", "token ", "X-Key", "/value"),
        ("basic", "no colon here", None, "/value"),
        ("basic", "longuser:pw", None, "/value"),
        ("basic", ":", None, "/value"),
        ("bearer", "token", "X-Key", "/header_name"),
        ("header", "token", None, "/header_name"),
        ("query", "token", None, "/header_name"),
        ("header", "token", "X Key", "/header_name"),
        ("header", "token", "X-Key: a\r\nY", "/header_name"),
        ("header", "token", "Transfer-Encoding", "/header_name"),
        ("header", "token", "host", "/header_name"),
    ],
)
def test_what_cannot_travel_is_refused_and_not_repeated(
    kind: str, value: str | bytes, name: str | None, pointer: str
) -> None:
    with pytest.raises(Problem) as refused:
        made(kind, value, name)

    problem = refused.value
    assert problem.code is Code.INVALID_INPUT
    assert [error.pointer for error in problem.errors] == [pointer]
    said = f"{problem} {problem.guidance} {problem.errors} {problem.extra}"
    plain = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    assert len(plain.strip()) < 8 or plain.strip() not in said


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://api.example.com", ORIGIN),
        ("HTTPS://API.example.com/", ORIGIN),
        ("https://api.example.com:443", ORIGIN),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("https://api.example.com:80", "https://api.example.com:80"),
    ],
)
def test_an_origin_has_one_spelling(origin: str, expected: str) -> None:
    assert made("bearer", "token", origin=origin).origin == expected


@pytest.mark.parametrize(
    "origin",
    ["", "api.example.com", "ftp://a", "https://", "https://a/b", "https://a?b", "https://a#b", "https://u@a",
     "https://a\n", " https://a", "https://a:99999", "https://a:x"],
)  # fmt: skip
def test_what_is_more_or_less_than_an_origin_is_refused(origin: str) -> None:
    with pytest.raises(Problem):
        made("bearer", "token", origin=origin)


@pytest.mark.parametrize("name", ["", "a b", "../x", "a" * 101, "a\n", "-a", "é"])
def test_a_name_is_plain(name: str) -> None:
    with pytest.raises(Problem) as refused:
        check(name, "bearer", "token", origin=ORIGIN)
    assert refused.value.errors[0].pointer == "/name"


KEY = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
SSH = "ssh://web-1.example.com"


def test_a_key_is_bound_to_a_host_and_travels_in_nothing() -> None:
    key = made("ssh_key", KEY, origin=f"{SSH}:22")

    assert key.origin == SSH
    assert key.secret() == Secret("ssh_key", "", KEY)
    assert KEY.splitlines()[2].encode() in set(key.parts())
    assert KEY.splitlines()[2] not in repr(key)


@pytest.mark.parametrize(
    ("kind", "value", "name", "origin", "pointer"),
    [
        ("ssh_key", KEY, None, ORIGIN, "/kind"),
        ("bearer", "token", None, SSH, "/kind"),
        ("ssh_key", KEY, "X-Key", SSH, "/header_name"),
        ("ssh_key", "token", None, SSH, "/value"),
        ("ssh_key", KEY * 30, None, SSH, "/value"),
        ("ssh_key", KEY, None, "ssh://deploy@web-1.example.com", "/origin"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(kind: str, value: str, name: str | None, origin: str, pointer: str) -> None:
    with pytest.raises(Problem) as refused:
        made(kind, value, name, origin)

    assert [error.pointer for error in refused.value.errors] == [pointer]
    assert KEY.splitlines()[2] not in f"{refused.value} {refused.value.errors}"


def test_everything_that_gives_it_away_is_named() -> None:
    assert set(made("bearer", "token").parts()) == {b"token"}
    assert set(made("header", "Token abcdefgh", "X-Key").parts()) == {b"Token abcdefgh", b"abcdefgh"}
    pair = b"ann:longpass"
    assert set(made("basic", pair).parts()) == {pair, base64.b64encode(pair), b"longpass"}
    assert b"sk_live_1" in set(made("basic", "sk_live_1:").parts())
    assert "token" not in repr(made("bearer", "s3cr3t-token")).replace("deploys-token", "")
