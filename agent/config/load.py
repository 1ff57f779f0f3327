"""Loads the configuration: flags over environment over file over defaults, then the checks."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from agent.config.check import convert_sections, fields, whole
from agent.config.model import Config
from agent.specs import StoredNames
from nostr_client.errors import InvalidInput, without_secret_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from agent.config.check import CheckedConfig, Complain


PREFIX: Final = "NOSTR_AGENT_"
CONFIG_VARIABLE: Final = "NOSTR_AGENT_CONFIG"

Override = tuple[str, tuple[str, ...], Any]
"""The source of a value, the path of its key, and the value."""


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


Place = tuple[str | int, ...]
Also = Callable[[Config, Callable[[Place, str], None]], None]


class Mistake(NamedTuple):
    """`where` names the file, the variable or the flag; `key` is dotted."""

    where: str
    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.why}" if self.key else f"{self.where}: {self.why}"


class InvalidConfig(InvalidInput):
    """A configuration that cannot be used; `mistakes` has all that is wrong with it."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("; ".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)


NOTHING: Final = StoredNames()


def taken(kind: str, name: str) -> str:
    """Why a watch or sync of the file cannot be called so, and what to do."""
    return (
        f"there is an added {kind} called {name} already, which stays: give this one another name,"
        f" or remove that one (nostr-client {kind} remove {name})"
    )


def check_added(found: CheckedConfig, added: StoredNames, complain: Complain) -> None:
    """Complain about each watch and sync of the file whose name is taken."""
    for path, kind, name in _named(found):
        if name in (added.watches if kind == "watch" else added.syncs):
            complain(path, taken(kind, name))


def _named(found: CheckedConfig) -> Iterator[tuple[Place, str, str]]:
    for n, watch in found.watches:
        yield ("watches", n, "name"), "watch", watch.name
    for n, sync in found.syncs:
        yield ("syncs", n, "name"), "sync", sync.name


def load(
    path: Path | None,
    *,
    environ: Mapping[str, str] | None = None,
    settings: Iterable[str] = (),
) -> Config:
    """The configuration; without a `path`, from environment, flags and defaults only.

    `settings` are flags, `section.key=value`. Raises InvalidConfig with every mistake, InvalidInput
    for a file that cannot be read.
    """
    return read(path, environ=environ, settings=settings).checked()


def read(
    path: Path | None,
    *,
    environ: Mapping[str, str] | None = None,
    settings: Iterable[str] = (),
    also: Also | None = None,
) -> Draft:
    """As `load`, without the checks that need more than types: those are `Draft.checked`.

    `also` is another check, of what is right in types.
    """
    text = "" if path is None else _read(path)
    overrides = [*from_environment(os.environ if environ is None else environ)]
    return draft(text, str(path), [*overrides, *from_flags(settings)], also)


def parse(text: str, name: str = "config", overrides: Iterable[Override] = ()) -> Config:
    """Parse a TOML text, with `overrides` on top; mistakes name the text `name`."""
    return draft(text, name, overrides).checked()


class Draft(NamedTuple):
    """A configuration whose values have the right types; a few modules suffice to make one."""

    config: Config
    report: _Report

    def checked(self, added: StoredNames = NOTHING) -> Config:
        """The configuration, with everything checked. Raises InvalidConfig.

        `added`: names that were added to the store, if known.
        """
        from agent.config.rules import check  # the SDK's queries come with it: half a second

        check(whole(self.config), self.report.complain)
        check_added(whole(self.config), added, self.report.complain)
        if self.report.mistakes:
            raise InvalidConfig(self.report.mistakes)
        return self.config


def draft(
    text: str, name: str, overrides: Iterable[Override] = (), also: Also | None = None
) -> Draft:
    """A TOML text with `overrides` as a draft.

    Raises InvalidConfig for wrong keys and types, and then with every other mistake too.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidConfig([Mistake(name, "", f"no TOML: {error}")]) from error
    report = _Report(name, frozenset(table))
    for where, path, value in overrides:
        report.override(table, where, path, value)
    config = None if report.mistakes else _converted(table)
    if config is None:
        from agent.config.rules import check

        found = convert_sections(table, report.complain)
        check(found, report.complain)
        if also is not None:
            also(found.config, report.complain)
        raise InvalidConfig(report.mistakes)
    if also is not None:
        also(config, report.complain)
    return Draft(config, report)


def _converted(table: Mapping[str, Any]) -> Config | None:
    try:
        return msgspec.convert(table, Config)
    except msgspec.ValidationError:
        return None


class _Report:
    """Collects mistakes with the file, the variable or the flag that each comes from."""

    def __init__(self, name: str, sections: frozenset[str]) -> None:
        self.mistakes: list[Mistake] = []
        self._name = name
        self._sections = sections
        self._given: dict[Place, str] = {}

    def override(self, table: dict[str, Any], where: str, path: Place, value: object) -> None:
        if len(path) != 2 or value is None:
            self.mistakes.append(Mistake(where, dotted(path), "is not section.key=value"))
            return
        section = table.setdefault(str(path[0]), {})
        self._given[path] = where
        if isinstance(section, dict):
            section[str(path[1])] = value

    def complain(self, path: Place, why: str) -> None:
        why = without_secret_keys(why)
        self.mistakes.append(Mistake(self._where(path), dotted(path), why))

    def _where(self, path: Place) -> str:
        for n in range(len(path), 0, -1):
            if path[:n] in self._given:
                return self._given[path[:n]]
        if path[:1] and path[0] not in self._sections:  # only overrides have made the section
            for given, where in self._given.items():
                if given[: len(path)] == path:
                    return where
        return self._name


def dotted(path: Place) -> str:
    """A key as it is written: `watches[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
