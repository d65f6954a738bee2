"""Requests are rendered exactly, and no argument can bend the shape that the action declares."""

from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.ids import format_id, outward
from gateway.core.placeholders import variables_of
from gateway.core.strictjson import Json
from gateway.core.template import Rendered, _check_shape, origin_of, render_request
from gateway.model.action import Bind, BindPlace, IdFormat, Precondition, RequestTemplate
from gateway.model.problem import BrokenInvariantError, Code, Problem

BASE = "https://api.example.com/v2/root"
OPERATION = format_id(bytes(range(16)))


def render(template: RequestTemplate, arguments: dict[str, Json] | None = None, **options: Any) -> Rendered:
    variables = variables_of(arguments or {}, operation_id=OPERATION, run="run_1", correlation_id="run_1")
    return render_request(template, variables, **({"base_url": BASE} | options))


def refused(template: RequestTemplate, arguments: dict[str, Json], **options: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        render(template, arguments, **options)
    return caught.value


def test_path_is_appended_to_the_base_path_and_never_resolved() -> None:
    assert render(RequestTemplate("GET", "/things/{id}"), {"id": "a b"}).url == f"{BASE}/things/a%20b"
    assert render(RequestTemplate("GET", "/x"), base_url=BASE + "/").url == f"{BASE}/x"


def test_path_values_are_percent_encoded_utf8() -> None:
    url = render(RequestTemplate("GET", "/t/{id}/{n}"), {"id": "ü?#&;=@:+~-._", "n": 7}).url
    assert url == f"{BASE}/t/%C3%BC%3F%23%26%3B%3D%40%3A%2B~-._/7"


BAD_PATH_VALUES = [
    "", ".", "..", "../x", "a/b", "/", "//evil.example", "\\", "a\\b", "%2e%2e", "%2E", "%", "a%2fb", "..%2f", "%00",
    "\x00", "a\nb", "a\rb", "\t", "\x7f", "\x85", "\u2028", "..\\", "./", "..;/x/", "a/../b", "%252e%252e", "a%0d%0ab",
    "http://evil.example/", "\x1b[31m",
]  # fmt: skip


@pytest.mark.parametrize("value", BAD_PATH_VALUES)
def test_path_payloads_are_refused_and_pointed_at(value: str) -> None:
    problem = refused(RequestTemplate("GET", "/things/{id}/state"), {"id": value})
    assert problem.code is Code.INVALID_INPUT
    assert problem.errors[0].pointer == "/id"
    assert len(value) < 3 or value not in str(problem.errors) + problem.detail + problem.guidance


@pytest.mark.parametrize("value", [None, 1.5, [], {}, ["a"]])
def test_path_takes_only_plain_values(value: Json) -> None:
    assert refused(RequestTemplate("GET", "/t/{id}"), {"id": value}).errors[0].pointer == "/id"


def test_absent_path_argument_is_refused_rather_than_dropped() -> None:
    assert refused(RequestTemplate("GET", "/t/{id}"), {}).errors[0].pointer == "/id"


def test_declared_opaque_value_travels_in_one_segment() -> None:
    template = RequestTemplate("GET", "/projects/{id}/issues", opaque=("id",))
    assert render(template, {"id": "group/project 50%"}).url == f"{BASE}/projects/group%2Fproject%2050%25/issues"


@pytest.mark.parametrize("value", ["..", "../x", "a/../b", "a/./b", "a//b", "/a", "%2e%2e", "a%2f..", "a\\..", "a/\n"])
def test_opaque_value_still_takes_no_steps(value: str) -> None:
    template = RequestTemplate("GET", "/projects/{id}", opaque=("id",))
    assert refused(template, {"id": value}).code is Code.INVALID_INPUT


@pytest.mark.parametrize(
    "path", ["/a/../b", "/a/%2e%2e/b", "/{id}{id}", "/a?b=c", "/a#b", "/a b", "@evil.example/", "/ä"]
)
def test_shape_is_checked_on_the_finished_url_whatever_the_template_says(path: str) -> None:
    with pytest.raises(Problem) as caught:
        render(RequestTemplate("GET", path), {"id": "."})
    assert caught.value.code in {Code.TARGET_REFUSED, Code.INVALID_INPUT}


@pytest.mark.parametrize(
    "url",
    ["https://a.example/v1/x/y", "https://a.example/v1", "https://b.example/v1/x", "http://a.example/v1/x",
     "https://a.example:444/v1/x", "https://u@a.example/v1/x", "https://a.example/v1/x?y", "https://a.example/v1/%2E."],
)  # fmt: skip
def test_an_address_of_another_shape_is_refused_whoever_made_it(url: str) -> None:
    _check_shape("https://a.example/v1/x", "https://a.example/v1", "/x")
    with pytest.raises(Problem) as caught:
        _check_shape(url, "https://a.example/v1", "/x")
    assert caught.value.code is Code.TARGET_REFUSED


@given(st.text(), st.text(), st.booleans())
@example("..", ".", True)
@example("a/../../b", "x", True)
def test_no_value_changes_origin_or_segments(left: str, right: str, opaque: bool) -> None:
    template = RequestTemplate("GET", "/x/{a}/y-{b}", opaque=("a", "b") if opaque else ())
    try:
        url = render(template, {"a": left, "b": right}).url
    except Problem:
        return
    pieces = urlsplit(url)
    assert (pieces.scheme, pieces.netloc, pieces.query, pieces.fragment) == ("https", "api.example.com", "", "")
    segments = pieces.path.split("/")
    assert len(segments) == 6
    assert segments[:4] == ["", "v2", "root", "x"]
    assert (unquote(segments[4]), unquote(segments[5])) == (left, f"y-{right}")


def test_query_values_are_encoded_repeated_and_dropped() -> None:
    template = RequestTemplate(
        "GET",
        "/t",
        query=(("a b", "{x}"), ("n", 5), ("f", True), ("gone", "{missing}"), ("null", "{nil}"), ("l", "{l}")),
    )
    url = render(template, {"x": "a&b=c d+ü\r\n", "nil": None, "l": ["p", 1.5]}).url
    assert url == f"{BASE}/t?a%20b=a%26b%3Dc%20d%2B%C3%BC%0D%0A&n=5&f=true&l=p&l=1.5"


def test_query_refuses_objects() -> None:
    assert refused(RequestTemplate("GET", "/t", query=(("a", "{x}"),)), {"x": {"a": 1}}).errors[0].pointer == "/x"


@given(st.dictionaries(st.sampled_from("abc"), st.text(), min_size=1))
def test_query_values_decode_to_what_was_given(arguments: dict[str, str]) -> None:
    template = RequestTemplate("GET", "/t", query=tuple((name, f"{{{name}}}") for name in arguments))
    query = urlsplit(render(template, dict(arguments)).url).query
    decoded = dict(pair.split("=", 1) for pair in query.split("&"))
    assert {name: unquote(text) for name, text in decoded.items()} == arguments


@pytest.mark.parametrize(
    "value",
    ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "ü", "\x7f", " a", "a ", "\ta", "a\n", "\u2028", "a\x0bb", "a\x85"],
)
def test_header_injection_is_refused_and_pointed_at(value: str) -> None:
    problem = refused(RequestTemplate("GET", "/t", headers=(("X-Note", "{x}"),)), {"x": value})
    assert problem.code is Code.INVALID_INPUT
    assert problem.errors[0].pointer == "/x"


