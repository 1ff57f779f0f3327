"""What overrides the file: environment variables and flags, each one key of one section."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final

from agent.config.check import fields
from agent.config.model import Config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PREFIX: Final = "NOSTR_AGENT_"
CONFIG_VARIABLE: Final = "NOSTR_AGENT_CONFIG"

Override = tuple[str, tuple[str, ...], Any]
"""Where it was given, the path of the key, and the value."""


def from_environment(environ: Mapping[str, str]) -> Iterator[Override]:
    """NOSTR_AGENT_RELAYS__DEFAULT and so on: section and key joined by two underscores."""
    for name, text in sorted(environ.items()):
        if name.startswith(PREFIX) and name != CONFIG_VARIABLE:
            path = tuple(name.removeprefix(PREFIX).lower().split("__"))
            yield f"environment {name}", path, _value(path, text)


def from_flags(settings: Iterable[str]) -> Iterator[Override]:
    """`section.key=value` as given with --set."""
    for text in settings:
        key, equals, value = text.partition("=")
        path = tuple(key.strip().split("."))
        yield f"--set {key}", path, _value(path, value.strip()) if equals else None


def _value(path: tuple[str, ...], text: str) -> Any:
    """Text by the type of its key: a string stays as it is, the rest is TOML, `a b` is a list."""
    kind = _type_name(path)
    if kind == "str":
        return text
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text.split() if kind == "tuple" else text


def _type_name(path: tuple[str, ...]) -> str:
    """`str`, `tuple` or another name for what the key holds; "" for unknown keys."""
    section = next((f for f in fields(Config) if f.name == path[0]), None)
    if section is None or section.struct is None or section.many or len(path) != 2:
        return ""
    one = next((f for f in fields(section.struct) if f.name == path[1]), None)
    return "" if one is None else type(one.default).__name__
