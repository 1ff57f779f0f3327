"""Compares a new configuration with the running one: what applies at once, and what not. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agent.config.check import fields

if TYPE_CHECKING:
    import msgspec

    from agent.config import Config

RESTART: Final = (
    "store",
    "identity",
    "relay",
    "network",
    "relays.unlimited",
    "api.listen",
    "api.token_file",
    "api.read_token_file",
    "api.body_limit",
    "api.connections",
    "api.stream_backlog",
)
"""Sections and keys that the agent reads when it starts, and not again."""


class ConfigChanges(NamedTuple):
    """Keys that differ, as `section.key`: those that apply at once, and those that do not."""

    applied: tuple[str, ...]
    restart: tuple[str, ...]


def changes(started: Config, before: Config, after: Config) -> ConfigChanges:
    """What `after` changes: of `before` at once, and of what the agent `started` with later."""
    late = [key for key in _differing(started, after) if _needs_restart(key)]
    now = [key for key in _differing(before, after) if not _needs_restart(key)]
    return ConfigChanges(tuple(now), tuple(late))


def _needs_restart(key: str) -> bool:
    return any(key == one or key.startswith(f"{one}.") for one in RESTART)


def _differing(one: Config, other: Config) -> list[str]:
    found = []
    for section in fields(type(one)):
        a, b = getattr(one, section.name), getattr(other, section.name)
        if a == b:
            continue
        if section.many or section.struct is None:
            found.append(section.name)
        else:
            found += [f"{section.name}.{key}" for key in _keys(section.struct, a, b)]
    return found


def _keys(struct: type[msgspec.Struct], one: object, other: object) -> list[str]:
    names = [field.name for field in fields(struct)]
    return [name for name in names if getattr(one, name) != getattr(other, name)]
