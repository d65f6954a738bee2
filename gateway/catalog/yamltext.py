"""Strict YAML: JSON's types only, no aliases, tags or duplicate keys, and a line and column for every key and value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from gateway.catalog.mistake import Mistake, MistakesError
from gateway.core.strictjson import INTEGER_MAX, Json

SIZE_MAX_BYTES: Final = 1_000_000
DEPTH_MAX: Final = 64
MISTAKES_MAX: Final = 200

Path = tuple[str | int, ...]
"""Keys and indexes that lead from the top of a document to a value."""

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_AMBIGUOUS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"yes|no|on|off", re.IGNORECASE), "is true or false to some readers of YAML and text to others"),
    (re.compile(r"true|false|null", re.IGNORECASE), "is a word of YAML in an unusual spelling"),
    (re.compile(r"~"), "means null to YAML"),
    (re.compile(r"[-+]?0[0-9_]+"), "is an octal number to some readers of YAML"),
    (re.compile(r"[-+]?0[xob][0-9a-f_]+", re.IGNORECASE), "is a number in another base to some readers of YAML"),
    (re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"), "is a number in base 60 to some readers of YAML"),
    (re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?"), "is a number to some readers of YAML and text to others"),
    (re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE), "is not a number that JSON has"),
    (
        re.compile(r"\+?(?:[0-9]+\.?|[0-9]*\.[0-9]+)(?:e[-+]?[0-9]+)?", re.IGNORECASE),
        "is a number in a form that JSON lacks",
    ),
    (re.compile(r"[-+]?(?:0[0-9]*)?\.[0-9]+|[-+]?0[0-9]+\.[0-9]*"), "is a number in a form that JSON lacks"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?"), "is a date to some readers of YAML"),
    (re.compile(r"<<|="), "is a command to some readers of YAML"),
)
_QUOTE = "Quote it if you mean text."


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column of the first character, both from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Document:
    """A file's value, and where each part of it stands."""

    file: str
    value: Json = None
    places: dict[Path, Place] = field(default_factory=dict)
    """Where each value starts."""
    keys: dict[Path, Place] = field(default_factory=dict)
    """Where the key that leads to each value starts."""

    def mistake(self, path: Path, detail: str, hint: str = "", *, warning: bool = False) -> Mistake:
        """A mistake at the nearest place that exists: the key if the path has one, else the closest value above."""
        while path and path not in self.places:
            path = path[:-1]
        place = self.keys.get(path) or self.places.get(path) or Place(1, 1)
        return Mistake(self.file, place.line, place.column, detail, hint, warning)


def read_yaml(data: bytes, file: str) -> Document:
    """Read one document. Raises `MistakesError` with every mistake that can be told apart from the others."""
    if len(data) > SIZE_MAX_BYTES:
        raise MistakesError([Mistake(file, 0, 0, "The file is larger than 1 MB.", "Split it into several files.")])
    reader = _Reader(file)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise MistakesError([Mistake(file, line, 1, "The file is not valid UTF-8.", "Save it as UTF-8.")]) from None
    try:
        reader.take_all(yaml.SafeLoader(text))
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        reader.report(Place(line, 1), "The file holds a character that YAML does not allow.", "Remove it or escape it.")
    except yaml.MarkedYAMLError as error:
        reader.report_syntax(error)
    except _Stop:
        pass
    if reader.mistakes:
        raise MistakesError(reader.mistakes)
    return reader.document


class _Stop(Exception):
    """Reading on would only repeat itself."""


@dataclass(slots=True)
class _Open:
    """A mapping or list that is being read."""

    value: dict[str, Json] | list[Json]
    path: Path
    flow: bool
    key: str | None = None


