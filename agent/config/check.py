"""Plain values to checked ones, with every mistake instead of the first."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S", bound=msgspec.Struct)

Path = tuple[str | int, ...]

_AT: Final = re.compile(r" - at `\$(.*)`$")


class Field(NamedTuple):
    """One setting: `many` is true for an array of tables of type `struct`."""

    name: str
    type: Any
    default: Any
    struct: type[msgspec.Struct] | None
    many: bool


def fields(struct: type[msgspec.Struct]) -> list[Field]:
    """The settings of a table in their order."""
    return [_field(one) for one in msgspec.structs.fields(struct)]


def convert(
    value: object, struct: type[S], complain: Callable[[Path, str], None], path: Path = ()
) -> S | None:
    """`value` as `struct`; None, and a complaint for each mistake, where it is not one."""
    if not isinstance(value, Mapping):
        complain(path, f"a table is expected, not {_kind(value)}")
        return None
    known = {one.name: one for one in fields(struct)}
    good = True
    for key in value:
        if key not in known:
            complain((*path, key), _unknown(key, known))
            good = False
    found: dict[str, Any] = {}
    for name, one in known.items():
        if name in value:
            found[name] = _converted(value[name], one, complain, (*path, name))
        elif one.default is msgspec.NODEFAULT:
            complain((*path, name), "is missing")
            found[name] = None
        good = good and (name not in found or found[name] is not None)
    return struct(**found) if good else None


def _converted(
    value: object, one: Field, complain: Callable[[Path, str], None], path: Path
) -> object | None:
    if one.struct is None:
        return _plain(value, one.type, complain, path)
    if not one.many:
        return convert(value, one.struct, complain, path)
    if not isinstance(value, list):
        complain(path, f"an array of tables is expected, not {_kind(value)}")
        return None
    made = [convert(item, one.struct, complain, (*path, n)) for n, item in enumerate(value)]
    if any(item is None for item in made):
        return None
    kept = tuple(item for item in made if item is not None)
    built = [msgspec.to_builtins(item) for item in kept]
    return kept if _plain(built, one.type, complain, path) is not None else None


def _plain(
    value: object, kind: Any, complain: Callable[[Path, str], None], path: Path
) -> object | None:
    try:
        found: object = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        at = _AT.search(text)
        inner = tuple(int(n) for n in re.findall(r"\[(\d+)\]", at[1])) if at else ()
        complain((*path, *inner), _reason(_AT.sub("", text), kind))
        return None
    return found


def _reason(text: str, kind: Any) -> str:
    """What a duration, say, looks like is told better by its description than by a pattern."""
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


def _field(one: msgspec.structs.FieldInfo) -> Field:
    kind = one.type
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    many = get_origin(kind) is tuple
    inner = get_args(kind)[0] if many else kind
    struct = inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None
    default = one.default
    if default is msgspec.NODEFAULT and one.default_factory is not msgspec.NODEFAULT:
        default = one.default_factory()
    return Field(one.name, one.type, default, struct, many)


def _unknown(key: str, known: Mapping[str, Field]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"unknown key; did you mean {near[0]}?" if near else "unknown key"


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number"}
    return names.get(type(value), f"{type(value).__name__}")
