"""Turns a finished attempt into its observation. Words are fixed sentences: no URL, header, body or credential in them.

Exceptions are read for their class and their system error number only. aiohttp's own carry the URL in their text, and
an invented status: a garbage line after a committed 201 becomes `ClientResponseError` with status 400.
"""

import errno
import ssl

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientHttpProxyError,
    ClientPayloadError,
    ClientProxyConnectionError,
    ClientResponseError,
)

from adapters.contract import Clock, Observation, Phase
from adapters.http.flight import Flight
from adapters.http.refusals import Broken, Stop

_BEFORE_SENDING = frozenset({Phase.PREPARED, Phase.CONNECTING, Phase.CONNECTED})
_CONNECTING: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "the request deadline passed before a connection stood"),
    (ClientConnectorDNSError, "the service's name could not be resolved"),
    (ClientConnectorCertificateError, "the service's certificate is not trusted"),
    (ClientConnectorSSLError, "the TLS handshake with the service failed"),
    (ClientProxyConnectionError, "the proxy could not be reached"),
    (ClientHttpProxyError, "the proxy refused to connect to the service"),
    (ClientConnectorError, "the connection to the service could not be made"),
    (Broken, "the connection ended before the request"),
)
_WAITING: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "the request deadline passed before an answer"),
    (Broken, "the connection ended before an answer"),
    (ClientResponseError, "the answer could not be read as HTTP"),
)
_READING: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "the request deadline passed inside the answer's body"),
    (ClientPayloadError, "the answer's body was cut or malformed"),
    (ConnectionError, "the answer's body was cut or malformed"),
)


def refused(stop: Stop, clock: Clock) -> Observation:
    """An exchange that was not fit to be sent: nothing was done on the network."""
    now = clock.wall_ms()
    return Observation(
        phase=Phase.PREPARED,
        nothing_left=True,
        started_ms=now,
        ended_ms=now,
        closed_boot_ms=clock.boot_ms(),
        summary=stop.sentence,
        error_class=type(stop).__name__,
    )


def observe(
    flight: Flight, error: BaseException | None, *, started_ms: int, ended_ms: int, closed_boot_ms: int | None
) -> Observation:
    """Everything the attempt showed, after its connection is closed (or back in the pool)."""
    head, sink = flight.head, flight.sink
    passed = flight.phase not in _BEFORE_SENDING
    written = flight.bytes_written
    return Observation(
        phase=flight.phase,
        nothing_left=not passed or written == 0,
        started_ms=started_ms,
        ended_ms=ended_ms,
        closed_boot_ms=closed_boot_ms,
        summary=_summary(flight, error),
        bytes_written=written if passed else 0,
        bytes_expected=flight.expected,
        request_complete=flight.request_complete,
        status=None if head is None else head.status,
        headers=() if head is None else head.headers,
        framing=flight.framing,
        body=b"" if sink is None else sink.body,
        body_complete=sink is not None and sink.complete,
        body_cut=sink is not None and sink.cut,
        body_sha256=None if sink is None else sink.sha256,
        error_class=None if error is None else type(error).__name__,
        error_cause=None if error is None else _cause(error),
        peer=flight.peer,
        tls=flight.tls,
        contradictions=tuple(flight.contradictions),
    )


def _summary(flight: Flight, error: BaseException | None) -> str:
    if isinstance(error, Stop) and not isinstance(error, Broken):
        return error.sentence
    if flight.head is not None:
        return _after_head(flight, error)
    if error is None:
        return "the attempt ended without an answer"
    if flight.phase in {Phase.CONNECTING, Phase.CONNECTED}:
        return _pick(_CONNECTING, error, "the connection could not be made")
    sentence = _pick(_WAITING, error, "the attempt failed before an answer")
    return sentence if flight.request_complete else f"{sentence}; the request may be incomplete"


def _after_head(flight: Flight, error: BaseException | None) -> str:
    if error is not None:
        return _pick(_READING, error, "reading the answer's body failed")
    if flight.contradictions:
        return flight.contradictions[0]
    if flight.sink is not None and flight.sink.trouble is not None:
        return flight.sink.trouble
    if flight.phase is not Phase.RESPONSE_COMPLETE:
        return "the answer's body has no stated end"
    if not flight.request_complete:
        return "answered before the request was fully written"
    return "answered"


def _pick(table: tuple[tuple[type[BaseException], str], ...], error: BaseException, otherwise: str) -> str:
    return next((sentence for kind, sentence in table if isinstance(error, kind)), otherwise)


def _cause(error: BaseException) -> str | None:
    """Class and system error of what lies below, for example `ConnectionResetError ECONNRESET`."""
    below = error
    for _ in range(8):
        following = below.__cause__ or below.__context__
        if following is None:
            break
        below = following
    words = [] if below is error else [type(below).__name__]
    if isinstance(below, ssl.SSLError):
        words.append(str(below.reason or ""))
    elif isinstance(below, OSError) and below.errno is not None:
        words.append(errno.errorcode.get(below.errno, str(below.errno)))
    return " ".join(word for word in words if word) or None
