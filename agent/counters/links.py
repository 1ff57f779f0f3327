"""The board of all links of counters: what their runners say of them, and who hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from agent.api.schema import CounterLink

KIND: Final = "link"
"""Every link is one task of the scheduler, `link NAME`, whatever it is made of."""


class Links:
    """Links by name. `tell` gets each one that has changed, `gone` the name of one that is no more.

    A runner sets its own links and changes them as it goes; nobody else does.
    """

    def __init__(self, tell: Callable[[CounterLink], None], gone: Callable[[str], None]) -> None:
        self._links: dict[str, CounterLink] = {}
        self._tell = tell
        self._gone = gone

    def all(self) -> tuple[CounterLink, ...]:
        """Every link, by name."""
        return tuple(self._links[name] for name in sorted(self._links))

    def get(self, name: str) -> CounterLink | None:
        return self._links.get(name)

    def put(self, link: CounterLink) -> None:
        """Set a link, whole."""
        if self._links.get(link.name) != link:
            self._links[link.name] = link
            self._tell(link)

    def change(self, name: str, **fields: Any) -> None:
        """Change some fields of a link; one that is gone stays so."""
        link = self._links.get(name)
        if link is not None:
            self.put(msgspec.structs.replace(link, **fields))

    def keep(self, via: Collection[tuple[str, str]], names: Collection[str]) -> None:
        """Of the links of these kinds (`via`, `direction`) keep those of these names."""
        for name, link in list(self._links.items()):
            if (link.via, link.direction) in via and name not in names:
                del self._links[name]
                self._gone(name)
