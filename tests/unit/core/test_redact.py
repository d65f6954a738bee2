"""Masking by value finds a secret in every form it is likely to come back in; masking by name reaches any depth."""

import base64
import html
import json
import random
import timeit
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.core.decoded import ALWAYS_TELLING, Reading, readings, telling_escapes, unfinished
from gateway.core.redact import MASKED, SHORT_BYTES, Mask, mask_fields
from tests.canary import Canaries
from tests.canary_search import forms

LONG_TEXT = st.text(st.characters(codec="utf-8"), min_size=SHORT_BYTES, max_size=60)
TOKEN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=SHORT_BYTES, max_size=60)
SURROUNDINGS = st.binary(max_size=40)


def unicode_escapes(text: str, choose: random.Random) -> str:
    """Each character as itself, or as an escape with digits in either case, at random."""
    units = []
    for char in text:
        if char not in '"\\' and char >= " " and choose.random() < 0.5:
            units.append(char)
            continue
        raw = char.encode("utf-16-be")
        for start in range(0, len(raw), 2):
            unit = raw[start : start + 2].hex()
            units.append("\\u" + (unit.upper() if choose.random() < 0.5 else unit))
    return "".join(units)


def percent(text: str, choose: random.Random) -> str:
    pieces = []
    for byte in text.encode():
        plain = 0x21 <= byte < 0x7F and byte != 0x25 and choose.random() < 0.5
        pieces.append(chr(byte) if plain else f"%{byte:02x}" if choose.random() < 0.5 else f"%{byte:02X}")
    return "".join(pieces)


def b64(text: str, choose: random.Random) -> str:
    """Somewhere inside a longer base64 text."""
    whole = choose.randbytes(choose.randrange(4)) + text.encode() + choose.randbytes(choose.randrange(4))
    encode = choose.choice([base64.b64encode, base64.urlsafe_b64encode])
    return encode(whole).decode()


Encode = Callable[[str, random.Random], str]
ENCODINGS: dict[str, Encode] = {
    "raw": lambda text, _: text,
    "JSON": lambda text, _: json.dumps(text)[1:-1],
    "JSON, UTF-8": lambda text, _: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON, slashes escaped": lambda text, _: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON, some escaped": unicode_escapes,
    "JSON in JSON": lambda text, _: json.dumps(json.dumps(text))[1:-1],
    "percent, all": lambda text, _: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent, none safe": lambda text, _: quote(text, safe=""),
    "percent, some": percent,
    "percent twice": lambda text, _: quote(quote(text, safe=""), safe=""),
    "percent in JSON": lambda text, _: json.dumps(quote(text))[1:-1],
    "form": lambda text, _: quote_plus(text),
    "HTML": lambda text, _: html.escape(text),
    "hex": lambda text, _: text.encode().hex(),
    "HEX": lambda text, _: text.encode().hex().upper(),
    "base64": b64,
    "base64 in JSON": lambda text, choose: json.dumps(b64(text, choose)).replace("/", "\\/"),
    "base64 in a URL": lambda text, choose: quote(b64(text, choose), safe=""),
}


def core_of(encoding: str, text: str, encoded: str) -> list[bytes]:
    """What must not be left of the encoded form: all of it, or for base64 what depends on the secret alone."""
    if not encoding.startswith("base64"):
        return [encoded.encode()]
    return [form for form, name in forms(text).items() if "base64" in name]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=LONG_TEXT | TOKEN, before=SURROUNDINGS, after=SURROUNDINGS, seed=st.randoms(use_true_random=False))
def test_no_form_of_a_secret_survives(
    encoding: str, text: str, before: bytes, after: bytes, seed: random.Random
) -> None:
    encoded = ENCODINGS[encoding](text, seed)
    # An open escape before it, or digits after it, would make it mean something else.
    data = before + b" " + encoded.encode() + b" " + after

    masked = Mask([text.encode()]).apply(data)

    assert masked is not data
    for core in core_of(encoding, text, encoded):
        assert core not in masked
    assert text.encode() not in masked


@given(data=st.binary(max_size=200), secrets=st.lists(st.binary(min_size=SHORT_BYTES, max_size=40), max_size=5))
def test_the_result_never_holds_a_secret_and_clean_data_is_left_alone(data: bytes, secrets: list[bytes]) -> None:
    mask = Mask(secrets)

    masked = mask.apply(data)

    assert not mask.finds(masked)
    assert not any(secret in masked for secret in secrets)
    assert (masked is data) is not mask.finds(data)


@given(
    pieces=st.lists(st.sampled_from([b"ab", b"ba", b"abab", b"[masked]", b"d]ab", b"%61", b"\\u0062"]), max_size=30),
    secrets=st.lists(st.sampled_from([b"abababab", b"babababa", b"ed]ababa", b"[masked]", b"masked]a"]), max_size=4),
)
def test_secrets_that_overlap_or_look_like_the_mask_are_masked_too(pieces: list[bytes], secrets: list[bytes]) -> None:
    masked = Mask(secrets).apply(b"".join(pieces))

    assert not any(secret in masked for secret in secrets)


@pytest.mark.parametrize("size", [*range(SHORT_BYTES, 41), 63, 64, 71, 72, 80, 200])
def test_a_secret_of_any_length_is_found_at_any_place(size: int) -> None:
    secret = random.Random(size).randbytes(size)
    mask = Mask([secret])

    for start in range(70):
        assert mask.apply(b"x" * start + secret) == b"x" * start + MASKED.encode()
        assert mask.apply(secret + b"x" * start) == MASKED.encode() + b"x" * start


