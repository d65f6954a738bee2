"""What one observation may be read as: the status table, the declared lists, and what is never taken for an error."""

from dataclasses import replace
from typing import Any

import pytest

from adapters.contract import Framing, Observation
from gateway.core.events import HeadSeen
from gateway.core.judge import Reading, judge
from gateway.model.action import Action, Precondition, Predicate, RateLimit
from gateway.model.operation import Attempt, Executed, Kind, Operation, Standing, State
from tests.unit.catalog.commands import compiled
from tests.unit.core.builders import (
    ACCEPTED,
    BEGIN,
    LOOK_UP,
    OP_ID,
    SAME_KEY,
    TIMEOUT,
    UNSENT,
    Story,
    action,
    answer,
    operation,
    read,
    seen,
    statuses,
)
from tests.unit.core.stories import HANDLE

OK, NO, PERHAPS, EARLY = Reading.SUCCESS, Reading.REJECTED, Reading.DOUBT, Reading.REFUSED_BEFORE_WORK
METHODS = ("POST", "PUT", "DELETE", "PATCH", "GET")
SITUATIONS = ("first", "after_unsent", "after_ambiguous", "after_absent")
UNDONE = (400, 401, 402, 403, 405, 406, 411, 413, 414, 415, 417, 422, 423, 426, 428, 431, 501, 505)


def attempts(situation: str) -> tuple[Attempt, ...]:
    """The attempt that is judged comes last."""
    before = {"after_unsent": Standing.UNSENT, "after_ambiguous": Standing.DOUBT, "after_absent": Standing.ABSENT}
    standings = [before[situation], Standing.OPEN] if situation in before else [Standing.OPEN]
    return tuple(
        Attempt(number, Kind.SEND, number, 0, 0, "boot-1", standing) for number, standing in enumerate(standings, 1)
    )


def tried(situation: str) -> Operation:
    return operation(state=State.SENDING, attempts=attempts(situation))


def reading(rules: Action, shown: Observation, situation: str = "first") -> Reading:
    live = tried(situation)
    return judge(rules, live, len(live.attempts), shown, {"operation_id": OP_ID}).reading


def rules_of(method: str, *, look_up: bool) -> Action:
    changes: dict[str, Any] = {"reconcile": LOOK_UP} if look_up else {}
    return read(**changes) if method == "GET" else action(method, **changes)


def expected(status: int, method: str, situation: str, *, look_up: bool) -> Reading:
    """The status table, written down once more without the code's own words."""
    harmless = method == "GET"
    ambiguous = situation == "after_ambiguous" and not harmless
    reached = situation in {"after_ambiguous", "after_absent"} and not harmless
    if status in {200, 201, 204, 207}:
        return OK
    if status in {421, 425}:
        return EARLY
    if status in {404, 410, 412, 422} and reached:
        return PERHAPS
    if status in {404, 410, 412}:
        return PERHAPS if look_up and method in {"PUT", "DELETE", "PATCH"} else NO
    if status in UNDONE:
        return PERHAPS if ambiguous else NO
    return PERHAPS


STATUSES = [
    *UNDONE, 200, 201, 202, 204, 207, 301, 302, 303, 304, 307, 308, 404, 408, 409, 410, 412, 418, 421, 424, 425,
    429, 451, 499, 500, 502, 503, 504, 507, 508, 599,
]  # fmt: skip


@pytest.mark.parametrize("look_up", [True, False])
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_the_status_table(method: str, situation: str, look_up: bool) -> None:
    rules = rules_of(method, look_up=look_up)

    got = {status: reading(rules, answer(status), situation) for status in STATUSES}

    assert got == {status: expected(status, method, situation, look_up=look_up) for status in STATUSES}


SHORT = {"body_complete": False, "summary": "the answer's body was cut or malformed"}


@pytest.mark.parametrize(
    ("name", "shown", "wanted"),
    [
        ("time-out after the request", TIMEOUT, PERHAPS),
        ("reset after some bytes", seen(bytes_written=10, request_complete=False), PERHAPS),
        ("no byte left", UNSENT, Reading.UNSENT),
        ("no byte left, though the service spoke first", replace(UNSENT, status=408), Reading.UNSENT),
        ("said to have sent nothing, and bytes were counted", replace(UNSENT, bytes_written=3), PERHAPS),
        ("2xx with a short body", answer(201, b"{", **SHORT), PERHAPS),
        ("2xx until close", answer(200, b"{}", framing=Framing.UNTIL_CLOSE), PERHAPS),
        ("2xx without framing", answer(200, framing=None), PERHAPS),
        ("2xx before the request was written", answer(200, request_complete=False), PERHAPS),
        ("2xx with a contradiction", answer(200, contradictions=("two lengths",)), PERHAPS),
        ("403 with a short body", answer(403, b"{", **SHORT), PERHAPS),
        ("403 until close", answer(403, framing=Framing.UNTIL_CLOSE), PERHAPS),
        ("413 before the request was written", answer(413, request_complete=False), PERHAPS),
        ("408 to a message that we never finished", answer(408, request_complete=False), NO),
        ("408 to a whole message", answer(408), PERHAPS),
        ("408 that was itself cut", answer(408, request_complete=False, body_complete=False), PERHAPS),
        ("408 with a contradiction", answer(408, request_complete=False, contradictions=("junk",)), PERHAPS),
        ("204 without a body", answer(204, framing=Framing.EMPTY), OK),
        ("long body, cut by our own bound", answer(200, b"{", body_cut=True), OK),
        ("nobody there who proved to be the service", replace(UNSENT, untrusted=True), NO),
        ("switching protocols", seen(status=101, contradictions=("switched",)), PERHAPS),
    ],
)
def test_what_an_attempt_showed(name: str, shown: Observation, wanted: Reading) -> None:
    assert reading(action(), shown) is wanted, name


