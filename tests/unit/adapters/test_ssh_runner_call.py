"""What is handed to a host: the command, the words of the call, the text that carries both; and what never is."""

import re
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ssh.runner import load_runner, runner_of
from adapters.ssh.runner_call import EXEC_LINE, RunnerCall, Verb, arguments, stdin_text
from adapters.ssh.runner_command import COMMAND_BYTES_MAX, SecretVariable, UnfitCall, command_of, quoted
from tests.unit.adapters.remote_host import SHELLS, program

BOUNDARY = "EndOfPart7Q"


def _call(**fields: Any) -> RunnerCall:
    known: dict[str, Any] = {
        "verb": Verb.RUN,
        "store": "/var/lib/gw",
        "nonce": "nonce12345",
        "store_id": "s1",
        "operation": "op_1",
        "command": command_of(["true"]),
    }
    return RunnerCall(**{**known, **fields})


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_quoting_gives_back_the_words(words: list[str]) -> None:
    text = command_of(["program", *words]).text.decode()

    assert shlex.split(text) == ["exec", "program", *words]
    assert shlex.split(" ".join(map(quoted, words))) == words


def test_the_digest_covers_the_text_and_the_names_of_secrets_but_not_their_values() -> None:
    argv: list[str | SecretVariable] = ["login", SecretVariable("TOKEN")]
    one, two = (command_of(argv, secrets={"TOKEN": value}, exported=["TOKEN"]) for value in ("a", "b"))

    assert one.text == b"export TOKEN\nexec 'login' \"$TOKEN\"\n"
    assert (one.digest, one.secrets) == (two.digest, b"TOKEN='a'\n")
    assert "TOKEN='a'" not in repr(one)


@pytest.mark.parametrize(
    ("argv", "secrets", "exported"),
    [
        ([], {}, []),
        ([""], {}, []),
        (["-c"], {}, []),
        ([SecretVariable("A")], {"A": "x"}, []),
        (["a\0b"], {}, []),
        (["a", "\ud800"], {}, []),
        (["a", "x" * COMMAND_BYTES_MAX], {}, []),
        (["a", SecretVariable("A")], {}, []),
        (["a"], {}, ["A"]),
        (["a"], {"a b": "x"}, []),
        (["a"], {"A": "\0"}, []),
        (["a"], {"A": "x" * COMMAND_BYTES_MAX}, []),
    ],
)
def test_a_command_that_cannot_be_handed_over_is_refused(argv: list[Any], secrets: Any, exported: Any) -> None:
    with pytest.raises(UnfitCall):
        command_of(argv, secrets=secrets, exported=exported)


@pytest.mark.parametrize(
    "fields",
    [
        {"store": "relative"},
        {"store": "/"},
        {"store": "/a/../b"},
        {"store": "/a b"},
        {"store": "/a'b"},
        {"store": "/a\n"},
        {"nonce": "short"},
        {"nonce": "with space"},
        {"store_id": None},
        {"store_id": "-x"},
        {"operation": None},
        {"operation": "../x"},
        {"operation": ".."},
        {"operation": "a b"},
        {"operation": "x" * 129},
        {"attempt": 0},
        {"attempt": 100},
        {"issued_ms": 0},
        {"issued_ms": 10**15},
        {"follow_seconds": 0},
        {"keep_bytes": 65_537},
        {"lock": "a/b", "lock_seconds": 5},
        {"lock": "web"},
        {"command": None},
        {"verb": Verb.STATUS},
        {"verb": Verb.PROBE},
        {"verb": Verb.INIT, "command": None},
        {"verb": Verb.UNLOCK, "command": None, "lock": "web"},
        {"verb": Verb.COLLECT, "command": None},
        {"verb": Verb.CANCEL, "command": None, "signal": "HUP"},
    ],
)
def test_a_call_that_the_runner_would_not_take_is_refused_here(fields: dict[str, Any]) -> None:
    with pytest.raises(UnfitCall):
        _call(**fields)


@pytest.mark.parametrize("store", ["relative", "/", "/a b", "/a/../b"])
def test_a_store_that_is_no_absolute_path_is_said_to_be_none(store: str) -> None:
    with pytest.raises(UnfitCall, match="is no absolute path"):
        _call(store=store)


def test_a_boundary_that_occurs_in_the_text_or_is_none_is_refused() -> None:
    call = _call(command=command_of(["echo", BOUNDARY]))

    for boundary in (BOUNDARY, "short", "with space"):
        with pytest.raises(UnfitCall):
            stdin_text(call, load_runner(), boundary)


def test_no_secret_is_among_the_words_of_the_call() -> None:
    call = _call(command=command_of(["true"], secrets={"TOKEN": "hunter2hunter2"}))

    assert "hunter2" not in EXEC_LINE + " ".join(arguments(call)) + repr(call)
    assert stdin_text(call, load_runner(), BOUNDARY).count(b"hunter2hunter2") == 1


@pytest.mark.parametrize("verb", Verb)
def test_the_runner_knows_every_word_of_every_call(verb: Verb) -> None:
    fields: dict[str, Any] = {"verb": verb, "lock": "web", "lock_seconds": 5, "number": 1, "before_ms": 1}
    if verb not in {Verb.RUN, Verb.PROBE}:
        fields["command"] = None
    if verb in {Verb.INIT, Verb.CHECK}:
        fields["store_id"] = None
    text = load_runner().text.decode()

    for word in arguments(_call(limit_seconds=1, **fields)):
        assert f"\n    {word.partition('=')[0]}=*)" in text, word
    assert f"\n{verb.value}() {{" in text


def test_the_head_of_the_runner_names_every_verb_and_every_word() -> None:
    head, _, rest = load_runner().text.decode().partition("\nset -uf\n")
    verbs = re.findall(r"^# ([a-z]+)  +\S", head, re.MULTILINE)
    words = re.findall(r"^    ([a-z_]+)=\*\) \1=", rest, re.MULTILINE)

    assert verbs == re.findall(r"^# (\S+)", head[head.index("# run ") : head.index("# `supervise`")], re.MULTILINE)
    assert sorted(verbs) == sorted(verb.value for verb in Verb)
    assert [word for word in words if not re.search(rf"\b{word}\b", head)] == []


def test_the_digest_is_that_of_the_shipped_text() -> None:
    assert runner_of(load_runner().text) == load_runner()
    assert len(load_runner().text) < COMMAND_BYTES_MAX


def test_the_runner_is_clean_for_the_shell_checker() -> None:
    checked = subprocess.run(
        [program("shellcheck"), "--shell=sh", "-"], input=load_runner().text, capture_output=True, check=False
    )

    assert (checked.returncode, checked.stdout.decode()) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_text_of_a_call_is_one_command_of_which_no_part_parses(shell: str) -> None:
    """A shell that has got a part of it finds a syntax error, so it has run nothing."""
    text = stdin_text(_call(), load_runner(), BOUNDARY)
    command = [program(shell), *(["ash"] if shell == "busybox" else []), "-n"]

    def parses(part: bytes) -> bool:
        return subprocess.run(command, input=part, capture_output=True, check=False).returncode == 0

    assert parses(text)
    assert not any(parses(text[:cut]) for cut in range(2, len(text) - 2, len(text) // 60))
