"""From a command's template and its variables to the exact words: each element one word, whatever an argument holds."""

import re
from collections.abc import Mapping
from typing import Final

from gateway.core.placeholders import Name, parts, refuse, render_text
from gateway.core.strictjson import Json, canonical
from gateway.model.action import RequestTemplate
from gateway.model.problem import Code, FieldError, Problem, ensure

RUN: Final = "RUN"
PROBE: Final = "PROBE"
STATUS: Final = "STATUS"
FENCE: Final = "FENCE"
WORDS_BYTES_MAX: Final = 60_000
"""Of all words, quoted for a shell: the most that the runner takes."""

_BREAKS = re.compile(r"[\x00\r\n]")


def render_command(template: RequestTemplate, variables: Mapping[str, Json]) -> bytes:
    """The body of a request to a host: `{"argv": […]}` in canonical JSON; empty where no command is named.

    A job of several commands is `{"steps": [{"argv": […], "name": …}, …]}`.

    Nothing is quoted here and no shell reads it: the words stay words up to the program that is run. Raises
    `Problem(invalid_input)` with a pointer to the argument that does not fit.
    """
    if template.body is None:
        return b""
    if "steps" in template.body:
        steps = template.body["steps"]
        return canonical({"steps": [step | {"argv": _argv(step["argv"], template, variables)} for step in steps]})
    return canonical({"argv": _argv(template.body["argv"], template, variables)})


def _argv(texts: list[str], template: RequestTemplate, variables: Mapping[str, Json]) -> list[str]:
    argv = [_word(text, template, variables) for text in texts]
    ensure(argv and argv[0] and argv[0][0] != "-", "a command begins with the name of a program")
    if sum(len(word.encode()) + 3 * word.count("'") + 3 for word in argv) > WORDS_BYTES_MAX - len("exec "):
        raise Problem(
            Code.INVALID_INPUT,
            f"The command would be longer than {WORDS_BYTES_MAX} bytes.",
            "Give shorter arguments; leave what is long in a place that the command can read.",
            errors=(FieldError("", "The arguments are too long together.", "Give shorter ones."),),
        )
    return argv


def _word(text: str, template: RequestTemplate, variables: Mapping[str, Json]) -> str:
    pieces = parts(text)
    for piece in pieces:
        if isinstance(piece, Name) and piece.name in variables:
            value = variables[piece.name]
            if isinstance(value, str) and _BREAKS.search(value):
                raise refuse(
                    piece.name, "The value holds a NUL or a line break.", "Give it on one line, without a NUL."
                )
    word = render_text(text, variables)
    first = pieces[0] if pieces else ""
    if isinstance(first, Name) and first.name not in template.opaque and word.startswith("-"):
        # The program would take it for an option that nobody declared.
        raise refuse(first.name, "The value begins with a dash, like an option.", "Give a value without it.")
    return word
