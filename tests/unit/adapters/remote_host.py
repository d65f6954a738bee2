"""A host as the runner sees one: a shell named sh, tools on the path, a store; reached by a pipe instead of SSH."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

from adapters.ssh.runner import Runner, load_runner, runner_of
from adapters.ssh.runner_call import RunnerCall, Verb, stdin_text
from adapters.ssh.runner_command import Command, command_of
from adapters.ssh.runner_wire import Answer, read_answer

SHELLS = ("dash", "bash", "busybox")
SECONDS_MAX = 40
ISSUED = 1_000


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"these tests need {name}; on Debian and Ubuntu: apt-get install dash bash busybox shellcheck"
    return found


class Host:
    """`runner` may be exchanged for a changed one: that is how tests cut, freeze and race it at its named steps."""

    def __init__(self, folder: Path, shell: str, store: Path | None = None) -> None:
        self.folder = folder
        self.store = str(store or folder / "store")
        self.runner: Runner = load_runner()
        self.ledger = folder / "ledger"
        self.store_id: str | None = None
        self.nonces: Iterator[int] = count(10_000_000)
        tools = folder / "tools"
        tools.mkdir()
        if shell == "busybox":
            applets = subprocess.run([program(shell), "--list"], capture_output=True, text=True, check=True)
            for applet in applets.stdout.split():
                (tools / applet).symlink_to(program(shell))
            path = str(tools)
        else:
            (tools / "sh").symlink_to(program(shell))
            path = f"{tools}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        self.tools = tools
        self.blocks_max: int | None = None
        """Half kilobytes a file may have, as a disk that is full at that size."""
        self.environment = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8"}

    def changed(self, changes: Mapping[str, str]) -> Runner:
        """The shipped runner with other words at places that occur exactly once."""
        text = load_runner().text.decode()
        for old, new in changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return runner_of(text.encode())

    def at_step(self, step: str, action: str) -> Runner:
        return self.changed({f": step {step}\n": f"{action}\n"})

    def call(self, verb: Verb, operation: str | None = "op_1", **fields: object) -> RunnerCall:
        known: dict[str, object] = {"verb": verb, "store": self.store, "nonce": f"n{next(self.nonces)}"}
        if verb not in {Verb.INIT, Verb.CHECK}:
            known["store_id"] = self.store_id
        if verb in {Verb.RUN, Verb.STATUS, Verb.FENCE, Verb.CANCEL, Verb.LIST}:
            known |= {"operation": operation, "issued_ms": ISSUED}
        if verb is Verb.RUN:
            known["command"] = self.marking()
        return RunnerCall(**{**known, **fields})  # type: ignore[arg-type]  # checked when it is made

    def marking(self, script: str = "") -> Command:
        """A command that leaves a line per execution in the ledger."""
        return command_of(["sh", "-c", f'echo "$GATEWAY_OPERATION" >>"$1"\n{script}', "sh", str(self.ledger)])

    def start(self, text: bytes) -> subprocess.Popen[bytes]:
        shell = str(self.tools / "sh")
        limited = [shell, "-c", f'trap "" XFSZ; ulimit -f {self.blocks_max}; exec "$0" -s', shell]
        process = subprocess.Popen(
            [shell, "-s"] if self.blocks_max is None else limited,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        return process

    def text(self, call: RunnerCall) -> bytes:
        return stdin_text(call, self.runner, boundary="EndOfPart7Q")

    def begin(self, call: RunnerCall) -> subprocess.Popen[bytes]:
        return self.start(self.text(call))

    def finish(self, process: subprocess.Popen[bytes], call: RunnerCall) -> Answer | None:
        output, _ = process.communicate(timeout=SECONDS_MAX)
        return read_answer(output, call)

    def try_ask(self, verb: Verb, operation: str | None = "op_1", **fields: object) -> Answer | None:
        call = self.call(verb, operation, **fields)
        return self.finish(self.begin(call), call)

    def ask(self, verb: Verb, operation: str | None = "op_1", **fields: object) -> Answer:
        answer = self.try_ask(verb, operation, **fields)
        assert answer is not None, "no evidence"
        return answer

    def init(self) -> Answer:
        answer = self.ask(Verb.INIT)
        self.store_id = answer.store_id
        return answer

    def executions(self, operation: str = "op_1") -> int:
        return self.ledger.read_text().split().count(operation) if self.ledger.exists() else 0

    def stub(self, tool: str, script: str) -> None:
        """Put a program of our own before the host's."""
        path = self.tools / tool
        path.unlink(missing_ok=True)
        path.write_text(f"#!{program('dash')}\n{script}\n")
        path.chmod(0o755)

    def files(self, operation: str = "op_1") -> set[str]:
        folder = Path(self.store, "ops", operation)
        return {path.name for path in folder.iterdir()} if folder.exists() else set()


def left_at(host: Host, step: str) -> None:
    """Begin a run whose runner dies at that step."""
    host.runner = host.at_step(step, "kill -9 $$")
    host.try_ask(Verb.RUN)


def freeze_at(host: Host, step: str) -> tuple[Runner, Path]:
    """A runner that stops there, and the pipe in which it says who stopped."""
    said = host.folder / "frozen"
    os.mkfifo(said)
    return host.at_step(step, f"echo $$ >{said}; kill -STOP $$"), said


def wait_until_stopped(process: int) -> None:
    """A process that is about to stop itself; the kernel says when it has."""
    while Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "T":
        os.sched_yield()
