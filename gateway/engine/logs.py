"""Log lines: JSON for machines, readable on a terminal, and masked in the sink, whatever road they came by.

Everything that writes through structlog, the standard library's logging, warnings, or an exception that nobody caught
ends in one handler. It masks every field, tracebacks included, then the finished line once more. A line that cannot be
masked is dropped and replaced by one that says so: an unmasked line is never the way out of a failure.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Protocol, TextIO

import orjson
import structlog
from structlog.stdlib import ProcessorFormatter

from gateway.core.redact import Mask
from gateway.core.shown import shown
from gateway.core.strictjson import Json

TEXT_MAX: Final = 16_384
"""Longest text of one field, in characters; the rest is cut."""

_ITEMS_MAX: Final = 100
_DEPTH_MAX: Final = 6
_SELDOM: Final = (
    "socket.accept() out of system resource",
    "Exception in callback BaseSelectorEventLoop._start_serving(",
)
_SELDOM_MS: Final = 60_000
_CUT: Final = " [cut]"
_QUIET: Final = ("aiohttp.access", "asyncio", "aiosqlite", "alembic", "sqlalchemy")
"""Libraries that narrate what they do; only their warnings are news."""

_Event = MutableMapping[str, Any]


class WallClock(Protocol):
    """The part of the clock that a log line needs."""

    def wall_ms(self) -> int: ...


class _Masks:
    """Where the mask comes from: nowhere until the vault is open, then from the vault."""

    def __init__(self) -> None:
        self.source: Callable[[], Mask] = Mask


_masks: Final = _Masks()


def bind_mask(source: Callable[[], Mask]) -> None:
    """From now on, ask `source` for the mask of each line. The vault's `mask` changes, so it is asked every time."""
    _masks.source = source


class _Seldom(logging.Filter):
    """Lets through one line a minute of a listener that is out of descriptors.

    The event loop writes one for each of its tries, a hundred and more at once and traceback included, and would fill
    the disk while it waits.
    """

    def __init__(self, clock: WallClock) -> None:
        super().__init__()
        self._clock = clock
        self._last_ms: int | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.msg).startswith(_SELDOM):
            return True
        now = self._clock.wall_ms()
        if self._last_ms is not None and 0 <= now - self._last_ms < _SELDOM_MS:
            return False
        self._last_ms = now
        return True


class Logs:
    """The set-up in force; `close` puts back what was there before."""

    def __init__(self, clock: WallClock, *, stream: TextIO | None = None, level: str = "info") -> None:
        """Take over all logging of this process. `stream` is standard error if not given.

        `level` is debug, info, warning or error. Lines are coloured and aligned on a terminal, else one JSON object.
        """
        self._stream = stream or sys.stderr
        number = logging.getLevelNamesMapping()[level.upper()]
        on_terminal = self._stream.isatty()
        self._handler = _Handler(self._stream, _formatter(clock, on_terminal=on_terminal))
        root = logging.getLogger()
        self._before = (root.handlers[:], root.level, sys.excepthook, sys.unraisablehook, threading.excepthook)
        root.handlers[:] = [self._handler]
        root.setLevel(number)
        for name in _QUIET:
            logging.getLogger(name).setLevel(max(number, logging.WARNING))
        self._seldom = _Seldom(clock)
        logging.getLogger("asyncio").addFilter(self._seldom)
        logging.captureWarnings(capture=True)
        sys.excepthook = _uncaught
        sys.unraisablehook = _unraisable
        threading.excepthook = _uncaught_in_thread
        structlog.configure(
            processors=[structlog.contextvars.merge_contextvars, ProcessorFormatter.wrap_for_formatter],
            wrapper_class=structlog.make_filtering_bound_logger(number),
            logger_factory=structlog.stdlib.LoggerFactory(),
            cache_logger_on_first_use=False,
        )

    def close(self) -> None:
        """Undo everything but what was written."""
        root = logging.getLogger()
        handlers, level, sys.excepthook, sys.unraisablehook, threading.excepthook = self._before
        root.handlers[:] = handlers
        root.setLevel(level)
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger("asyncio").removeFilter(self._seldom)
        logging.captureWarnings(capture=False)
        structlog.reset_defaults()

    @property
    def lost(self) -> int:
        """Lines that could not be written, because the disk is full or the reader of the pipe has gone."""
        return self._handler.lost


