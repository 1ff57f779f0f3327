"""Holds the state of all links of counters, and reports each change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from agent.api.schema import CounterLink

KIND: Final = "link"
"""Every link is one task of the scheduler, `link NAME`, whatever its carrier."""


class Links:
    """Links by name. `on_change` gets each changed link, `on_removal` the name of each removed one.

    Only the runner of a link sets and changes it.
    """

    def __init__(
        self, on_change: Callable[[CounterLink], None], on_removal: Callable[[str], None]
    ) -> None:
        self._links: dict[str, CounterLink] = {}
        self._on_change = on_change
        self._on_removal = on_removal

    def all(self) -> tuple[CounterLink, ...]:
        """Every link, by name."""
        return tuple(self._links[name] for name in sorted(self._links))

    def get(self, name: str) -> CounterLink | None:
        return self._links.get(name)

    def put(self, link: CounterLink) -> None:
        """Add or replace a link."""
        if self._links.get(link.name) != link:
            self._links[link.name] = link
            self._on_change(link)

    def change(self, name: str, **fields: Any) -> None:
        """Change some fields of a link; does nothing if the link was removed."""
        link = self._links.get(name)
        if link is not None:
            self.put(msgspec.structs.replace(link, **fields))

    def keep(self, via: Collection[tuple[str, str]], names: Collection[str]) -> None:
        """Remove links of these kinds (`via`, `direction`) whose names are not in `names`."""
        for name, link in list(self._links.items()):
            if (link.via, link.direction) in via and name not in names:
                del self._links[name]
                self._on_removal(name)