@given(text=TOKEN, keep=st.integers(4, 59), before=SURROUNDINGS, way=st.sampled_from(["raw", "percent, all", "hex"]))
def test_a_secret_whose_end_was_cut_off_is_masked_to_the_end(text: str, keep: int, before: bytes, way: str) -> None:
    assume(keep < len(text))
    whole = ENCODINGS[way](text, random.Random(0))
    cut = whole[: len(whole) * keep // len(text)]
    mask = Mask([text.encode()])

    masked = mask.apply(before + b" " + cut.encode(), cut=True)

    assert cut.encode() not in masked


def test_a_cut_inside_an_escape_hides_nothing() -> None:
    secret = b"s3cr3t+token/value"

    for tail in (b"s3cr3t", b"s3cr3t%", b"s3cr3t%2", b"s3cr3t\\", b"s3cr3t\\u00", b"s3cr3t&#4"):
        assert Mask([secret]).apply(b"value=" + tail, cut=True) == b"value=[masked]"
    assert Mask([secret]).apply(b"value=s3c", cut=True) == b"value=s3c"
    assert Mask([secret]).apply(b"value=s3cr3t and on", cut=True) == b"value=s3cr3t and on"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"hunter2", b"[masked]"),
        (b'{"pw": "hunter2"}', b'{"pw": "[masked]"}'),
        (b"ann:hunter2@host", b"ann:[masked]@host"),
        (b"hunter22 xhunter2", b"hunter22 xhunter2"),
        (b"pw=hunter%32", b"pw=[masked]"),
        (b"a cat", b"a cat"),
    ],
)
def test_a_short_secret_is_masked_only_where_it_stands_alone(data: bytes, expected: bytes) -> None:
    assert Mask([b"hunter2", b"", b"at"]).apply(data) == expected


def test_own_keys_are_known_by_their_form() -> None:
    secret = "Ab-_" * 10 + "xyz"
    text = f"Authorization: Bearer gwk_0123456789_{secret}!"

    assert Mask().apply_text(text) == "Authorization: Bearer gwk_0123456789_[masked]!"


def test_text_and_values_keep_their_shape(canaries: Canaries) -> None:
    secret, pin = canaries.mint(awkward=True), 4711_4711_4711
    mask = Mask([secret.encode(), str(pin).encode()])
    value = {"a": [1, True, None, 1.5, f"x{secret}y"], secret: {"pin": pin, "\ud800": "\udfff"}}

    masked = mask.apply_json(value)

    assert masked == {"a": [1, True, None, 1.5, f"x{MASKED}y"], MASKED: {"pin": MASKED, "\ud800": "\udfff"}}
    canaries.watch_text(json.dumps(masked), "masked JSON")
    canaries.watch_text(mask.apply(json.dumps(value).encode()), "masked bytes")
    canaries.watch_text(repr(mask), "the mask itself")


def test_a_secret_of_bytes_that_are_no_text_leaves_text_readable() -> None:
    assert Mask([b"\xa9abcdefgh"]).apply_text("éabcdefgh") == f"\ufffd{MASKED}"
    assert Mask([b"abcdefgh"]).apply_text("\ud800abcdefgh") == f"\ud800{MASKED}"


@given(data=st.binary(max_size=60) | st.text('\\u%0d8"&#;/', max_size=60).map(str.encode), values=st.lists(st.binary()))
@example(b"\\\\u0041", [])
@example(b"%2541%", [])
@example(b"\\ud83d\\ude00\\ud83d", [])
def test_every_reading_leads_back_to_where_its_bytes_stood(data: bytes, values: list[bytes]) -> None:
    for reading in readings(data, telling_escapes(values)):
        size = len(reading.data)
        assert reading.origin([(0, size)]) == [(0, len(data))] or not size
        ends = [reading.origin([(index, index + 1)])[0] for index in range(size)]
        assert all(0 <= start < end <= len(data) for start, end in ends)
        assert ends == sorted(ends)
        if reading.parent is None:
            assert ends == [(index, index + 1) for index in range(size)]
        assert isinstance(reading, Reading)


def test_only_escapes_that_can_hide_a_secret_are_undone() -> None:
    assert telling_escapes([b"plain"]) == ALWAYS_TELLING
    assert set(telling_escapes([b'a"b', b"c\nd"])) == {*ALWAYS_TELLING, b'\\"', b"\\n"}
    assert unfinished(b"abc%4") == 2
    assert unfinished(b"abc") == 0


@pytest.mark.parametrize(
    ("names", "value", "expected"),
    [
        (["token"], {"a": [{"Token": 1, "tokens": 2}]}, {"a": [{"Token": MASKED, "tokens": 2}]}),
        (["token"], {"token": {"deep": ["x"]}}, {"token": MASKED}),
        (["a", "b"], [{"a": None}, {"b": []}], [{"a": MASKED}, {"b": MASKED}]),
        ([], {"token": "x"}, {"token": "x"}),
        (["token"], "token", "token"),
    ],
)
def test_fields_are_masked_by_name_at_any_depth(names: list[str], value: object, expected: object) -> None:
    assert mask_fields(value, names) == expected


def test_a_clean_kilobyte_costs_microseconds() -> None:
    # A generous bound (an alternation of all forms takes a hundred times as long): a busy machine is no finding.
    choose = random.Random(1)
    mask = Mask(base64.urlsafe_b64encode(choose.randbytes(32)) for _ in range(20))
    body = json.dumps({"id": "dep_1", "state": "succeeded", "note": "all is well " * 90}).encode()[:1024]

    best = min(timeit.repeat(lambda: mask.apply(body), number=100, repeat=20)) / 100

    assert best < 50e-6
