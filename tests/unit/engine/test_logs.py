"""No road to the log goes around the mask: fields, tracebacks, libraries, warnings, and lines that fail."""

import gc
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from gateway.core.redact import MASKED, Mask
from gateway.engine import logs as logs_module
from gateway.engine.logs import TEXT_MAX, Logs, bind_mask
from tests.canary import Canaries
from tests.unit.engine.keeping import HandClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Recorder:
    """Logging taken over for one test; everything written is searched for the canary."""

    def __init__(self, stream: io.StringIO, secret: str) -> None:
        self.stream, self.secret = stream, secret
        self.logs = Logs(HandClock(), stream=stream, level="debug")

    def alone(self) -> None:
        """Take away the handlers by which pytest listens: they fail on what they cannot print."""
        logging.getLogger().handlers[:] = [self.logs._handler]

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture(params=[io.StringIO, Terminal], ids=["JSON", "terminal"])
def either(request: pytest.FixtureRequest, canaries: Canaries) -> Iterator[Recorder]:
    yield from _recorder(request.param(), canaries)


@pytest.fixture
def recorder(canaries: Canaries) -> Iterator[Recorder]:
    yield from _recorder(io.StringIO(), canaries)


def _recorder(stream: io.StringIO, canaries: Canaries) -> Iterator[Recorder]:
    secret = canaries.mint(awkward=True)
    mask = Mask([secret.encode()])
    bind_mask(lambda: mask)
    made = Recorder(stream, secret)
    try:
        yield made
    finally:
        made.logs.close()
        bind_mask(Mask)
        canaries.watch_text(made.text, "the log")


class Holder:
    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return f"Holder({self.secret})"


class Unprintable:
    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        raise ValueError(self.secret)

    __str__ = __repr__


def fail(secret: str) -> None:
    local = f"local {secret}"
    try:
        raise KeyError(local)
    except KeyError:
        error = RuntimeError(f"failed with {secret}")
        error.add_note(f"note {secret}")
        raise error  # noqa: B904 - the chain is what the log must mask too


def logged(secret: str, write: Callable[[str], object]) -> None:
    try:
        fail(secret)
    except RuntimeError:
        write("failed")


LOG = structlog.get_logger("gateway.test")

Road = Callable[[str], object]
ROADS: dict[str, Road] = {
    "event": lambda secret: LOG.info("said %s", secret),
    "field": lambda secret: LOG.info("said", value=secret, **{f"name {secret}": 1}),
    "nested": lambda secret: LOG.info("said", value={"a": [secret, {secret: (secret, {secret})}]}),
    "deep": lambda secret: LOG.info("said", value=[[[[[[[[[[secret]]]]]]]]]]),
    "bytes": lambda secret: LOG.info("said", value=secret.encode()),
    "object": lambda secret: LOG.info("said", value=Holder(secret), more=[Holder(secret)]),
    "unprintable": lambda secret: LOG.info("said", value=Unprintable(secret)),
    "exception": lambda secret: logged(secret, LOG.exception),
    "exception given": lambda secret: LOG.error("failed", exc_info=RuntimeError(secret)),
    "group": lambda secret: LOG.error("failed", exc_info=ExceptionGroup(secret, [ValueError(secret)])),
    "bound": lambda secret: LOG.bind(who=secret).warning("said"),
    "library": lambda secret: logging.getLogger("library").error("said %s %r", secret, {"a": secret}),
    "library exception": lambda secret: logged(secret, logging.getLogger("library").exception),
    "library stack": lambda secret: logging.getLogger("library").error(secret, stack_info=True),
    "bad arguments": lambda secret: logging.getLogger("library").error("said %s %s", *[secret]),
    "bad argument": lambda secret: logging.getLogger("library").error("said %d", secret),
    "failing argument": lambda secret: logging.getLogger("library").error("said %s", Unprintable(secret)),
    "cut": lambda secret: LOG.info("said", value="x" * (TEXT_MAX - 20) + secret),
    "uncaught": lambda secret: sys.excepthook(RuntimeError, RuntimeError(secret), None),
    "interrupted": lambda secret: logged(secret, _interrupt),
}


def _in_thread(secret: str) -> None:
    thread = threading.Thread(target=fail, args=(secret,))
    thread.start()
    thread.join()


def _unraisable(secret: str) -> None:
    class Dies:
        def __del__(self) -> None:
            raise ValueError(secret)

    Dies()
    gc.collect()