@pytest.mark.parametrize(
    ("situation", "status", "wanted"),
    [
        ("first", 590, Reading.FAILED),
        ("first", 201, OK),
        ("first", 591, PERHAPS),
        ("after_unsent", 590, Reading.FAILED),
        ("after_absent", 590, Reading.FAILED),
        ("after_ambiguous", 590, PERHAPS),
    ],
)
def test_carried_out_and_failed_speaks_of_its_own_attempt_only(situation: str, status: int, wanted: Reading) -> None:
    assert reading(action(failed=statuses(201, 590)), answer(status), situation) is wanted


def test_a_stranger_in_the_services_place_settles_nothing_of_an_earlier_attempt() -> None:
    assert reading(action(), replace(UNSENT, untrusted=True), "after_ambiguous") is Reading.UNSENT


def test_408_to_an_unfinished_message_proves_nothing_about_an_earlier_attempt() -> None:
    assert reading(action(), answer(408, request_complete=False), "after_ambiguous") is PERHAPS


ALL = statuses(409)
LISTS = ("exists", "in_flight", "refused_before_work", "rejected_any", "rejected_first")


@pytest.mark.parametrize(
    ("lists", "wanted"),
    [
        (LISTS, "it already exists at the service; a look-up must tell whose it is"),
        (LISTS[1:], "the service is still working on it"),
        (LISTS[2:], "the service refused before any work"),
        (LISTS[3:], "the service refused it with 409"),
        (LISTS[4:], "the service refused it with 409"),
        ((), "answer 409 does not say whether it was carried out"),
    ],
)
def test_the_declared_lists_speak_in_order(lists: tuple[str, ...], wanted: str) -> None:
    declared: dict[str, Any] = dict.fromkeys(lists, ALL)
    rules = action(**declared)

    assert judge(rules, tried("first"), 1, answer(409), {}).reason == wanted


@pytest.mark.parametrize(
    ("declared", "situation", "wanted"),
    [
        ("rejected_any", "first", NO),
        ("rejected_any", "after_unsent", NO),
        ("rejected_any", "after_absent", NO),
        ("rejected_any", "after_ambiguous", PERHAPS),
        ("rejected_first", "first", NO),
        ("rejected_first", "after_unsent", NO),
        ("rejected_first", "after_absent", PERHAPS),
        ("rejected_first", "after_ambiguous", PERHAPS),
        ("exists", "first", PERHAPS),
        ("in_flight", "first", PERHAPS),
        ("refused_before_work", "after_ambiguous", EARLY),
    ],
)
def test_a_declared_refusal_is_definite_only_where_nothing_else_can_have_run(
    declared: str, situation: str, wanted: Reading
) -> None:
    changes: dict[str, Any] = {declared: ALL}

    assert reading(action(**changes), answer(409), situation) is wanted


BODY_SAYS_NO = (Predicate(path="ok", equals=(False,)),)


@pytest.mark.parametrize(
    ("changes", "body", "wanted"),
    [
        ({"rejected_any": BODY_SAYS_NO}, b'{"ok": false}', NO),
        ({"rejected_any": BODY_SAYS_NO}, b'{"ok": true}', OK),
        ({"exists": BODY_SAYS_NO}, b'{"ok": false}', PERHAPS),
        ({"rate_limit": RateLimit(BODY_SAYS_NO)}, b'{"ok": false}', PERHAPS),
        ({"rejected_any": BODY_SAYS_NO}, b"<html>", PERHAPS),
        ({"rejected_any": BODY_SAYS_NO}, b"", OK),
        ({"rejected_any": (replace(BODY_SAYS_NO[0], statuses=((409, 409),)),)}, b"<html>", OK),
        ({}, b"<html>", OK),
        ({"success": Predicate(statuses=((200, 299),), path="ok")}, b'{"ok": true}', OK),
        ({"success": Predicate(statuses=((200, 299),), path="ok")}, b'{"ok": false}', PERHAPS),
        ({"success": Predicate(statuses=((200, 299),), path="ok")}, b"<html>", PERHAPS),
    ],
)
def test_a_200_whose_body_refuses_or_cannot_be_read_is_no_success(
    changes: dict[str, Any], body: bytes, wanted: Reading
) -> None:
    assert reading(action(**changes), answer(200, body)) is wanted


