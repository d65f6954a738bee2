"""`gateway.yaml` and the environment as one settings object, with the same strictness and the same kind of mistakes."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from gateway.catalog.forms import read_form
from gateway.catalog.mistake import Mistake, MistakesError
from gateway.catalog.yamltext import Document, Path, read_yaml
from gateway.core.strictjson import Json
from gateway.settings import Settings

CONFIG_VARIABLE: Final = "GATEWAY_CONFIG"
ADDRESS_VARIABLE: Final = "GATEWAY_ADDR"
STORE_VARIABLE: Final = "GATEWAY_STORE_URL"
VAULT_VARIABLE: Final = "GATEWAY_VAULT_KEY"

FILE_NAME: Final = "gateway.yaml"
_NAME_BYTES_MAX: Final = 255
"""Of one name in a folder, on every file system of Linux."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ADDRESS = re.compile(r"(?:https?://)?(\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+):([0-9]{1,5})/?")
_NOTHING: Mapping[str, str] = MappingProxyType({})

_KEYS_HINT = "Keys live in the store: “gateway keys create” makes one."
_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {"key": _KEYS_HINT, "keys": _KEYS_HINT, "token": _KEYS_HINT, "people": _KEYS_HINT}
)

T = TypeVar("T")


def config_path(environment: Mapping[str, str]) -> FilePath:
    """Where the settings file is: `GATEWAY_CONFIG`, else `gateway.yaml` in the current folder."""
    return FilePath(environment.get(CONFIG_VARIABLE) or FILE_NAME)


def open_settings(path: FilePath, environment: Mapping[str, str]) -> Settings:
    """The settings of a file and the environment. Raises `MistakesError`; values of variables are never shown."""
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "it failed").lower()
        hint = "“gateway init” writes one."
        raise MistakesError([Mistake(str(path), 0, 0, f"The settings cannot be read: {reason}.", hint)]) from None
    return read_settings(data, str(path), environment)


def read_settings(data: bytes, file: str, environment: Mapping[str, str]) -> Settings:
    """Settings from the bytes of a settings file. Relative paths count from the folder of that file."""
    document = read_yaml(data, file)
    if document.value is None:
        document.value = {}
    if not isinstance(document.value, dict):
        raise MistakesError([document.mistake((), "The settings are a mapping.", "For example “server:”.")])
    mistakes: list[Mistake] = []
    document.value = _expand(document, document.value, (), environment, mistakes)
    form, wrong = read_form(document, (), _form_of(Settings), _NOTHING)
    mistakes += [_about_keys(mistake) for mistake in wrong]
    if form is None or mistakes:
        raise MistakesError(mistakes)
    settings = _built(Settings, form)
    rules_wrong = list(_contradictions(document, settings))
    overridden = _override(settings, environment, rules_wrong)
    if rules_wrong:
        raise MistakesError(rules_wrong)
    return _absolute(overridden, FilePath(file).resolve().parent)


def settings_schema() -> dict[str, Json]:
    """JSON Schema 2020-12 of `gateway.yaml`, for editors."""
    schema = _form_of(Settings).model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Action Gateway settings"}