def _warn(secret: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # catch_warnings put the original way of showing back; the one in force outside is what is tested.
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn(f"careful {secret}", stacklevel=1)


def _interrupt(_event: str) -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        sys.excepthook(KeyboardInterrupt, error, error.__traceback__)


ROADS |= {"uncaught in a thread": _in_thread, "unraisable": _unraisable, "warning": _warn}


@pytest.mark.parametrize("road", ROADS)
def test_no_road_goes_around_the_mask(road: str, either: Recorder, capfd: pytest.CaptureFixture[str]) -> None:
    either.alone()
    ROADS[road](either.secret)

    assert either.text.endswith("\n")
    assert either.secret not in either.text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("road", ROADS)
def test_every_line_is_json_with_time_level_and_logger(road: str, recorder: Recorder) -> None:
    recorder.alone()
    ROADS[road](recorder.secret)

    assert len(recorder.lines) == 1
    line = recorder.lines[0]
    if line["event"] != "log_line_dropped":
        assert line["time"] == "2023-11-14T22:13:20.000+00:00"
        assert line["logger"]
    assert line["level"] in {"debug", "info", "warning", "error", "critical"}


def test_a_traceback_is_there_masked_and_without_local_variables(either: Recorder) -> None:
    ROADS["exception"](either.secret)

    text = either.text if isinstance(either.stream, Terminal) else either.lines[0]["exception"]
    assert f"RuntimeError: failed with {MASKED}" in text
    assert f"note {MASKED}" in text
    assert "KeyError" in text
    assert "in fail\n" in text
    assert "local = " not in text


def test_a_mask_that_fails_drops_the_line_and_says_so(recorder: Recorder) -> None:
    def broken() -> Mask:
        raise RuntimeError(recorder.secret)

    bind_mask(broken)
    LOG.info("said", value=recorder.secret)

    assert [(line["event"], line["error"]) for line in recorder.lines] == [("log_line_dropped", "RuntimeError")]


def test_a_renderer_that_fails_drops_the_line_and_says_so(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise TypeError(recorder.secret)

    monkeypatch.setattr(logs_module, "_masked", broken)
    LOG.info("said", value=recorder.secret)

    assert recorder.lines[0]["event"] == "log_line_dropped"


def test_the_mask_is_asked_for_each_line(recorder: Recorder) -> None:
    LOG.info("said", value="later-secret")
    bind_mask(lambda: Mask([b"later-secret"]))
    LOG.info("said", value="later-secret")

    assert [line["value"] for line in recorder.lines] == ["later-secret", MASKED]


@pytest.mark.parametrize("char", ["\x1b[2J", "\r", "\u202e", "\x00", "\x9b", "\u2028", "\ud800"])
def test_control_characters_reach_no_terminal_and_no_reader(char: str, either: Recorder) -> None:
    bare = LOG.info
    bare("event" + char, **{"value": char, "na" + char: [char]})
    logging.getLogger("library").error("text %s", char)

    written = either.text
    if isinstance(either.stream, Terminal):
        for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m"):
            written = written.replace(code, "")
    assert char not in written
    assert f"\\x{ord(char[0]):02x}" in written or f"\\u{ord(char[0]):04x}" in written


def test_a_text_cannot_forge_a_second_line(either: Recorder) -> None:
    LOG.info("event\n2030 [error] forged", value="a\nb")
    logging.getLogger("library").error("a\nb")

    assert len(either.text.splitlines()) == 2


def test_a_field_cannot_pose_as_time_or_level(recorder: Recorder) -> None:
    LOG.info("said", time="then", level="fatal", logger="other")

    assert (recorder.lines[0]["level"], recorder.lines[0]["logger"]) == ("info", "gateway.test")


def test_values_keep_their_types_and_stay_small(recorder: Recorder) -> None:
    LOG.info("said", a=1, b=1.5, c=None, d=True, e=2**70, f=float("nan"), g=[{"h": 1}], i="x" * 100_000, j=range(3))

    line = recorder.lines[0]
    assert (line["a"], line["b"], line["c"], line["d"], line["g"]) == (1, 1.5, None, True, [{"h": 1}])
    assert (line["e"], line["f"], line["j"]) == (str(2**70), "nan", "range(0, 3)")
    assert len(line["i"]) < TEXT_MAX + 20
    LOG.info("said", many=list(range(10_000)))
    assert len(recorder.lines[1]["many"]) == 100


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError])
def test_a_log_nobody_reads_stops_nothing(error: type[Exception]) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise error

    logs = Logs(HandClock(), stream=Gone())
    try:
        LOG.info("said")
        logging.getLogger("library").error("said")
        logs._handler.handleError(logging.makeLogRecord({}))
        assert logs.lost == 3
    finally:
        logs.close()


def test_a_stream_that_takes_ascii_only_still_gets_the_line() -> None:
    raw = io.BytesIO()
    logs = Logs(HandClock(), stream=io.TextIOWrapper(raw, encoding="ascii"))
    try:
        LOG.info("grüße")
    finally:
        logs.close()
    assert b"gr\\xfc\\xdfe" in raw.getvalue()


def test_a_listener_without_descriptors_is_told_once_a_minute_and_not_for_every_try() -> None:
    clock, stream = HandClock(), io.StringIO()
    logs = Logs(clock, stream=stream)
    try:
        for _ in range(3):
            for _ in range(100):
                logging.getLogger("asyncio").error("socket.accept() out of system resource\nsocket: x")
                logging.getLogger("asyncio").error("Exception in callback BaseSelectorEventLoop._start_serving(x)")
            logging.getLogger("asyncio").error("anything else")
            clock.now_ms += 60_000
    finally:
        logs.close()

    events = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert events.count("anything else") == len(events) - 3 == 3
    assert not logging.getLogger("asyncio").filters


def test_closing_puts_back_what_was_there() -> None:
    before = (logging.getLogger().handlers[:], sys.excepthook, sys.unraisablehook, threading.excepthook)
    logs = Logs(HandClock(), stream=io.StringIO(), level="error")
    assert logging.getLogger().level == logging.ERROR
    logs.close()

    assert (logging.getLogger().handlers[:], sys.excepthook, sys.unraisablehook, threading.excepthook) == before


def test_the_level_is_a_floor_and_talkative_libraries_are_quiet(recorder: Recorder) -> None:
    recorder.logs.close()
    recorder.logs = Logs(HandClock(), stream=recorder.stream, level="warning")
    LOG.info("no")
    logging.getLogger("aiohttp.access").info("no")
    logging.getLogger("other").info("no")
    LOG.warning("yes")
    logging.getLogger("sqlalchemy.engine").warning("yes")

    assert [line["event"] for line in recorder.lines] == ["yes", "yes"]