class _Handler(logging.Handler):
    """The one sink. It never raises, and never lets anything past the mask."""

    def __init__(self, stream: TextIO, formatter: ProcessorFormatter) -> None:
        super().__init__()
        self._stream = stream
        self.setFormatter(formatter)
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = _masks.source().apply_text(self.format(record))
        except Exception as error:  # noqa: BLE001 - whatever fails here, the line must not leave unmasked
            line = _dropped(record, error)
        self._write(line + "\n")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Say nothing: the standard library would print the record, arguments and all."""
        self.lost += 1

    def _write(self, text: str) -> None:
        try:
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                self._stream.write(text.encode("ascii", "backslashreplace").decode("ascii"))
            self._stream.flush()
        except (OSError, ValueError):
            # A gateway that stops because nobody reads its log would be worse.
            self.lost += 1


def _formatter(clock: WallClock, *, on_terminal: bool) -> ProcessorFormatter:
    def head(_logger: object, method: str, event: _Event) -> _Event:
        """The fields every line begins with, taken from the record and the clock, never from the caller."""
        record = event.pop("_record")
        event.pop("_from_structlog", None)
        at = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        own = {"time": at, "level": method, "event": event.pop("event", ""), "logger": record.name}
        return own | {name: value for name, value in event.items() if name not in own}

    def mask(_logger: object, _method: str, event: _Event) -> _Event:
        return _masked(event, _masks.source(), on_terminal=on_terminal)

    return ProcessorFormatter(processors=[head, _with_traceback, mask, _on_terminal() if on_terminal else _as_json])


def _on_terminal() -> structlog.dev.ConsoleRenderer:
    # The renderer's own choice of tracebacks would show local variables.
    return structlog.dev.ConsoleRenderer(
        timestamp_key="time", exception_formatter=structlog.dev.plain_traceback, pad_event_to=24, sort_keys=False
    )


def _as_json(_logger: object, _method: str, event: _Event) -> str:
    return orjson.dumps(dict(event)).decode()


def _with_traceback(_logger: object, _method: str, event: _Event) -> _Event:
    """The exception as text, without local variables."""
    given = event.pop("exc_info", None)
    event.pop("stack_info", None)
    if given is True:
        given = sys.exc_info()
    error = given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["exception"] = "".join(traceback.format_exception(error))
    return event


def _masked(event: Mapping[str, Any], mask: Mask, *, on_terminal: bool) -> _Event:
    result: _Event = {}
    for name, value in event.items():
        # JSON escapes line feeds itself. On a terminal only tracebacks may have lines, or a text could forge some.
        lines = not on_terminal or name == "exception"
        result[_text(str(name), mask, lines=False)] = _value(value, mask, _DEPTH_MAX, lines=lines)
    return result


def _value(value: object, mask: Mask, depth: int, *, lines: bool) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(str(value), mask, lines=lines)
    if isinstance(value, int | float):
        digits = repr(value)
        text = mask.apply_text(digits)
        return value if text is digits and abs(value) < 2**53 else text
    if isinstance(value, bytes):
        return _text(value[: TEXT_MAX + 1].decode("utf-8", "replace"), mask, lines=lines)
    if depth and isinstance(value, Mapping):
        items = list(value.items())[:_ITEMS_MAX]
        return {
            _text(_printed(name), mask, lines=False): _value(item, mask, depth - 1, lines=lines) for name, item in items
        }
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_value(item, mask, depth - 1, lines=lines) for item in list(value)[:_ITEMS_MAX]]
    return _text(_printed(value), mask, lines=lines)


def _printed(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - somebody's repr is no reason to lose the line
        return f"<unprintable {type(value).__name__}>"


def _text(text: str, mask: Mask, *, lines: bool) -> str:
    """Masked first: an escape in the middle of a secret would hide it from the mask."""
    cut = len(text) > TEXT_MAX
    masked = mask.apply_text(text[:TEXT_MAX], cut=cut)
    return shown(masked, lines=lines) + (_CUT if cut else "")


def _dropped(record: logging.LogRecord, error: Exception) -> str:
    """Where the line came from and what kind of error stopped it; none of its content."""
    place = f"{record.module}:{record.lineno}"
    line = {"level": "error", "event": "log_line_dropped", "at": place, "error": type(error).__name__}
    return orjson.dumps(line).decode()


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        # Somebody pressed the keys. What was being handled just then is no news, and nobody has masked it.
        logging.getLogger("gateway").info("interrupted")
        return
    logging.getLogger("gateway").critical("uncaught_exception", exc_info=error.with_traceback(trace))


def _unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    # The object is left out: its repr may show what it holds.
    logging.getLogger("gateway").error("unraisable_exception", exc_info=unraisable.exc_value)


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    logging.getLogger("gateway").critical("uncaught_exception_in_thread", exc_info=args.exc_value)
