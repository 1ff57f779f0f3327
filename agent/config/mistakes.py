"""What is wrong with a configuration: every mistake, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence


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
