"""What of a wrong configuration is right all the same, so that its other mistakes are found too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent.config.check import convert, fields
from agent.config.model import Config
from agent.specs import SyncSpec, WatchSpec

if TYPE_CHECKING:
    import msgspec

    from agent.config.check import Path


class Sound(NamedTuple):
    """The good values, with defaults for wrong ones in the `wrong` sections.

    Watches and syncs by their number: the good ones, and the torn ones, of which something is
    wrong and the default in its place.
    """

    config: Config
    wrong: frozenset[str]
    watches: tuple[tuple[int, WatchSpec], ...]
    syncs: tuple[tuple[int, SyncSpec], ...]
    torn_watches: tuple[tuple[int, WatchSpec], ...] = ()
    torn_syncs: tuple[tuple[int, SyncSpec], ...] = ()


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
            made = _torn(table[section.name], section.struct)
        if made is not None:
            good[section.name] = made
    watches, torn_watches = _numbered(table.get("watches"), WatchSpec)
    syncs, torn_syncs = _numbered(table.get("syncs"), SyncSpec)
    return Sound(Config(**good), frozenset(wrong), watches, syncs, torn_watches, torn_syncs)


def _converted(value: object, struct: type[msgspec.Struct]) -> Any:
    """A section without the keys that nobody knows; None where a value is wrong."""
    if not isinstance(value, Mapping):
        return None
    known = {one.name for one in fields(struct)}
    return convert({key: v for key, v in value.items() if key in known}, struct, _silent)


_STANDINS: Final = {"name": "unnamed", "filters": [{}]}
"""What stands in a torn watch or sync for what it must have."""

Numbered = tuple[tuple[int, Any], ...]


def _torn(value: object, struct: type[msgspec.Struct], standins: Mapping[str, Any] = {}) -> Any:
    """A table with its good values, defaults and `standins`; None where it is no table."""
    if not isinstance(value, Mapping):
        return None
    bad: set[object] = set()
    convert(value, struct, lambda path, _: bad.add(path[0]))
    good = {key: one for key, one in value.items() if key not in bad}
    return convert({**standins, **good}, struct, _silent)


def _numbered(items: object, struct: type[Any]) -> tuple[Numbered, Numbered]:
    listed = list(enumerate(items)) if isinstance(items, list) else []
    made = [(n, _converted(item, struct)) for n, item in listed]
    torn = [(n, _torn(listed[n][1], struct, _STANDINS)) for n, one in made if one is None]
    return _some(made), _some(torn)


def _some(made: list[tuple[int, Any]]) -> Numbered:
    return tuple((n, one) for n, one in made if one is not None)


def _silent(path: Path, why: str) -> None:
    """It was complained about before."""
