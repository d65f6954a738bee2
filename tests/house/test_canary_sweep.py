"""The canary sweep finds a leaked secret in every form, and a find fails the test or the session."""

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.canary import Canaries, Sweep
from tests.canary_search import fragments, patterns_for, search, search_file

_Encoder = Callable[[bytes], bytes]


def _urlsafe(secret: bytes) -> bytes:
    return base64.urlsafe_b64encode(secret)


FORMS: dict[str, _Encoder] = {
    "raw": lambda s: s,
    "base64": base64.b64encode,
    "base64, one byte before": lambda s: base64.b64encode(b":" + s),
    "base64, two bytes before": lambda s: base64.b64encode(b"u:" + s + b"!"),
    "base64 of basic credentials": lambda s: base64.b64encode(b"deploy-user:" + s),
    "base64 in lines": lambda s: base64.encodebytes(b"x" * 40 + s),
    "URL-safe base64": _urlsafe,
    "URL-safe base64, one byte before": lambda s: _urlsafe(b"?" + s),
    "URL-safe base64, two bytes before": lambda s: _urlsafe(b"??" + s),
    "URL-encoded": lambda s: quote(s, safe="").encode(),
    "URL-encoded as a form": lambda s: quote_plus(s).encode(),
    "URL-encoded, small letters": lambda s: b"".join(b"%%%02x" % byte for byte in s),
    "URL-encoded twice": lambda s: quote(quote(s, safe=""), safe="").encode(),
    "JSON": lambda s: json.dumps(s.decode()).encode(),
    "JSON, not ASCII": lambda s: json.dumps(s.decode(), ensure_ascii=False).encode(),
    "JSON, slashes escaped": lambda s: json.dumps(s.decode()).replace("/", "\\/").encode(),
    "hex": lambda s: s.hex().encode(),
    "hex, capitals": lambda s: s.hex().upper().encode(),
    "gzip": lambda s: gzip.compress(b"before " * 99 + s + b" after"),
    "gzip, torn": lambda s: gzip.compress(s * 9)[:-6],
    "gzip inside other bytes": lambda s: b"\x1f\x8b\x08 no" + gzip.compress(s) + b"more",
    "gzip of base64": lambda s: gzip.compress(base64.b64encode(s)),
    "gzip of gzip": lambda s: gzip.compress(gzip.compress(s)),
    "zlib": zlib.compress,
    "base64 of gzip": lambda s: base64.b64encode(gzip.compress(s)),
    "split across HTTP chunks": lambda s: b"5\r\n" + s[:5] + b"\r\n6\r\n" + s[5:11] + b"\r\n15\r\n" + s[11:] + b"\r\n",
    "split across event lines": lambda s: s[:5] + b"\ndata: " + s[5:20] + b"\ndata: " + s[20:],
    "first half only": lambda s: s[:19],
    "second half only": lambda s: s[-19:],
    "cut by a page border": lambda s: s[:13] + b"\0" * 4 + s[13:],
}


def _noise(around: bytes) -> bytes:
    return b"GET /status HTTP/1.1\r\nhost: [::1]\r\n\r\n" + around + b"\x78\x9c\x00 and the rest"


def _hits(data: bytes, sweep: Sweep) -> list[str]:
    return [str(hit) for hit in search(data, sweep.family_patterns(), "a text")]


