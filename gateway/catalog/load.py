"""Catalog files as forms: everything that can be read is read, so that every mistake is told at once."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Generic, TypeVar

from pydantic import BaseModel

from gateway.catalog.forms import read_form, unknown_field
from gateway.catalog.mistake import Mistake, MistakesError
from gateway.catalog.schema import ARRIVES, ActionForm, CatalogForm, ServiceForm, runs_command
from gateway.catalog.schema_hosts import CommandForm, HostForm
from gateway.catalog.values import NAME_RULE, is_name
from gateway.catalog.yamltext import Document, Path, read_yaml
from gateway.core.strictjson import Json

_ENVIRONMENT = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SUFFIXES = frozenset({".yaml", ".yml"})

FormT = TypeVar("FormT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Entry(Generic[FormT]):
    """A service, a host or an action, and where it is written."""

    document: Document
    path: Path
    form: FormT

    def mistake(self, path: Path, detail: str, hint: str, *, warning: bool = False) -> Mistake:
        """A mistake at a path within the entry."""
        return self.document.mistake((*self.path, *path), detail, hint, warning=warning)


@dataclass(slots=True)
class Loaded:
    """What the files say, as far as it could be read."""

    services: dict[str, Entry[ServiceForm]] = field(default_factory=dict)
    hosts: dict[str, Entry[HostForm]] = field(default_factory=dict)
    actions: dict[str, Entry[ActionForm | CommandForm]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Every service that is written somewhere, readable or not."""
    host_names: set[str] = field(default_factory=set)
    """Every host, likewise."""
    mistakes: list[Mistake] = field(default_factory=list)
    complete: bool = True
    """Every file could be read as YAML: what is not among the names does not exist."""


def read_folder(folder: FilePath) -> dict[str, bytes]:
    """The catalog files of a folder by path, in order of their names. Raises `MistakesError` if there is none."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())
        files = {str(path): path.read_bytes() for path in paths}
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        hint = "“gateway init” writes a starter catalog."
        raise MistakesError([Mistake(str(folder), 0, 0, f"The catalog cannot be read: {reason}.", hint)]) from None
    if not files:
        hint = "“gateway init” writes a starter catalog."
        raise MistakesError([Mistake(str(folder), 0, 0, "The folder holds no catalog file (*.yaml).", hint)])
    return files


def load(files: Mapping[str, bytes]) -> Loaded:
    """Read catalog files given by name. Mistakes are collected, never raised."""
    loaded = Loaded()
    for name, data in files.items():
        try:
            document = read_yaml(data, name)
        except MistakesError as error:
            loaded.mistakes += error.mistakes
            loaded.complete = False
        else:
            _take(document, loaded)
    return loaded


def _take(document: Document, loaded: Loaded) -> None:
    loaded.mistakes += _environment(document, document.value, ())
    top = document.value
    if top is None:
        return
    if not isinstance(top, dict):
        hint = "Start with “services:” and “actions:”."
        loaded.mistakes.append(document.mistake((), "A catalog file is a mapping.", hint))
        return
    known = [field.alias or name for name, field in CatalogForm.model_fields.items()]
    loaded.mistakes += [unknown_field(document, (word,), known, ARRIVES) for word in top if word not in known]
    for kind in ("services", "hosts", "actions"):
        entries = top.get(kind)
        if entries is not None and not isinstance(entries, dict):
            detail = f"“{kind}” is a mapping of names to definitions."
            loaded.mistakes.append(document.mistake((kind,), detail, "Write a name and a colon."))
            continue
        for name in entries or {}:
            _take_entry(document, (kind, name), loaded)


def _take_entry(document: Document, path: Path, loaded: Loaded) -> None:
    kind, name = str(path[0]), str(path[1])
    if not is_name(name):
        loaded.mistakes.append(document.mistake(path, *NAME_RULE))
    mistakes: list[Mistake]
    if kind == "services":
        loaded.names.add(name)
        service, mistakes = read_form(document, path, ServiceForm, ARRIVES)
        if service is not None:
            mistakes += _add(loaded.services, Entry(document, path, service))
    elif kind == "hosts":
        loaded.host_names.add(name)
        host, mistakes = read_form(document, path, HostForm, ARRIVES)
        if host is not None:
            mistakes += _add(loaded.hosts, Entry(document, path, host))
    else:
        action: ActionForm | CommandForm | None
        if runs_command(document.value[kind][name]):
            action, mistakes = read_form(document, path, CommandForm, ARRIVES)
        else:
            action, mistakes = read_form(document, path, ActionForm, ARRIVES)
        if action is not None:
            written: Entry[ActionForm | CommandForm] = Entry(document, path, action)
            mistakes += _add(loaded.actions, written)
    loaded.mistakes += mistakes


def _add(entries: dict[str, Entry[FormT]], entry: Entry[FormT]) -> list[Mistake]:
    name = str(entry.path[-1])
    first = entries.setdefault(name, entry)
    if first is entry:
        return []
    line = first.document.keys[first.path].line
    detail = f"“{name}” is declared already, in {first.document.file} on line {line}."
    return [entry.mistake((), detail, "Give it another name, or remove one.")]


def _environment(document: Document, value: Json, path: Path) -> Iterator[Mistake]:
    if isinstance(value, str) and _ENVIRONMENT.search(value):
        hint = "Put secrets into the vault (“gateway credentials set”), and write other values out."
        yield document.mistake(path, "The environment is not read in a catalog.", hint)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _environment(document, item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _environment(document, item, (*path, index))
