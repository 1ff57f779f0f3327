"""Decides who may see private kinds: direct messages are for their author and recipient only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.codecs.kinds import GIFT_WRAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter

WRAPS = frozenset({GIFT_WRAP, 21059})
"""Kinds whose author is a throw-away key: only the `p` tag names a party."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks: the keys proved by AUTH, and the kinds that are private on this relay."""

    private_kinds: frozenset[int]
    keys: frozenset[str] = frozenset()

    def may_see(self, event: Event) -> bool:
        """Whether `event` is public, or one of the keys wrote it or is named by a `p` tag."""
        if event.kind not in self.private_kinds:
            return True
        if event.pubkey in self.keys:
            return True
        return any(value in self.keys for value in event.tag_values("p"))

    def refusal(self, filters: Iterable[Filter]) -> str:
        """The reason to refuse `filters` that name private kinds, or "".

        Without AUTH any filter that names one is refused. After AUTH one is refused when it can
        only match other people's; else the viewer gets their own part.
        """
        for wanted in filters:
            named = self.private_kinds.intersection(wanted.kinds or ())
            if named and not self.keys:
                return "auth-required: private messages are for their parties only"
            if named and named.issuperset(wanted.kinds or ()) and self._is_foreign(wanted):
                return "restricted: these are other people's messages"
        return ""

    def split(self, filters: Sequence[Filter]) -> FilterSplit:
        """`filters` by how they can be asked: as they stand, in parts, or with a check."""
        split = FilterSplit([], [], [])
        for wanted in filters:
            if wanted.kinds is None:
                split.mixed.append(wanted)
            elif self.private_kinds.isdisjoint(wanted.kinds):
                split.plain.append(wanted)
            else:
                split.parted.append(wanted)
        return split

    def public_part(self, wanted: Filter) -> list[Filter]:
        """`wanted`, which names kinds, narrowed to those that are not private."""
        kinds = [kind for kind in wanted.kinds or () if kind not in self.private_kinds]
        return [wanted.replace(kinds=kinds)] if kinds else []

    def private_part(self, wanted: Filter) -> Filter:
        """`wanted` narrowed to private kinds, of any parties."""
        named = wanted.kinds
        kinds = self.private_kinds if named is None else self.private_kinds.intersection(named)
        return wanted.replace(kinds=sorted(kinds))

    def own_part(self, wanted: Filter) -> list[Filter]:
        """`wanted` narrowed to private kinds that the viewer is a party of; [] without AUTH.

        A filter that already asks for other people's `p` cannot name the viewer's beside it:
        events that name both are only in `shared_part`.
        """
        if not self.keys:
            return []
        narrowed = self.private_part(wanted)
        tags = dict(wanted.tags)
        authors = self._mine(wanted.authors)
        readers = self._mine(tags.get("#p"))
        return [narrowed.replace(authors=authors), narrowed.replace(tags={**tags, "#p": readers})]

    def shared_part(self, wanted: Filter) -> Filter | None:
        """`wanted` narrowed to private kinds, when it may match events that name the viewer beside
        somebody else whom it asks for; whether they do has to be checked event by event.
        """
        readers = dict(wanted.tags).get("#p", ())
        if not self.keys or self.keys.issuperset(readers):
            return None
        return self.private_part(wanted)

    def _mine(self, given: Iterable[str] | None) -> list[str]:
        return sorted(self.keys if given is None else self.keys.intersection(given))

    def _is_foreign(self, wanted: Filter) -> bool:
        readers = dict(wanted.tags).get("#p")
        not_reader = readers is not None and self.keys.isdisjoint(readers)
        if WRAPS.issuperset(wanted.kinds or ()):
            return not_reader
        return not_reader and wanted.authors is not None and self.keys.isdisjoint(wanted.authors)


class FilterSplit(NamedTuple):
    """A union of filters by how they can be asked."""

    plain: list[Filter]
    """Match only what the viewer may see."""

    parted: list[Filter]
    """Name private kinds: to be asked as their public and their own part."""

    mixed: list[Filter]
    """Name no kinds: what they match has to be checked event by event, or private parts
    subtracted."""
