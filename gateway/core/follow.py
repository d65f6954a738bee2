"""Where an accepted operation is followed: the handle named by the service, on its own origin or not at all."""

from urllib.parse import urldefrag, urljoin, urlsplit

from gateway.core.matching import Answer, read_path
from gateway.model.action import Action
from gateway.model.operation import Operation

URL_LENGTH_MAX = 4096


def handle_url(action: Action, operation: Operation, answer: Answer) -> str | None:
    """The absolute URL of the handle, or None if the answer names none that may be followed.

    Relative references are resolved against the request's URL (RFC 9110 section 10.2.2). A handle on another origin is
    refused: the credential and the question would go to a place that the catalog never named.
    """
    if action.accepted is None:
        return None
    source = action.accepted.handle
    value = answer.header(source.header) if source.header else read_path(source.path or "", answer.body)
    if not isinstance(value, str) or not value or len(value) > URL_LENGTH_MAX:
        return None
    # Printable ASCII only (RFC 3986); readers disagree about a backslash, and some take it for a slash.
    if any(not 0x20 < ord(char) < 0x7F or char == "\\" for char in value):
        return None
    try:
        url = urldefrag(urljoin(operation.target_url, value)).url
        same = _origin(url) == _origin(action.service.base_url)
    except ValueError:
        return None
    if action.subject is not None and "{" in url:
        # Relative to a place that is named after a person, and not kept: it cannot be found again.
        return None
    return url if same else None


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError("a handle carries no user information")
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), default if parts.port is None else parts.port