def _expand(
    document: Document, value: Json, path: Path, environment: Mapping[str, str], mistakes: list[Mistake]
) -> Json:
    """Replace `${NAME}` in texts. A variable that is not set is a mistake: an empty secret is no secret."""
    if isinstance(value, dict):
        return {key: _expand(document, item, (*path, key), environment, mistakes) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(document, item, (*path, index), environment, mistakes) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    for name in _VARIABLE.findall(value):
        if not environment.get(name):
            hint = "Set it, or write the value out."
            mistakes.append(document.mistake(path, f"The environment variable {name} is not set.", hint))
    return _VARIABLE.sub(lambda match: environment.get(match.group(1), ""), value)


def _about_keys(mistake: Mistake) -> Mistake:
    match = re.fullmatch(r"There is no field “(\w+)” here\.", mistake.detail)
    hint = _ELSEWHERE.get(match.group(1)) if match else None
    return mistake if hint is None else dataclasses.replace(mistake, hint=hint)


def _form_of(kind: type[Any]) -> type[BaseModel]:
    """A strict form with the fields, defaults and bounds of a settings class, so that each is written down once."""
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        if not item.metadata.get("file", True):
            continue
        bounds = {name: bound for name, bound in item.metadata.items() if name in {"gt", "ge", "lt", "le"}}
        annotation = _annotation(hints[item.name])
        if item.default is not dataclasses.MISSING and not isinstance(item.default, tuple):
            fields[item.name] = (annotation, Field(default=item.default, **bounds))
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            fields[item.name] = (annotation, Field(**bounds))
        else:
            fields[item.name] = (annotation | None, Field(default=None))
    config = ConfigDict(extra="forbid", strict=True, frozen=True)
    return create_model(kind.__name__, __config__=config, __doc__=kind.__doc__, **fields)


def _annotation(hint: Any) -> Any:  # noqa: ANN401 - annotations have no common type
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _form_of(hint)
    if get_origin(hint) is tuple:
        return list[_annotation(get_args(hint)[0])]  # type: ignore[misc] # built at run time
    return hint


def _built(kind: type[T], form: BaseModel) -> T:
    """The settings object that a form describes; what the form leaves out keeps its default."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name in form.model_fields_set:
        value = getattr(form, name)
        if value is not None:
            values[name] = _converted(hints[name], value)
    return kind(**values)


def _converted(hint: Any, value: Any) -> Any:  # noqa: ANN401 - the form has checked the types
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        return tuple(_built(inner, item) if isinstance(item, BaseModel) else item for item in value)
    return _built(hint, value) if isinstance(value, BaseModel) else value


def _contradictions(document: Document, settings: Settings) -> Iterator[Mistake]:
    names: set[str] = set()
    for index, rule in enumerate(settings.access):
        if rule.name and rule.name in names:
            yield document.mistake(("access", index, "name"), f"Two rules are named “{rule.name}”.", "Rename one.")
        names.add(rule.name)
    hint = "Like a URL without its scheme, for example gw.example/audit/prod-1."
    origin = settings.audit.origin
    if "+" in origin or "://" in origin or not all(char.isprintable() and not char.isspace() for char in origin):
        yield document.mistake(("audit", "origin"), "An origin has no scheme, no spaces and no “+”.", hint)
    elif not all(_is_folder_name(part) for part in origin.split("/")):
        detail = "An origin names a folder below the data folder: it has plain parts between slashes."
        yield document.mistake(("audit", "origin"), detail, hint)
    for path, text in _paths(settings):
        if "\0" in text:
            yield document.mistake(path, "A path has no zero bytes.", "Write it as `ls` shows it.")
        try:
            FilePath(text).expanduser()
        except RuntimeError:
            yield document.mistake(path, "There is no home folder of that name.", "Write the whole path out.")


def _is_folder_name(part: str) -> bool:
    return part not in {"", ".", ".."} and len(part.encode()) <= _NAME_BYTES_MAX


def _paths(settings: Settings) -> Iterator[tuple[Path, str]]:
    yield ("data_folder",), settings.data_folder
    yield ("catalog_folder",), settings.catalog_folder
    yield ("vault", "key_file"), settings.vault.key_file
    for index, anchor in enumerate(settings.audit.anchors):
        yield ("audit", "anchors", index), anchor
    if settings.audit.witness_policy is not None:
        yield ("audit", "witness_policy"), settings.audit.witness_policy


def _override(settings: Settings, environment: Mapping[str, str], mistakes: list[Mistake]) -> Settings:
    address = environment.get(ADDRESS_VARIABLE)
    if address:
        match = _ADDRESS.fullmatch(address)
        if match is None or int(match.group(2)) > 65535:
            detail = f"The environment variable {ADDRESS_VARIABLE} is no address."
            mistakes.append(Mistake("environment", 0, 0, detail, "Write host:port, for example 127.0.0.1:8420."))
        else:
            host, port = match.group(1).strip("[]"), int(match.group(2))
            settings = dataclasses.replace(settings, server=dataclasses.replace(settings.server, host=host, port=port))
    if environment.get(STORE_VARIABLE):
        store = dataclasses.replace(settings.store, url=environment[STORE_VARIABLE])
        settings = dataclasses.replace(settings, store=store)
    if environment.get(VAULT_VARIABLE):
        vault = dataclasses.replace(settings.vault, key=environment[VAULT_VARIABLE])
        settings = dataclasses.replace(settings, vault=vault)
    return _named(settings)


def _named(settings: Settings) -> Settings:
    """Every access rule gets a name: it is shown as the reason of a decision."""
    rules = (
        rule if rule.name else dataclasses.replace(rule, name=f"rule-{number}")
        for number, rule in enumerate(settings.access, start=1)
    )
    return dataclasses.replace(settings, access=tuple(rules))


def _absolute(settings: Settings, folder: FilePath) -> Settings:
    def resolved(path: str) -> str:
        return str(folder / FilePath(path).expanduser())

    return dataclasses.replace(
        settings,
        data_folder=resolved(settings.data_folder),
        catalog_folder=resolved(settings.catalog_folder),
        audit=dataclasses.replace(
            settings.audit,
            anchors=tuple(map(resolved, settings.audit.anchors)),
            witness_policy=None if settings.audit.witness_policy is None else resolved(settings.audit.witness_policy),
        ),
        vault=dataclasses.replace(settings.vault, key_file=resolved(settings.vault.key_file)),
    )
