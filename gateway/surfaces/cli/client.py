"""A careful client of the REST door: it never repeats a submission, and asks by key when an answer was lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson
from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    TCPConnector,
)
from yarl import URL

CONNECT_SECONDS = 5.0
NO_CONTENT, REDIRECT = 204, 300
_PROBLEM = {"code", "detail", "guidance"}
_ELSEWHERE = "that is not the answer of a gateway; is another program listening there?"
_NOT_READY = {"status", "reason"}
SLACK_SECONDS = 10.0
"""How much longer than the asked wait an answer may take before it counts as lost."""


class Unreachable(Exception):
    """The gateway could not be reached and nothing left this process."""


class AnswerLost(Exception):
    """The request may have arrived; its answer did not."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of the gateway."""

    status: int
    document: Any
    """An object; None for an empty answer."""
    headers: Mapping[str, str]

    @property
    def is_problem(self) -> bool:
        """A refusal (RFC 9457)."""
        return self.status >= 400


class Client:
    """One connection per call, so that no answer can be taken for another call's."""

    def __init__(self, address: str, key: str) -> None:
        """`address` is `http://host:port`."""
        self._address = address
        self._key = key

    def at(self, address: str) -> "Client":
        """The same key at another address."""
        return Client(address, self._key)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,  # noqa: ANN401 - any JSON value
        query: Mapping[str, str] | None = None,
        wait_seconds: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request. Raises Unreachable if nothing left, AnswerLost if that is not certain."""
        sent = {"Authorization": f"Bearer {self._key}", **(headers or {})}
        data = None
        if body is not None:
            data = orjson.dumps(body)
            sent["Content-Type"] = "application/json"
        timeout = ClientTimeout(total=wait_seconds + SLACK_SECONDS, connect=CONNECT_SECONDS)
        connector = TCPConnector(force_close=True)
        # Taken as it is: a URL type that tidies up would let `..` in a name lead to another call.
        url = URL(self._address + path, encoded=True)
        async with ClientSession(
            connector=connector, cookie_jar=DummyCookieJar(), timeout=timeout, trust_env=False
        ) as session:
            try:
                async with session.request(
                    method, url, data=data, params=query, headers=sent, allow_redirects=False
                ) as response:
                    content = await response.read()
                    return Answer(response.status, _parse(response.status, content), dict(response.headers))
            except (ClientConnectorError, ConnectionTimeoutError) as error:
                raise Unreachable(f"{self._address} does not answer") from error
            except (ClientError, TimeoutError) as error:
                raise AnswerLost(str(error) or type(error).__name__) from error


class _Told(dict[str, Any]):
    """An answer in the gateway's form, as far as was looked: who asks for what it lacks has met another program."""

    def __missing__(self, name: str) -> NoReturn:
        raise AnswerLost(_ELSEWHERE)


def _parse(status: int, content: bytes) -> dict[str, Any] | None:
    """The document of an answer that a gateway would give; whatever else answers there is no gateway."""
    if status == NO_CONTENT and not content:
        return None
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict) or not (
        status < REDIRECT or document.keys() >= _PROBLEM or document.keys() == _NOT_READY
    ):
        raise AnswerLost(_ELSEWHERE)
    return _Told(document)
