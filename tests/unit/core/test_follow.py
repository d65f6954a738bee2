"""A handle is followed on the service's own origin, or not at all."""

from dataclasses import replace

import pytest

from gateway.core.follow import URL_LENGTH_MAX, handle_url
from gateway.core.matching import Answer
from gateway.core.strictjson import Json
from gateway.model.action import HandleSource, Service
from tests.unit.core.builders import ACCEPTED, BASE, action, operation

JOB = "https://svc.example.com/api/jobs/1"


@pytest.mark.parametrize(
    ("value", "url"),
    [
        (JOB, JOB),
        ("HTTPS://SVC.example.com/api/jobs/1", "https://SVC.example.com/api/jobs/1"),
        ("https://svc.example.com:443/api/jobs/1", "https://svc.example.com:443/api/jobs/1"),
        ("/jobs/1", "https://svc.example.com/jobs/1"),
        ("jobs/1", JOB),
        ("?job=1", f"{BASE}/things?job=1"),
        ("../jobs/1", "https://svc.example.com/jobs/1"),
        ("//svc.example.com/jobs/1", "https://svc.example.com/jobs/1"),
        (f"{JOB}#part", JOB),
        ("https://elsewhere.example.com/jobs/1", None),
        ("//elsewhere.example.com/jobs/1", None),
        ("http://svc.example.com/api/jobs/1", None),
        ("https://svc.example.com:8443/jobs/1", None),
        ("https://svc.example.com:0/jobs/1", None),
        ("https://svc.example.com.evil.example/jobs/1", None),
        ("https://user@svc.example.com/jobs/1", None),
        ("https://svc.example.com@evil.example/jobs/1", None),
        ("https://:pw@svc.example.com/jobs/1", None),
        ("ftp://svc.example.com/jobs/1", None),
        ("javascript:alert(1)", None),
        ("file:///etc/passwd", None),
        ("https://svc.example.com:port/jobs/1", None),
        ("https://[svc.example.com/jobs/1", None),
        ("https:///jobs/1", "https://svc.example.com/jobs/1"),
        ("/jobs/1\r\nX-Injected: 1", None),
        ("/jobs/1 ", None),
        ("\t/jobs/1", None),
        ("/jobs/\x7f", None),
        ("\\\\elsewhere.example.com\\jobs", None),
        ("https://svc.example.com\\@evil.example/", None),
        ("/jobs/ü", None),
        ("https://ѕvc.example.com/jobs/1", None),
        ("", None),
        ("/" + "x" * (URL_LENGTH_MAX - 1), "https://svc.example.com/" + "x" * (URL_LENGTH_MAX - 1)),
        ("/" + "x" * URL_LENGTH_MAX, None),
        (None, None),
        (7, None),
        (["/jobs/1"], None),
        ({"href": "/jobs/1"}, None),
    ],
)
def test_a_handle_in_the_body(value: Json, url: str | None) -> None:
    rules = action(accepted=replace(ACCEPTED, handle=HandleSource(path="links.self")))

    assert handle_url(rules, operation(), Answer(202, (), {"links": {"self": value}})) == url


def test_a_handle_in_a_header() -> None:
    rules = action(accepted=ACCEPTED)

    assert handle_url(rules, operation(), Answer(202, (("location", "jobs/1"),))) == JOB
    assert handle_url(rules, operation(), Answer(202, (("X-Other", "jobs/1"),))) is None


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("/jobs/1", "https://svc.example.com/jobs/1"),
        (JOB, JOB),
        ("../jobs/1", f"{BASE}/people/jobs/1"),
        ("jobs/1", None),
        ("?job=1", None),
    ],
)
def test_a_handle_beside_a_place_named_after_a_person_is_not_followed(value: str, url: str | None) -> None:
    rules = action(accepted=ACCEPTED, subject="person:{name}")
    about = operation(target_url=f"{BASE}/people/{{name}}/orders")

    assert handle_url(rules, about, Answer(202, (("Location", value),))) == url


def test_an_action_that_follows_nothing_has_no_handle() -> None:
    assert handle_url(action(), operation(), Answer(202, (("Location", JOB),))) is None


def test_a_port_of_the_services_own_is_part_of_its_origin() -> None:
    rules = action(accepted=ACCEPTED, service=Service("svc", "http://127.0.0.1:8080/api"))
    live = operation(target_url="http://127.0.0.1:8080/api/things")

    assert handle_url(rules, live, Answer(202, (("Location", "/jobs/1"),))) == "http://127.0.0.1:8080/jobs/1"
    assert handle_url(rules, live, Answer(202, (("Location", "http://127.0.0.1/jobs/1"),))) is None
