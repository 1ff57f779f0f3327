"""What of a wrong configuration is right all the same, so that its other mistakes are found too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.config.check import convert, fields
from agent.config.model import Config
from agent.specs import SyncSpec, WatchSpec

if TYPE_CHECKING:
    import msgspec

    from agent.config.check import Path


class Sound(NamedTuple):
    """The good sections, with defaults for the `wrong` ones; good watches and syncs by number."""

    config: Config
    wrong: frozenset[str]
    watches: tuple[tuple[int, WatchSpec], ...]
    syncs: tuple[tuple[int, SyncSpec], ...]


def whole(config: Config) -> Sound:
    """A configuration in which everything has the right type."""
    numbered = tuple(enumerate(config.watches)), tuple(enumerate(config.syncs))
    return Sound(config, frozenset(), *numbered)


def sound(table: Mapping[str, Any]) -> Sound:
    """The sound parts of a table in which something is not."""
    good: dict[str, Any] = {}
    wrong = set()
    for section in fields(Config):
        if section.struct is None or section.many or section.name not in table:
            continue
        made = _converted(table[section.name], section.struct)
        if made is None:
            wrong.add(section.name)
        else:
            good[section.name] = made
    watches = _numbered(table.get("watches"), WatchSpec)
    return Sound(Config(**good), frozenset(wrong), watches, _numbered(table.get("syncs"), SyncSpec))


def _converted(value: object, struct: type[msgspec.Struct]) -> Any:
    """A section without the keys that nobody knows; None where a value is wrong."""
    if not isinstance(value, Mapping):
        return None
    known = {one.name for one in fields(struct)}
    return convert({key: v for key, v in value.items() if key in known}, struct, _silent)


def _numbered(items: object, struct: type[Any]) -> tuple[tuple[int, Any], ...]:
    listed = items if isinstance(items, list) else []
    made = ((n, _converted(item, struct)) for n, item in enumerate(listed))
    return tuple((n, one) for n, one in made if one is not None)


def _silent(path: Path, why: str) -> None:
    """It was complained about before."""
