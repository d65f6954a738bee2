"""The guards around every test: loopback only, and no skipped test where skips are forbidden."""

import signal
import socket
from pathlib import Path

import pytest

from tests.loopback import NotLoopbackError, is_loopback, may_look_up


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1", "::1%lo", "::ffff:127.0.0.1", "localhost"])
def test_loopback_is_known_in_every_spelling(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "a.example"])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_only_names_need_a_name_server() -> None:
    assert may_look_up("203.0.113.7")
    assert may_look_up("localhost")
    assert not may_look_up("service.example")


def test_every_way_off_loopback_is_refused(expected_violations: list[str]) -> None:
    for kind, host in ((socket.AF_INET, "203.0.113.7"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(kind, socket.SOCK_STREAM) as stream, socket.socket(kind, socket.SOCK_DGRAM) as datagram:
            with pytest.raises(NotLoopbackError):
                stream.connect((host, 9))
            with pytest.raises(NotLoopbackError):
                stream.connect_ex((host, 9))
            with pytest.raises(NotLoopbackError):
                stream.bind(("", 0))
            with pytest.raises(NotLoopbackError):
                datagram.sendto(b"x", (host, 9))
            with pytest.raises(NotLoopbackError):
                datagram.sendmsg([b"x"], [], 0, (host, 9))
    with pytest.raises(NotLoopbackError):
        socket.getaddrinfo("service.example", 443)
    with pytest.raises(NotLoopbackError):
        socket.gethostbyname("service.example")


def test_loopback_and_unix_sockets_work(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "s"))


@pytest.fixture(autouse=True)
def _few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _run(pytester: pytest.Pytester, plugin: str, body: str, *args: str) -> pytest.RunResult:
    root = Path(__file__).parents[2]
    pytester.makeini(f"[pytest]\npythonpath = {root}\n")
    pytester.makeconftest(f'pytest_plugins = ["{plugin}"]')
    pytester.makepyfile(body)
    return pytester.runpytest_subprocess("-p", "pytest_randomly", *args)


def test_a_test_that_swallows_the_refusal_fails_all_the_same(pytester: pytest.Pytester) -> None:
    body = """
    import socket

    def test_swallows():
        try:
            socket.create_connection(("203.0.113.7", 9), timeout=1)
        except OSError:
            pass
    """
    result = _run(pytester, "tests.loopback", body)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*socket.connect to '203.0.113.7': tests stay on loopback*"])


SKIPS = """
import pytest

def test_skips():
    pytest.skip("no server here")

@pytest.mark.skip(reason="later")
def test_marked(): ...

@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    raise ValueError
"""


def test_a_skip_is_a_skip_for_a_person(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI_NO_SKIPS", raising=False)

    _run(pytester, "tests.strict_run", SKIPS).assert_outcomes(skipped=2, xfailed=1)


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_a_skip_fails_where_skips_are_forbidden(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CI_NO_SKIPS", "1")

    result = _run(pytester, "tests.strict_run", SKIPS, *workers)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes().keys() <= {"failed", "errors"}
    assert sum(result.parseoutcomes().values()) == 3
    result.stdout.fnmatch_lines(["*nothing may be skipped here: *no server here*", "the same order again: pytest *"])


def test_a_module_that_skips_itself_fails_where_skips_are_forbidden(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_NO_SKIPS", "1")
    body = 'import pytest\npytest.skip("no server here", allow_module_level=True)'

    assert _run(pytester, "tests.strict_run", body).ret != pytest.ExitCode.OK


def test_a_failure_that_shows_a_lone_surrogate_does_not_end_the_run(pytester: pytest.Pytester) -> None:
    body = r"""
    def test_shows_a_surrogate():
        print("\ud800")
        assert "\ud800" == "b", "\udfff"
    """
    result = _run(pytester, "tests.strict_run", body, "-p", "xdist", "-n", "1")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)


def test_a_run_in_the_background_passes_no_ignored_interrupt_on(pytester: pytest.Pytester) -> None:
    body = """
    import os, signal

    def test_a_child_can_be_interrupted():
        with os.popen("trap") as shell:
            assert "SIGINT" not in shell.read()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = _run(pytester, "tests.strict_run", body)
    finally:
        signal.signal(signal.SIGINT, before)

    result.assert_outcomes(passed=1)
