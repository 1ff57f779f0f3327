"""On which line of a TOML text each key stands; tomllib checks the text, this only finds places.

Pure. A key inside an inline table, or an item of an array, has the line on which it begins.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path = tuple[str | int, ...]

_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}=,.\n]"
    r"|[^\s\[\]{}=,.#\"']+",
    re.DOTALL,
)


def positions(text: str) -> Mapping[Path, int]:
    """Line numbers, from 1, by path: keys as str, indices of arrays as int; text must be TOML."""
    return _Finder(text).run()


class _Finder:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._found: dict[Path, int] = {}
        self._counts: dict[Path, int] = {}
        self._table: Path = ()
        self._word, self._line = "\n", 0

    def run(self) -> Mapping[Path, int]:
        while self._next():
            if self._word == "[":
                self._header()
            elif self._word != "\n":
                self._pair(self._table)
        return self._found

    def _next(self) -> bool:
        self._word, self._line = next(self._tokens, ("", self._line))
        return bool(self._word)

    def _header(self) -> None:
        line = self._line
        self._next()
        many = self._word == "["
        if many:
            self._next()
        path = self._key("]")
        self._table = self._resolved(path[:-1]) + path[-1:]
        if many:
            n = self._counts.get(self._table, 0)
            self._counts[self._table] = n + 1
            self._found.setdefault(self._table, line)
            self._table = (*self._table, n)
        self._found[self._table] = line
        while self._word not in ("\n", ""):
            self._next()

    def _resolved(self, path: Path) -> Path:
        """The parent of a header: below an array of tables its newest table is meant."""
        done: Path = ()
        for part in path:
            done = (*done, part)
            if done in self._counts:
                done = (*done, self._counts[done] - 1)
        return done

    def _key(self, end: str) -> Path:
        parts: list[str] = []
        while self._word not in (end, ""):
            if self._word != ".":
                parts.append(_bare(self._word))
            self._next()
        return tuple(parts)

    def _pair(self, table: Path) -> None:
        line = self._line
        key = self._key("=")
        for n in range(1, len(key) + 1):
            self._found.setdefault(table + key[:n], line)
        self._next()
        self._value(table + key)

    def _value(self, path: Path) -> None:
        """Read a value and what ends it: a comma, a newline or a closing bracket is left."""
        self._found.setdefault(path, self._line)
        if self._word == "[":
            self._array(path)
        elif self._word == "{":
            self._inline(path)
        while self._word not in (",", "\n", "]", "}", ""):
            self._next()

    def _array(self, path: Path) -> None:
        n = 0
        self._next()
        while self._word not in ("]", "}", ""):
            if self._word in (",", "\n"):
                self._next()
                continue
            self._value((*path, n))
            n += 1
        self._next()

    def _inline(self, path: Path) -> None:
        self._next()
        while self._word not in ("}", "]", ""):
            if self._word in (",", "\n"):
                self._next()
                continue
            self._pair(path)
        self._next()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, at = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if not match[0].startswith("#"):
            yield match[0], line


def _bare(word: str) -> str:
    quoted = len(word) >= 2 and word[0] in "\"'"
    return word[1:-1] if quoted else word