def test_a_body_cut_by_our_bound_is_no_success_where_it_could_have_refused() -> None:
    assert reading(action(rejected_any=BODY_SAYS_NO), answer(200, b'{"o', body_cut=True)) is PERHAPS


@pytest.mark.parametrize(
    ("success", "status", "wanted"),
    [
        (Predicate(path="ok"), 200, OK),
        (Predicate(path="ok"), 500, PERHAPS),
        (Predicate(path="ok"), 409, PERHAPS),
        (Predicate(path="ok", statuses=((409, 409),)), 409, OK),
        (Predicate(statuses=((200, 299),)), 202, PERHAPS),
        (Predicate(statuses=((202, 202),)), 202, OK),
        (Predicate(statuses=((200, 200), (202, 202))), 202, OK),
        (Predicate(), 202, PERHAPS),
    ],
)
def test_success_is_what_its_rule_meant(success: Predicate, status: int, wanted: Reading) -> None:
    assert reading(action(success=success), answer(status, b'{"ok": true}')) is wanted


@pytest.mark.parametrize(
    ("headers", "wanted", "handle"),
    [
        ([("Location", HANDLE)], Reading.ACCEPTED, HANDLE),
        ([("Location", "jobs/1")], Reading.ACCEPTED, HANDLE),
        ([], PERHAPS, None),
        ([("Location", "https://elsewhere.example.com/jobs/1")], PERHAPS, None),
    ],
)
def test_202_is_followed_on_the_services_own_origin_or_in_doubt(
    headers: list[tuple[str, str]], wanted: Reading, handle: str | None
) -> None:
    found = judge(action(accepted=ACCEPTED), tried("first"), 1, answer(202, b"", *headers), {})

    assert (found.reading, found.handle) == (wanted, handle)


@pytest.mark.parametrize(
    ("situation", "wanted"),
    [("first", NO), ("after_unsent", NO), ("after_ambiguous", PERHAPS), ("after_absent", PERHAPS)],
)
def test_a_declared_condition_that_failed_is_a_refusal_on_the_first_attempt_only(
    situation: str, wanted: Reading
) -> None:
    rules = action("PUT", reconcile=LOOK_UP, precondition=Precondition("If-Match", "{etag}"))

    assert reading(rules, answer(412), situation) is wanted


@pytest.mark.parametrize(
    ("changes", "status", "header", "wait"),
    [
        ({}, 503, ("Retry-After", "7"), 7.0),
        ({}, 500, ("Retry-After", "7"), 7.0),
        ({"in_flight": statuses(409)}, 409, ("Retry-After", "7"), 7.0),
        ({"refused_before_work": statuses(429)}, 429, ("Retry-After", "7"), 7.0),
        ({"rate_limit": RateLimit(statuses(429), wait_header="X-Wait")}, 429, ("X-Wait", "9"), 9.0),
        ({}, 303, ("Retry-After", "7"), None),
    ],
)
def test_the_wait_that_an_answer_names_goes_along(
    changes: dict[str, Any], status: int, header: tuple[str, str], wait: float | None
) -> None:
    assert judge(action(**changes), tried("first"), 1, answer(status, b"", header), {}).wait_seconds == wait


def test_the_same_evidence_always_gives_the_same_reading() -> None:
    rules, live = action(**SAME_KEY), tried("after_ambiguous")

    assert len({judge(rules, live, 2, answer(409), {}) for _ in range(5)}) == 1


def test_twins_look_alike_and_are_claimed_alike() -> None:
    # Whether the service had the effect before the cut is invisible from here, so nothing may depend on it.
    for shown in (TIMEOUT, answer(500), answer(201, b"{", **SHORT)):
        story = Story(action(reconcile=LOOK_UP)).send(shown)
        assert story.state is State.IN_DOUBT


def test_a_read_that_is_refused_while_an_earlier_one_is_open_ends_with_nothing_claimed_about_it() -> None:
    story = Story(read(), operation(effect="read")).send(TIMEOUT).send(answer(404))

    assert story.ending == ("failed", Executed.UNKNOWN.value, "answer")
    assert story.operation.failure is not None
    assert story.operation.failure.status == 404


def test_a_refusal_overrules_the_handle_in_its_own_head() -> None:
    story = Story(action(accepted=ACCEPTED)).tell(BEGIN, HeadSeen(1, HANDLE, None)).observe(answer(403))

    assert story.ending == ("failed", "no", "answer")
    assert story.operation.handle is None


def test_what_a_host_says_is_not_called_a_service() -> None:
    ran = answer(0, b'{"phase": "exited"}', ("Content-Type", "application/json"), ("Exited", "0"))
    runs = answer(0, b'{"phase": "running"}', ("Content-Type", "application/json"))

    assert judge(compiled(), tried("first"), 1, ran, {}).reason == "the host's own answer"
    assert judge(compiled(), tried("first"), 1, runs, {}).reason == "the host is still working on it"
    assert judge(action(), tried("first"), 1, answer(200), {}).reason == "the service's own answer"
