"""Find people: their newest profiles (kind 0) from relays, and the key of a name (NIP-05).

Profiles come from relays that the program asks anyway. The domain of a name learns who asks, and
for which name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nostr_client.codecs.event import nip01_order
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import METADATA
from nostr_client.codecs.nip05 import parse_names
from nostr_client.codecs.profiles import MOST_CONTENT
from nostr_client.errors import NetworkError, RelayError
from nostr_client.network.access.routes import objection
from nostr_client.network.waiting import task_group
from nostr_client.options import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.codecs.nip05 import NamedPerson
    from nostr_client.network.relay import Relay
    from nostr_client.network.transport import Transport

ACCEPT: Final = "application/json"
"""The form of a domain's answer about a name."""

MOST_PEOPLE: Final = 200
"""Most people of one REQ. A longer table shows keys for the other people."""

PROFILES_S: Final = 3.0
"""Seconds for the profiles of people: names are a help, and nothing waits long for them."""

MOST_READ: Final = ReadBudget(bytes=2 * 1024 * 1024, events=2 * MOST_PEOPLE)
"""The most that one relay may send: real profiles have some 600 bytes."""


class FoundProfiles(NamedTuple):
    """The profiles that relays gave: the newest of each person (hex), by relay.

    `unsure`: people about whom a relay did not answer to the end.
    """

    by_relay: Mapping[str, Sequence[VerifiedEvent]]
    unsure: frozenset[str]

    @property
    def newest(self) -> dict[str, VerifiedEvent]:
        """The profile of each person."""
        return {one.event.pubkey: one for given in self.by_relay.values() for one in given}


class _Read(NamedTuple):
    """What one relay gave."""

    relay: Relay
    people: Sequence[str]
    events: list[VerifiedEvent]
    is_whole: bool


async def newest_profiles(
    relays: Iterable[Relay], people: Sequence[str], seconds: float
) -> dict[str, VerifiedEvent]:
    """Return the newest profile that any relay has of each person (hex), for the first 200 people.

    Every relay gets one REQ and `seconds` to answer. A relay that fails gives no profiles. Safe to
    cancel.
    """
    return (await find_profiles(dict.fromkeys(relays, people), seconds)).newest


async def find_profiles(asked: Mapping[Relay, Sequence[str]], seconds: float) -> FoundProfiles:
    """Ask each relay for the profiles of its people (hex), the first 200, with one REQ.

    Every relay gets so many seconds; a failure is not raised. Safe to cancel.
    """
    async with task_group() as group:
        tasks = [
            group.create_task(_read(relay, people[:MOST_PEOPLE], seconds))
            for relay, people in asked.items()
            if people
        ]
    read = [task.result() for task in tasks]
    newest: dict[str, VerifiedEvent] = {}
    for one in (event for each in read for event in each.events):
        newest[one.event.pubkey] = min(newest.get(one.event.pubkey, one), one, key=nip01_order)
    by_relay: dict[str, list[VerifiedEvent]] = {}
    ids = {one.event.id for one in newest.values()}
    for each in read:
        taken = {one.event.id: one for one in each.events if one.event.id in ids}
        by_relay[each.relay.url] = list(taken.values())
        ids -= taken.keys()
    unsure = frozenset(person for each in read if not each.is_whole for person in each.people)
    return FoundProfiles(by_relay, unsure)


async def _read(relay: Relay, people: Sequence[str], seconds: float) -> _Read:
    asked = Filter(kinds=[METADATA], authors=people)
    try:
        page = await relay.fetch([asked], seconds, partial=True, budget=MOST_READ)
    except RelayError:
        return _Read(relay, people, [], is_whole=False)
    events = [one for one in page.events if asked.matches(one.event) and _is_short(one)]
    return _Read(relay, people, events, page.complete)


def _is_short(profile: VerifiedEvent) -> bool:
    """Whether a profile is no longer than those that are parsed."""
    event = profile.event
    return len(event.content) + sum(len(text) for tag in event.tags for text in tag) <= MOST_CONTENT


async def key_for_others(person: NamedPerson, transport: Transport) -> str:
    """Return the public key (hex) of a name from any person, with any domain.

    `transport` must connect only to public addresses. Raises as `key_of` does.
    """
    why = objection(person.url, transport.options.connection)
    if why is not None:
        raise NetworkError(f"{person.domain}: {why}")
    return await key_of(person, transport)


async def key_of(person: NamedPerson, transport: Transport) -> str:
    """Return the public key (hex) of a name. Follows no redirect, as NIP-05 requires.

    Raises NetworkError, ProtocolError, and InvalidIdentifier if the domain does not know the name.
    """
    return parse_names(await transport.get_document(person.url, accept=ACCEPT), person)