def test_headers_are_filled_and_absent_ones_dropped() -> None:
    template = RequestTemplate(
        "GET", "/t", headers=(("X-Run", "{run}"), ("X-N", "{n}"), ("X-Gone", "{gone}"), ("X-Null", "{nil}"))
    )
    assert render(template, {"n": 3, "nil": None}).headers == (("X-Run", "run_1"), ("X-N", "3"))


@pytest.mark.parametrize(
    "headers",
    [
        (("Bad Name", "x"),),
        (("X:Y", "x"),),
        (("", "x"),),
        (("X-\r\n", "x"),),
        (("Host", "x"),),
        (("content-length", "1"),),
        (("Transfer-Encoding", "chunked"),),
        (("Authorization", "x"),),
        (("X-A", "1"), ("x-a", "2")),
    ],
)
def test_a_definition_that_slipped_through_with_a_bad_header_stops_the_program(
    headers: tuple[tuple[str, str], ...],
) -> None:
    with pytest.raises(BrokenInvariantError):
        render(RequestTemplate("GET", "/t", headers=headers))


def test_body_keeps_types_drops_absent_members_and_sets_its_type() -> None:
    body = {"s": "{s}", "n": "{n}", "o": "{o}", "t": "{s}@{n}", "gone": "{gone}", "k": [True, None], "esc": "{{s}}"}
    rendered = render(RequestTemplate("POST", "/t", body=body), {"s": "ü", "n": 1, "o": {"a": ["{s}"]}})
    assert orjson.loads(rendered.body) == {
        "s": "ü", "n": 1, "o": {"a": ["{s}"]}, "t": "ü@1", "k": [True, None], "esc": "{s}",
    }  # fmt: skip
    assert rendered.headers == (("Content-Type", "application/json"),)


