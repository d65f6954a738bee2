"""Whom we trust under TLS, and what we note about the peer."""

import asyncio
import functools
import hashlib
import ssl

from adapters.http.refusals import Refused

Context = ssl.SSLContext


@functools.lru_cache(maxsize=64)
def context_for(ca_file: str | None) -> ssl.SSLContext:
    """A verifying client context, made once per bundle; None means the system's trust. Raises `Refused`."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise Refused("the service's CA file cannot be read") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def evidence(transport: asyncio.BaseTransport) -> str | None:
    """`TLSv1.3 sha256:<hex of the peer's certificate>`, or None without TLS."""
    channel = transport.get_extra_info("ssl_object")
    if channel is None:
        return None
    certificate = channel.getpeercert(binary_form=True) or b""
    return f"{channel.version()} sha256:{hashlib.sha256(certificate).hexdigest()}"
