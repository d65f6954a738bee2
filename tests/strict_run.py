"""What a run must be the same under: a terminal, a background job, CI; and how to get its order again."""

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest


def pytest_configure() -> None:
    """Take back an ignored SIGINT: a job started in the background hands it on to every program under test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _no_skips() -> bool:
    return os.environ.get("CI_NO_SKIPS") == "1"


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _no_skips() and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} did not run to its end, and nothing may be skipped here: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates: bad input in a failure's text would otherwise end the whole run of that worker."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_sendable(key): _sendable(item) for key, item in value.items()}
        case list() | tuple():
            return [_sendable(item) for item in value]
        case _:
            return value


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    seed = config.getoption("randomly_seed", None)
    if exitstatus != 0 and seed is not None:
        terminalreporter.write_line(f"the same order again: pytest -p randomly --randomly-seed={seed}")