def test_no_body_means_no_bytes_and_no_type() -> None:
    assert render(RequestTemplate("POST", "/t")).body == b""
    whole = RequestTemplate("POST", "/t", body="{payload}")
    assert (render(whole).body, render(whole).headers) == (b"", ())
    assert render(whole, {"payload": [1]}).body == b"[1]"


def test_given_content_type_is_kept() -> None:
    template = RequestTemplate("PATCH", "/t", headers=(("content-type", "application/merge-patch+json"),), body={})
    assert render(template).headers == (("content-type", "application/merge-patch+json"),)


@pytest.mark.parametrize("form", list(IdFormat))
def test_bind_puts_the_outward_value_where_it_is_declared(form: IdFormat) -> None:
    value = outward(OPERATION, form)
    template = RequestTemplate("POST", "/t", body={"a": 1})
    assert render(template, bind=Bind(BindPlace.HEADER, "Idempotency-Key", form)).headers[0] == (
        "Idempotency-Key",
        value,
    )
    assert render(template, bind=Bind(BindPlace.QUERY, "token", form)).url == f"{BASE}/t?token={value}"
    assert orjson.loads(render(template, bind=Bind(BindPlace.BODY, "key", form)).body) == {"a": 1, "key": value}
    assert orjson.loads(render(template, bind=Bind(BindPlace.BODY, "m.k", form)).body) == {"a": 1, "m": {"k": value}}
    assert OPERATION not in repr(render(template, bind=Bind(BindPlace.NONE)))


def test_bind_in_the_path_uses_the_placeholder() -> None:
    template = RequestTemplate("PUT", "/t/{operation_id}")
    assert render(template, bind=Bind(BindPlace.PATH)).url == f"{BASE}/t/{OPERATION}"


def test_bind_replaces_what_an_argument_put_in_its_place_and_leaves_the_argument_alone() -> None:
    payload: dict[str, Json] = {"key": "forged", "meta": {"op": "forged", "x": 1}}
    template = RequestTemplate("POST", "/t", body="{payload}")
    rendered = render(template, {"payload": payload}, bind=Bind(BindPlace.BODY, "meta.op"))
    assert orjson.loads(rendered.body)["meta"] == {"op": OPERATION, "x": 1}
    assert payload == {"key": "forged", "meta": {"op": "forged", "x": 1}}
    assert orjson.loads(render(template, bind=Bind(BindPlace.BODY, "key")).body) == {"key": OPERATION}


@pytest.mark.parametrize("payload", [[1], "text", 3, {"meta": [1]}, {"meta": "x"}])
def test_bind_without_a_place_in_the_body_is_refused(payload: Json) -> None:
    template = RequestTemplate("POST", "/t", body="{payload}")
    assert refused(template, {"payload": payload}, bind=Bind(BindPlace.BODY, "meta.op")).code is Code.INVALID_INPUT


def test_precondition_is_sent_and_never_left_out() -> None:
    template, condition = RequestTemplate("PUT", "/t"), Precondition("If-Match", "{etag}")
    assert render(template, {"etag": '"1"'}, precondition=condition).headers == (("If-Match", '"1"'),)
    assert refused(template, {}, precondition=condition).errors[0].pointer == "/etag"
    assert refused(template, {"etag": ""}, precondition=condition).errors[0].pointer == "/etag"
    assert refused(template, {"etag": "a\r\nb"}, precondition=condition).errors[0].pointer == "/etag"


def test_rendering_twice_gives_the_same_bytes() -> None:
    template = RequestTemplate("POST", "/t/{a}", query=(("q", "{b}"),), body={"x": "{b}", "y": "{a}"})
    arguments: dict[str, Json] = {"a": "1", "b": {"z": 1, "a": [1.5]}} | {"b": "v"}
    assert render(template, arguments) == render(template, arguments)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://A.example:443/x", "https://a.example"),
        ("https://a.example/x", "https://a.example"),
        ("http://a.example:80", "http://a.example"),
        ("http://a.example:443", "http://a.example:443"),
        ("http://[::1]:8080/x?y", "http://[::1]:8080"),
        ("ssh://deploy@Web-1:22", "ssh://web-1"),
        ("ssh://deploy@[::1]:2222", "ssh://[::1]:2222"),
    ],
)
def test_origin_is_normalised(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url",
    ["ftp://a", "https://", "https://u@a", "ssh://", "ssh://u:p@a", "https://a:99999", "//a", "a", "https://[::1"],
)
def test_what_has_no_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not an http|[Pp]ort|IPv6|password"):
        origin_of(url)
