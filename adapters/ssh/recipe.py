"""The options of every connection and session, all of them said: the library's defaults read the operator's home."""

from typing import Any, Final

import asyncssh

from adapters.contract_ssh import SshLimits, SshRoute
from adapters.ssh.trust import Gatekeeper, Identity, Known

SESSION: Final[dict[str, Any]] = {
    "subsystem": None,
    "env": None,
    "send_env": None,
    # A terminal merges stderr into stdout and brings a hang-up signal; "no type" alone is not enough to refuse one.
    "request_pty": False,
    "term_type": None,
    "x11_forwarding": False,
    # One byte that is no UTF-8 would close the connection with every other channel on it.
    "encoding": None,
}
_OUTSIDE_THE_VAULT: Final[dict[str, Any]] = {
    # A user's file may hold `UserKnownHostsFile none`, which turns the check of host keys off.
    "config": None,
    "client_certs": [],
    "ignore_encrypted": False,
    "passphrase": None,
    "password": None,
    "agent_path": None,
    "agent_identities": None,
    "agent_forwarding": False,
    "pkcs11_provider": None,
    "client_host_keysign": False,
    "client_host_keys": None,
    "gss_host": None,
    "gss_kex": False,
    "gss_auth": False,
    "x509_trusted_certs": None,
    "x509_trusted_cert_paths": [],
    "proxy_command": None,
    "canonicalize_hostname": False,
}
_LOGIN: Final[dict[str, Any]] = {
    "public_key_auth": True,
    "host_based_auth": False,
    "kbdint_auth": False,
    "password_auth": False,
    "preferred_auth": ["publickey"],
    # A server that lets "none" in is not the one the key was made for.
    "disable_trivial_auth": True,
    # A bad byte in a banner or a parting word would close the connection.
    "utf8_decode_errors": "replace",
    "tcp_keepalive": True,
    "compression_algs": None,
}


def options_of(
    route: SshRoute, known: Known, identity: Identity, limits: SshLimits, gatekeeper: Gatekeeper
) -> dict[str, Any]:
    """Everything `asyncssh.connect` is given, but for where its bytes go.

    The library's own time limits stand behind ours, in case a stage should ever forget to set one.
    """
    return {
        **_OUTSIDE_THE_VAULT,
        **_LOGIN,
        **SESSION,
        "command": None,
        "client_factory": lambda: gatekeeper,
        "host": route.address,
        "port": route.port,
        "host_key_alias": route.name,
        "known_hosts": known,
        "username": route.user,
        "client_username": route.user,
        # An empty list would mean the default identities of the home; one key means that key.
        "client_keys": [identity],
        "connect_timeout": limits.login_seconds + 2.0,
        "login_timeout": limits.login_seconds + 1.0,
        "keepalive_interval": limits.keepalive_seconds,
        "keepalive_count_max": limits.keepalive_misses,
    }


def quiet_library() -> None:
    """The library's log names hosts, users and commands; ours says what may be said."""
    asyncssh.set_log_level("WARNING")
