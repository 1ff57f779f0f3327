"""Converts plain values to checked ones: msgspec checks every section and every watch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from agent.config.model import Config

if TYPE_CHECKING:
    from agent.specs import CoverageSpec, SyncSpec
    from nostr_client.watch.definition import Watch

S = TypeVar("S", bound=msgspec.Struct)

Path = tuple[str | int, ...]
Complain = Callable[[Path, str], None]

# "Object contains unknown field `x` - at `$.rules[0]`": the error of msgspec, and its path.
_AT: Final = re.compile(r" - at `(?:key in )?\$(.*?)(?:\[\.\.\.\].*)?`$")
_PART: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_KEY: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`")


class ConfigField(NamedTuple):
    """One setting: `many` is true for an array of tables of type `struct`."""

    name: str
    type: Any
    default: Any
    struct: type[msgspec.Struct] | None
    many: bool


def fields(struct: type[msgspec.Struct]) -> list[ConfigField]:
    """The settings of a table in their order."""
    return [_field(one) for one in msgspec.structs.fields(struct)]


def convert(value: object, struct: type[S], complain: Complain, path: Path = ()) -> S | None:
    """Convert `value` to `struct`; None, and a complaint with msgspec's path, if that fails."""
    try:
        return msgspec.convert(value, struct)
    except msgspec.ValidationError as error:
        at, why = _explained(str(error), struct)
        complain((*path, *at), why)
        return None


class CheckedConfig(NamedTuple):
    """The values of a file that have the right types; a section in `wrong` is its default here.

    Watches, syncs and coverages have their number in the file.
    """

    config: Config
    wrong: frozenset[str]
    watches: tuple[tuple[int, Watch], ...]
    syncs: tuple[tuple[int, SyncSpec], ...]
    coverages: tuple[tuple[int, CoverageSpec], ...]


def whole(config: Config) -> CheckedConfig:
    """A configuration in which every value has the right type."""
    return CheckedConfig(
        config,
        frozenset(),
        tuple(enumerate(config.watches)),
        tuple(enumerate(config.syncs)),
        tuple(enumerate(config.coverage)),
    )


def convert_sections(table: Mapping[str, Any], complain: Complain) -> CheckedConfig:
    """Convert each section, watch, sync and coverage; complain about the first mistake of each."""
    known = {one.name: one for one in fields(Config)}
    good: dict[str, Any] = {"watches": (), "syncs": (), "coverage": ()}
    for name, value in table.items():
        if name not in known:
            complain((name,), _unknown(name, known))
        elif known[name].many and isinstance(value, list):
            good[name] = tuple(_items(value, known[name], complain))
            if len(good[name]) == len(value):
                convert({name: value}, Config, complain)  # there may be too many
        elif (made := convert({name: value}, Config, complain)) is not None:
            good[name] = getattr(made, name)
    sections = {name: one for name, one in good.items() if not known[name].many}
    wrong = frozenset(table) & known.keys() - good.keys()
    lists = (good["watches"], good["syncs"], good["coverage"])
    return CheckedConfig(Config(**sections), wrong, *lists)


def _items(items: list[Any], one: ConfigField, complain: Complain) -> Iterator[tuple[int, Any]]:
    assert one.struct is not None
    for n, item in enumerate(items):
        made = convert(item, one.struct, complain, (one.name, n))
        if made is not None:
            yield n, made


def _explained(text: str, struct: Any) -> tuple[Path, str]:
    """Where a mistake is, and why it is one, from the text of msgspec's error."""
    at = _AT.search(text)
    parts = _PART.findall(at[1] if at else "")
    path: Path = tuple(int(index) if index else key for key, index in parts)
    text = _AT.sub("", text)
    key = _KEY.fullmatch(text)
    kind = _type_at(struct, path)
    if key is None:
        return path, _reason(text, kind)
    if key[1] == "missing required":
        return (*path, key[2]), "is missing"
    return (*path, key[2]), _unknown(key[2], {one.name: one for one in fields(kind)})


def _type_at(kind: Any, path: Path) -> Any:
    """The type at a path of a struct."""
    for part in path:
        if isinstance(part, int):
            kind = get_args(_bare(kind))[0]
        else:
            kind = next(one.type for one in fields(_bare(kind)) if one.name == part)
    return kind


def _bare(kind: Any) -> Any:
    """A type without its annotations."""
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    return kind


def _reason(text: str, kind: Any) -> str:
    """What a duration, say, looks like is better described in words than by a pattern."""
    text = text[0].lower() + text[1:]
    if text.startswith("invalid enum value") and (known := _choices(kind)):
        return f"{text}; known are {', '.join(known)}"
    if "matching regex" not in text:
        return text
    hint = description(kind)
    return f"is not {hint}" if hint else text


def description(kind: Any) -> str:
    """What an annotated type says about its own form; "" where it says nothing."""
    for meta in metas(kind):
        if meta.pattern and meta.description:
            return meta.description
    inner = get_args(kind)
    return description(inner[0]) if inner and not isinstance(inner[0], str) else ""


def _choices(kind: Any) -> list[str]:
    """The words that a type allows, in their order."""
    if get_origin(kind) is Literal:
        return list(map(str, get_args(kind)))
    return [word for inner in get_args(kind) for word in _choices(inner)]


def metas(kind: Any) -> list[msgspec.Meta]:
    """The annotations of a type, the innermost first."""
    found = [m for m in getattr(kind, "__metadata__", ()) if isinstance(m, msgspec.Meta)]
    return metas(kind.__origin__) + found if hasattr(kind, "__metadata__") else found


def _field(one: msgspec.structs.FieldInfo) -> ConfigField:
    kind = _bare(one.type)
    many = get_origin(kind) is tuple
    inner = get_args(kind)[0] if many else kind
    struct = inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None
    default = one.default
    if default is msgspec.NODEFAULT and one.default_factory is not msgspec.NODEFAULT:
        default = one.default_factory()
    return ConfigField(one.name, one.type, default, struct, many)


def _unknown(key: str, known: Mapping[str, ConfigField]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"unknown key; did you mean {near[0]}?" if near else "unknown key"