class _Reader:
    """Builds the value from parser events, so that nothing is interpreted that we have not looked at."""

    def __init__(self, file: str) -> None:
        self.document = Document(file)
        self.mistakes: list[Mistake] = []
        self._open: list[_Open] = []
        self._documents = 0

    def take_all(self, loader: yaml.SafeLoader) -> None:
        """Digest every event that the parser finds."""
        while (event := self._next(loader)) is not None:
            self.take(event)

    def _next(self, loader: Any) -> Event | None:  # noqa: ANN401 - the parser declares no types
        try:
            return loader.get_event() if loader.check_event() else None
        except (ValueError, OverflowError):
            # The parser does not look at the size of a number that an escape or a directive gives.
            mark = loader.get_mark()
            place, hint = Place(mark.line + 1, mark.column + 1), "Write the character itself."
            self._stop(place, "An escape or a directive holds a number that is too large.", hint)

    def take(self, event: Event) -> None:
        """Digest one event. Raises `_Stop` where no sense can be made of what follows."""
        match event:
            case AliasEvent():
                self.report(_place(event), "Aliases are not allowed.", "Write the value out where it is used.")
                self._value(None, _place(event))
            case ScalarEvent():
                self._check_node(event)
                self._scalar(event)
            case MappingStartEvent() | SequenceStartEvent():
                self._check_node(event)
                self._start(event)
            case MappingEndEvent() | SequenceEndEvent():
                self._open.pop()
            case DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._stop(_place(event), "The file holds more than one document.", "Remove the line “---”.")
            case StreamStartEvent() | StreamEndEvent() | DocumentEndEvent():
                pass
            case _:
                self._stop(_place(event), "This part of YAML is not used here.", "")

    def report(self, place: Place, detail: str, hint: str = "") -> None:
        """Keep a mistake and go on."""
        self.mistakes.append(Mistake(self.document.file, place.line, place.column, detail, hint))
        if len(self.mistakes) >= MISTAKES_MAX:
            raise _Stop

    def report_syntax(self, error: yaml.MarkedYAMLError) -> None:
        """Keep what the parser says; it cannot go on."""
        mark = error.problem_mark or error.context_mark
        place = Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)
        problem = (error.problem or "it cannot be read").rstrip(".")
        hint = (
            "Indent with spaces, not tabs." if "\\t" in problem else "Check indentation, colons and quotes around here."
        )
        self.mistakes.append(
            Mistake(self.document.file, place.line, place.column, f"This is not valid YAML: {problem}.", hint)
        )

    def _stop(self, place: Place, detail: str, hint: str) -> NoReturn:
        self.report(place, detail, hint)
        raise _Stop

    def _check_node(self, event: ScalarEvent | CollectionStartEvent) -> None:
        if event.anchor is not None:
            self.report(_place(event), "Anchors are not allowed.", "Write the value out where it is used.")
        if event.tag is not None:
            self.report(_place(event), "Tags are not allowed.", "Remove the word that starts with “!”.")

    def _start(self, event: CollectionStartEvent) -> None:
        if len(self._open) >= DEPTH_MAX:
            self._stop(_place(event), f"The file is nested deeper than {DEPTH_MAX} levels.", "Flatten it.")
        value: dict[str, Json] | list[Json] = {} if isinstance(event, MappingStartEvent) else []
        path = self._value(value, _place(event))
        self._open.append(_Open(value, path, bool(event.flow_style)))

    def _scalar(self, event: ScalarEvent) -> None:
        place = _place(event)
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            self._key(parent, event, place)
            return
        if parent is not None and parent.flow and parent.key is not None and event.value == "" and event.style is None:
            hint = f'Write "{{{parent.key}}}" if you mean the placeholder.'
            self.report(self.document.keys[(*parent.path, parent.key)], "A placeholder needs quotes.", hint)
        self._value(self._plain(event, place), place)

    def _key(self, parent: _Open, event: ScalarEvent, place: Place) -> None:
        key = event.value
        if not isinstance(self._plain(event, place), str):
            self.report(place, "A key must be text.", "Quote it.")
        path = (*parent.path, key)
        if key in parent.value:
            first = self.document.keys[path].line
            self.report(
                place, f"The key “{_short(key)}” appears twice here; it was first given on line {first}.", "Remove one."
            )
        else:
            self.document.keys[path] = place
        parent.key = key

    def _value(self, value: Json, place: Place) -> Path:
        """Put a value where the open mapping or list expects one, and say where that is."""
        parent = self._open[-1] if self._open else None
        path: Path = ()
        if parent is None:
            self.document.value = value
        elif isinstance(parent.value, list):
            path = (*parent.path, len(parent.value))
            parent.value.append(value)
        elif parent.key is None:
            self._stop(place, "A key must be text.", "Quote it; a placeholder needs quotes too.")
        else:
            path = (*parent.path, parent.key)
            parent.value.setdefault(parent.key, value)
            parent.key = None
        self.document.places.setdefault(path, place)
        return path

    def _plain(self, event: ScalarEvent, place: Place) -> Json:
        """The JSON value of a scalar. Quoted and block scalars are text, whatever they look like."""
        text = event.value
        if event.style is not None:
            if re.search("[\ud800-\udfff]", text):
                self.report(place, "The text holds half of a surrogate pair.", "Write the character itself.")
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return self._integer(text, place)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if abs(number) != float("inf"):
                return number
            self.report(place, "The number does not fit a 64-bit float.", _QUOTE)
            return 0
        for pattern, reason in _AMBIGUOUS:
            if pattern.fullmatch(text):
                self.report(place, f"“{_short(text)}” {reason}.", _QUOTE)
                break
        return text

    def _integer(self, text: str, place: Place) -> int:
        if len(text) <= 17 and abs(int(text)) <= INTEGER_MAX:
            return int(text)
        self.report(place, "The whole number lies beyond 2^53 - 1, where readers of JSON disagree.", _QUOTE)
        return 0


_WORDS: Mapping[str, Json] = {"": None, "null": None, "true": True, "false": False}


def _place(event: Event) -> Place:
    mark = event.start_mark
    return Place(1, 1) if mark is None else Place(mark.line + 1, mark.column + 1)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
