"""Whatever a service sends, the agent gets valid JSON of bounded size without a secret, and the outcome stands."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import Framing, Observation, Phase
from gateway.catalog import arguments
from gateway.core.redact import MASKED, Mask
from gateway.engine import output
from gateway.engine.output import Shaping, mask_body, shape, shape_value
from gateway.model.action import Action, Effect, Output, Predicate, RequestTemplate, Service
from tests.canary import Canaries

NO_MASK = Mask()
SECRET = "s3cr3t-Tok/en+value=="
MASK = Mask([SECRET.encode()])
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def action(digest: str = "d", **parts: Any) -> Action:
    return Action(
        name="deploys.create", description="", effect=Effect.IRREVERSIBLE, digest=digest + repr(sorted(parts.items())),
        service=Service("deploys", "https://deploys.example"), request=RequestTemplate("POST", "/"), input_schema={},
        success=Predicate(), output=Output(**parts),
    )  # fmt: skip


def shaped(body: bytes, content_type: str | None = "application/json", mask: Mask = MASK, **parts: Any) -> Any:
    return json.loads(shape(action(**parts), body, content_type, mask).json)


def text_of(text: str, size: int, **more: bool) -> dict[str, object]:
    return {"truncated": False, "bytes": size, "text": text, **more}


JSON = {"id": 1, "state": "done", "token": "t", "deep": [{"Token": [1], "x": "y"}]}
BODY = json.dumps(JSON).encode()


def test_json_passes_as_it_is() -> None:
    assert shaped(BODY) == JSON
    assert shaped(b"") is None
    assert shaped(b" [1, 2.5, true, null] ") == [1, 2.5, True, None]
    assert shaped(b'{"n": 123456789012345678901234567890}') == {"n": 123456789012345678901234567890}
    assert shaped("\ufeff{}".encode()) == {}


def test_select_is_an_allow_list() -> None:
    assert shaped(BODY, select="{id: id, state: state}") == {"id": 1, "state": "done"}
    assert shaped(BODY, select="nothing") is None
    assert shaped(BODY, select="to_number(state)") is None
    assert shaped(BODY, select="length(id)") is None
    assert shaped(b"", select="id") is None


def test_fields_are_masked_by_name_before_and_after_selecting() -> None:
    assert shaped(BODY, redact=("token",)) == JSON | {"token": MASKED, "deep": [{"Token": MASKED, "x": "y"}]}
    assert shaped(BODY, redact=("token",), select="{renamed: token}") == {"renamed": MASKED}
    assert shaped(BODY, redact=("secret",), select="{secret: state}") == {"secret": MASKED}


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"plain words", "text/plain", "plain words"),
        (b"<p>no</p>", None, "<p>no</p>"),
        (b'{"a": 1, "a": 2}', None, '{"a": 1, "a": 2}'),
        (b"[NaN]", None, "[NaN]"),
        (b"[1e999]", None, "[1e999]"),
        (b'["\\ud800"]', None, '["\\ud800"]'),
        (b"[" * 300, None, "[" * 300),
        (b"\xff\x00\x01", None, "\ufffd\x01"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("é".encode("cp1252"), 'text/html; Charset="windows-1252"', "é"),
        ("é€".encode("utf-16"), "text/plain", "é€"),
        (b"\xed\xa0\x80", None, "\ufffd\ufffd\ufffd"),
        ("é".encode(), "text/plain; charset=no-such-thing", "é"),
    ],
)
def test_what_is_not_json_is_text(body: bytes, content_type: str | None, text: str) -> None:
    assert shaped(body, content_type) == text_of(text, len(body))


@pytest.mark.parametrize("parts", [{"select": "id"}, {"redact": ("token",)}])
def test_text_is_withheld_where_the_owner_chose_fields(parts: dict[str, Any]) -> None:
    body = b'{"id": 1, "token": "a cut body'

    assert shaped(body, **parts) == text_of("", len(body), withheld=True)


def test_a_wide_or_binary_spelling_of_a_secret_is_masked_too() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32-le"):
        assert SECRET not in shaped(f"a {SECRET} b".encode(encoding), None)["text"]


@pytest.mark.parametrize("limit", [1, 50, 60, 100, 1000])
@pytest.mark.parametrize(
    "body", [json.dumps(["x" * 9] * 300).encode(), b"\x01" * 3000, b'"\\' * 1500, "é\U0001f600".encode() * 500]
)
def test_what_is_too_long_is_cut_with_a_note(body: bytes, limit: int) -> None:
    result = shape(action(max_bytes=limit), body, None, NO_MASK).json
    value = json.loads(result)

    assert value["truncated"] is True
    assert isinstance(value["text"], str)
    assert len(result) <= max(limit, len(json.dumps(value | {"text": ""})))
    if limit >= 100:
        assert len(result) > limit - 12  # as much as fits
    assert value["bytes"] >= len(value["text"])


def test_what_just_fits_is_whole() -> None:
    body = b'"' + b"x" * 98 + b'"'
    assert shaped(body, max_bytes=100) == "x" * 98
    assert shaped(body, max_bytes=99)["truncated"] is True


@pytest.mark.parametrize(
    ("body", "parts", "valid"),
    [
        (b'{"id": 1}', {"schema": SCHEMA}, True),
        (b'{"id": "1"}', {"schema": SCHEMA}, False),
        (b"[]", {"schema": SCHEMA}, False),
        (b"not json", {"schema": SCHEMA}, False),
        (b"", {"schema": SCHEMA}, False),
        (b"", {"schema": {"type": "null"}}, True),
        (b'{"id": 1}', {}, None),
        (b"not json", {}, None),
        (b'{"a": {"id": 1}}', {"schema": SCHEMA, "select": "a"}, True),
        (b'{"id": 1}', {"schema": SCHEMA, "redact": ("id",)}, True),
        (b'{"id": 1}', {"schema": SCHEMA, "max_bytes": 1}, True),
        (b'{"id": 123456789012345678901234567890}', {"schema": SCHEMA}, True),
    ],
)
def test_the_schema_is_held_against_what_the_service_sent(
    body: bytes, parts: dict[str, Any], valid: bool | None
) -> None:
    assert shape(action(**parts), body, None, NO_MASK).valid is valid


def test_a_schema_is_compiled_once_and_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []

    def compile_schema(schema: object) -> Any:
        compiled.append(schema)
        return real(schema)

    real = arguments.compile_schema
    monkeypatch.setattr(output, "compile_schema", compile_schema)
    monkeypatch.setattr(output, "_validators", {})
    monkeypatch.setattr(output, "_SCHEMAS_MAX", 2)
    for digest in ("a", "a", "b", "c", "c", "a"):
        assert shape(action(digest, schema=SCHEMA), b'{"id": 1}', None, NO_MASK).valid
    assert len(compiled) == 4


@pytest.mark.parametrize(
    "parts",
    [{"schema": {"$ref": "https://elsewhere.example/s"}}, {"schema": {"type": "nonsense"}}, {"max_bytes": None}],
)
def test_a_broken_definition_withholds_the_answer_and_never_raises(
    parts: dict[str, Any], capsys: pytest.CaptureFixture[str], canaries: Canaries
) -> None:
    body = json.dumps({"said": canaries.mint()}).encode()

    result = shape(action(**parts), body, None, NO_MASK)

    assert json.loads(result.json) == text_of("", len(body), withheld=True)
    canaries.watch_text(capsys.readouterr().out + result.json.decode())


class Trap:
    def __iter__(self) -> None:
        raise RuntimeError


def test_a_value_that_is_not_json_withholds_the_answer() -> None:
    assert json.loads(shape_value(action(), Trap(), NO_MASK).json) == text_of("", 0, withheld=True)
    assert json.loads(shape_value(action(select="id"), {"id": SECRET}, MASK).json) == MASKED


BODIES = st.one_of(
    st.binary(max_size=300),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=60).map(lambda data: b'{"a":"' + data + SECRET.encode() + b'"}'),
)
OUTPUTS = st.fixed_dictionaries(
    {"max_bytes": st.integers(1, 400)},
    optional={
        "select": st.sampled_from(["a", "@", "to_string(@)", "keys(@)", "join('', @)", "[a, b]", "not (", "sum(@)"]),
        "redact": st.just(("a",)),
        "schema": st.sampled_from([SCHEMA, True, {"type": "string"}]),
    },
)


@given(body=BODIES, parts=OUTPUTS, content_type=st.none() | st.text(max_size=30) | st.just("a; charset=utf-16"))
def test_no_answer_breaks_the_promise(body: bytes, parts: dict[str, Any], content_type: str | None) -> None:
    result = shape(action(**parts), body, content_type, MASK)

    value = json.loads(result.json, parse_constant=pytest.fail)
    assert len(result.json) <= max(parts["max_bytes"], 120)
    assert SECRET.encode() not in result.json
    assert SECRET not in json.dumps(value, ensure_ascii=False).replace("\\/", "/")
    assert (result.valid is None) is (parts.get("schema") is None)


def observed(body: bytes = b"", **parts: Any) -> Observation:
    fields: dict[str, Any] = {"summary": "answered", "body_complete": True} | parts
    return Observation(
        phase=Phase.RESPONSE_COMPLETE, nothing_left=False, started_ms=0, ended_ms=1, closed_boot_ms=1,
        status=200, framing=Framing.LENGTH, body=body, **fields,
    )  # fmt: skip


def test_an_observation_without_secrets_is_left_as_it_is() -> None:
    seen = observed(BODY, headers=(("X-A", "1"),), peer="127.0.0.1", contradictions=("x",))

    assert Shaping(lambda: MASK).mask(seen) is seen


def test_every_text_of_an_observation_is_masked(canaries: Canaries) -> None:
    secret = canaries.mint()
    shaping = Shaping(lambda: Mask([secret.encode()]))
    seen = observed(
        json.dumps({"echo": secret}).encode(), summary=f"a {secret}", headers=(("X-Echo", secret), (secret, "x")),
        error_class=secret, error_cause=f"{secret}!", peer=secret, tls=secret, contradictions=(secret,),
    )  # fmt: skip

    masked = shaping.mask(seen)

    canaries.watch_text(repr(masked) + masked.body.decode())
    assert masked.headers[0] == ("X-Echo", MASKED)
    assert replace(masked, summary=seen.summary).status == 200
    assert json.loads(shaping.shape(action(), seen.body, None).json) == {"echo": MASKED}
    assert json.loads(shaping.shape_value(action(), [secret]).json) == [MASKED]


@pytest.mark.parametrize("parts", [{"body_cut": True, "body_complete": False}, {"body_complete": False}])
def test_a_secret_cut_off_with_the_body_is_masked(canaries: Canaries, parts: dict[str, Any]) -> None:
    secret = canaries.mint()
    cut = f'{{"echo": "{secret[:-3]}'.encode()

    masked = Shaping(lambda: Mask([secret.encode()])).mask(observed(cut, **parts))

    canaries.watch_text(masked.body)
    assert masked.body == b'{"echo": "[masked]'


@pytest.mark.parametrize("pin", [4711471147, 12345678.5])
def test_a_secret_that_is_a_number_leaves_json_behind(pin: float) -> None:
    body = json.dumps({"pin": pin, "state": "done"}).encode()

    assert json.loads(mask_body(body, Mask([str(pin).encode()]))) == {"pin": MASKED, "state": "done"}


@given(seed=st.integers(), size=st.integers(0, 3000))
def test_noise_is_text(seed: int, size: int) -> None:
    body = b"\xff" + random.Random(seed).randbytes(size)

    assert shaped(body)["bytes"] == len(body)