@pytest.mark.parametrize("awkward", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_every_form(form: str, awkward: bool) -> None:
    sweep = Sweep()
    secret = Canaries(sweep).mint(awkward=awkward)

    assert _hits(_noise(FORMS[form](secret.encode())), sweep)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_minted_by_the_product_is_found_in_every_form(form: str) -> None:
    secret = "gwk_Zr7Qm2Vt9Xb4Lk8Pw3Ns6Hd1Jf5Gc0Ya"
    patterns = patterns_for({"a key": secret})

    assert list(search(_noise(FORMS[form](secret.encode())), patterns, "a text"))


@pytest.mark.parametrize("form", FORMS)
def test_another_secret_in_the_same_form_is_not_a_hit(form: str) -> None:
    stranger = Canaries(Sweep()).mint()

    assert not _hits(_noise(FORMS[form](stranger.encode())), Sweep())


def test_every_encoding_differs_from_the_raw_form() -> None:
    for awkward in (False, True):
        raw = Canaries(Sweep()).mint(awkward=awkward)
        assert quote(raw, safe="") != raw
        assert len(raw) == 32


def test_a_hit_never_shows_the_secret() -> None:
    sweep = Sweep()
    secret = Canaries(sweep).mint()

    for text in _hits(secret.encode(), sweep):
        assert not any(fragment in text for fragment in fragments(secret))


def test_a_secret_too_short_to_search_for_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 12"):
        fragments("short")


def test_a_secret_across_the_border_of_two_windows_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.canary_search.WINDOW_BYTES", 1000)
    monkeypatch.setattr("tests.canary_search.OVERLAP_BYTES", 100)
    sweep = Sweep()
    secret = Canaries(sweep).mint()
    file = tmp_path / "big"
    file.write_bytes(b"." * 1990 + secret.encode() + b"." * 1990)

    assert list(search_file(file, sweep.family_patterns()))


def test_a_secret_in_a_file_name_is_found(tmp_path: Path) -> None:
    sweep = Sweep()
    file = tmp_path / f"{quote(Canaries(sweep).mint(), safe='')}.log"
    file.write_bytes(b"")

    assert list(search_file(file, sweep.family_patterns()))


def test_a_folder_that_is_gone_counts_as_a_finding(tmp_path: Path) -> None:
    mine = Canaries(Sweep())
    mine.watch_folder(tmp_path / "gone")

    assert mine.check() == [f"{tmp_path / 'gone'} is gone: nothing was searched"]


def test_what_is_written_after_the_test_is_found_at_the_end_of_the_session(tmp_path: Path) -> None:
    sweep = Sweep()
    mine = Canaries(sweep)
    secret = mine.mint()
    (tmp_path / "early").write_text("nothing")
    mine.watch_folder(tmp_path)
    assert mine.check() == []

    (tmp_path / "early").write_text(secret)
    sweep.finish()

    assert any("early" in hit for hit in sweep.summary()["hits"])


def test_a_key_of_one_test_is_looked_for_in_what_another_watched(tmp_path: Path) -> None:
    sweep = Sweep()
    one, other = Canaries(sweep), Canaries(sweep)
    one.watch_text("log: gwk_Zr7Qm2Vt9Xb4Lk8Pw3Ns6Hd1Jf5Gc0Ya")
    other.watch_secret("a key", "gwk_Zr7Qm2Vt9Xb4Lk8Pw3Ns6Hd1Jf5Gc0Ya")
    assert one.check() == []
    assert other.check() == []

    sweep.finish()

    assert "a key #1 as raw in a text at byte 5" in sweep.summary()["hits"]


LEAK_WITHIN = """
def test_leaks(canary_secret, watch_text):
    watch_text("authorization: Bearer " + canary_secret)
"""
LEAK_LATER = """
import pytest

@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    secret = []
    yield folder, secret
    (folder / "log").write_text(secret[0])

def test_passes(server, canary_secret, watch_folder):
    folder, secret = server
    secret.append(canary_secret)
    watch_folder(folder)
"""
CLEAN = """
def test_passes(canary_secret, watch_text):
    watch_text("nothing to see")
"""


@pytest.fixture(autouse=True)
def _few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _run(pytester: pytest.Pytester, body: str, *args: str) -> pytest.RunResult:
    root = Path(__file__).parents[2]
    pytester.makeini(f"[pytest]\npythonpath = {root}\n")
    pytester.makeconftest('pytest_plugins = ["tests.canary"]')
    pytester.makepyfile(body)
    return pytester.runpytest_subprocess(*args)


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_a_leak_fails_its_test(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = _run(pytester, LEAK_WITHIN, *workers)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*canary sweep: a canary's*end as raw in a text*"])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_a_late_leak_fails_the_session_though_every_test_passed(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = _run(pytester, LEAK_LATER, *workers)

    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*SECRET LEAKED: a canary's*end as raw in *log*"])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_without_a_leak_the_session_says_what_was_searched(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = _run(pytester, CLEAN, *workers)

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["canary sweep: 1 canaries, 1 artefacts, * MB searched, 0 found"])
