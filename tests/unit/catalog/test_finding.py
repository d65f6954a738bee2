"""A check sees every request, test and expression of an action: what it misses is never checked."""

from gateway.catalog.finding import Subject
from gateway.catalog.load import load
from gateway.catalog.schema import ActionForm
from tests.unit.catalog.examples import FILE, compiled
from tests.unit.catalog.test_compile import FULL


def subject() -> Subject:
    form = load({FILE: FULL.encode()}).actions["things.put"].form
    assert isinstance(form, ActionForm)
    return Subject(form, compiled(FULL, "things.put"))


def test_every_request_is_seen() -> None:
    assert [".".join(map(str, path)) for path, _ in subject().requests()] == [
        "request",
        "reconcile.request",
        "reconcile.positive_control.request",
        "reconcile.absence.fence.request",
    ]


def test_every_test_of_an_answer_is_seen() -> None:
    assert [".".join(map(str, path)) for path, _ in subject().tests()] == [
        "success",
        "refused_before_work.0",
        "exists.0",
        "in_flight.0",
        "rejected.first_attempt.0",
        "rejected.first_attempt.1",
        "rejected.any_attempt.0",
        "rate_limit.signals.0",
        "rate_limit.signals.1",
        "accepted.rules.0",
        "reconcile.rules.0",
        "reconcile.rules.1",
        "reconcile.rules.2",
        "reconcile.rules.3",
        "reconcile.positive_control",
        "reconcile.absence.fence.won",
        "reconcile.absence.fence.lost",
    ]


def test_every_expression_is_seen() -> None:
    assert dict(subject().expressions()) == {
        ("success", "path"): "ok",
        ("in_flight", 0, "path"): "code",
        ("rejected", "first_attempt", 1, "path"): "code",
        ("accepted", "rules", 0, "path"): "s",
        ("reconcile", "rules", 0, "path"): "fence",
        ("reconcile", "rules", 1, "path"): "s",
        ("output", "select"): "id",
        ("rate_limit", "wait", "path"): "wait",
        ("accepted", "result"): "out",
        ("accepted", "path"): "queued",
        ("reconcile", "result"): "thing",
        ("reconcile", "compare", "id"): "id",
        ("reconcile", "identify", "path"): "op",
    }


def test_arguments_are_read_from_the_schema() -> None:
    assert set(subject().arguments) == {"id", "etag", "n"}
    assert subject().required == {"id", "etag"}
