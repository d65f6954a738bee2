"""A real OpenSSH server for tests: an ordinary process on a loopback port, with configuration and keys of its own."""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncssh

from adapters.contract_ssh import SshPins, SshRoute
from tests.unit.adapters.ssh_stand import credential_of, new_key, public_text

SECONDS_MAX = 40.0
MISSING = "these tests need OpenSSH's server; on Debian and Ubuntu: apt-get install openssh-server"
ATTEMPTS = 5


def find_daemon() -> str | None:
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


def daemon_program() -> str:
    found = find_daemon()
    assert found, MISSING
    return found


@dataclass(frozen=True)
class Daemon:
    pid: int
    port: int
    user: str
    host_key: asyncssh.SSHKey
    client_key: asyncssh.SSHKey

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def route(self, port: int | None = None) -> SshRoute:
        return SshRoute(
            name="real-host",
            address="127.0.0.1",
            port=port or self.port,
            user=self.user,
            pins=SshPins((public_text(self.host_key),)),
            credential=credential_of(self.client_key),
            allow_private=True,
        )


@contextmanager
def running_daemon(folder: Path, options: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """Ends with the context; sessions that are still open end with their connections."""
    program = daemon_program()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where a server of root confines its children
    host_key, client_key = new_key(), new_key()
    (folder / "host").write_bytes(host_key.export_private_key())
    (folder / "host").chmod(0o600)
    (folder / "authorized").write_bytes(client_key.export_public_key())
    settings = {
        "ListenAddress": "127.0.0.1",
        "HostKey": str(folder / "host"),
        "AuthorizedKeysFile": str(folder / "authorized"),
        "StrictModes": "no",
        "PidFile": "none",
        "UsePAM": "no",
        "UseDNS": "no",
        "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PrintMotd": "no",
        # Login shells read start-up files there: what a machine's own ones do may take any time, and wait for locks.
        "SetEnv": f"HOME={folder}",
        **(options or {}),
    }
    for _ in range(ATTEMPTS):
        port = _free_port()
        lines = [f"{name} {value}" for name, value in {**settings, "Port": str(port)}.items()]
        (folder / "config").write_text("\n".join([*lines, ""]))
        command = [program, "-D", "-e", "-f", str(folder / "config")]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                if not _listens(process):
                    continue  # somebody else took the port in between
                user = pwd.getpwuid(os.geteuid()).pw_name
                with _drained(process):
                    yield Daemon(process.pid, port, user, host_key, client_key)
                return
            finally:
                process.terminate()
    raise AssertionError(f"sshd did not start; its configuration is in {folder}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _listens(process: subprocess.Popen[str]) -> bool:
    assert process.stderr is not None
    return any("Server listening on" in line for line in process.stderr)


@contextmanager
def _drained(process: subprocess.Popen[str]) -> Iterator[None]:
    """A server whose log nobody reads stops in the middle of a session once the pipe is full."""
    reader = threading.Thread(target=deque, args=(process.stderr, 0))
    reader.start()
    try:
        yield
    finally:
        process.terminate()
        reader.join(SECONDS_MAX)


class Pipe:
    """A named pipe through which a command on the host and its test wait for each other."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def say(self) -> None:
        """Let the command go on."""
        os.write(self._file, b"go\n")

    def heard(self) -> bool:
        """Whether the command has spoken."""
        try:
            return bool(os.read(self._file, 4096))
        except BlockingIOError:
            return False

    async def listen(self) -> None:
        """Wait until the command speaks."""
        loop = asyncio.get_running_loop()
        spoken = asyncio.Event()
        loop.add_reader(self._file, spoken.set)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await spoken.wait()
        finally:
            loop.remove_reader(self._file)
        assert self.heard()
