"""Ask people's wallets for the key that signs zap receipts (NIP-57, Appendix F).

The profile of each person names a host, and that host learns who counts. So nothing here runs
unless the user asks for it; a host is asked once a second at most, and its answer is stored for a
day.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from nostr_client.codecs.lnurl import checked_url, parse_pay_answer, pay_url
from nostr_client.count.wallets import rows
from nostr_client.count.wallets.keys import SETTLED, Wallet, WalletStatus, unknown
from nostr_client.errors import InvalidIdentifier, NetworkError, ProtocolError, RelayError, clip
from nostr_client.network.access.routes import objection
from nostr_client.network.pacing import TokenBucket
from nostr_client.network.profiles import newest_profiles
from nostr_client.network.waiting import task_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.relay import Relay
    from nostr_client.network.transport import Transport
    from nostr_client.store.file.database import Database

ACCEPT: Final = "application/json"

MOST_PEOPLE: Final = 20
"""Most people of one count: an event may name thousands in its splits."""

PACE: Final = 1.0
"""Seconds from one request to the next at one host: wallets serve other people too."""

MOST_HOPS: Final = 3
"""Most redirects: people have an address at their own domain, a wallet elsewhere."""

MOST_KEPT: Final = 10_000
"""Wallets and hosts cached in memory: some 300 bytes each."""

PROFILE_SHARE: Final = 0.3
"""Share of the time for reading profiles; the rest is for the wallets."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REASON: Final = 160


class Wallets:
    """The wallets that were asked, cached in memory and, if given, in a store.

    `transport` connects only to public addresses, unless `local`, which is for tests and for a
    wallet on this machine. `database` has the tables of `rows.WALLETS`. `now` gives Unix seconds.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        now: Callable[[], float],
        database: Database | None = None,
        local: bool = False,
    ) -> None:
        self._transport = transport
        self._now = now
        self._database = database
        self._local = local
        self._known: OrderedDict[str, Wallet] = OrderedDict()
        self._turns: OrderedDict[str, TokenBucket] = OrderedDict()

    async def look_up(
        self, recipients: Sequence[str], relays: Sequence[Relay], seconds: float
    ) -> tuple[Wallet, ...]:
        """Return the wallets of people (hex), in order, within `seconds`; profiles come from
        `relays`.

        Beyond MOST_PEOPLE nobody is asked about. Raises only StoreError: a failure of a wallet or a
        relay is a status. Cancelling gives up the requests and stores nothing of them.
        """
        end = asyncio.get_running_loop().time() + seconds
        await self._recall(recipients)
        found = {one: self._known.get(one, unknown(one)) for one in recipients}
        now = self._now()
        stale = [one for one, wallet in found.items() if not wallet.is_fresh(now)]
        asked = {one: found[one] for one in stale[:MOST_PEOPLE]}
        for one in stale[MOST_PEOPLE:]:
            reason = f"more than {MOST_PEOPLE} people to ask about"
            found[one] = found[one].failed(WalletStatus.NOT_ASKED, reason, int(now))
        found |= await self._ask_all(asked, relays, end)
        await self._keep([found[one] for one in asked if found[one].status in SETTLED])
        return tuple(found.values())

    async def _recall(self, recipients: Sequence[str]) -> None:
        missing = [one for one in recipients if one not in self._known]
        if self._database is None or not missing:
            return
        for wallet in await self._database.read(lambda conn: rows.load(conn, missing)):
            self._remember(wallet)

    async def _keep(self, wallets: Sequence[Wallet]) -> None:
        for wallet in wallets:
            self._remember(wallet)
        if self._database is not None and wallets:
            await self._database.write(lambda conn: rows.save(conn, wallets))

    def _remember(self, wallet: Wallet) -> None:
        self._known[wallet.recipient] = wallet
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)

    async def _ask_all(
        self, wallets: dict[str, Wallet], relays: Sequence[Relay], end: float
    ) -> dict[str, Wallet]:
        """Ask all at once, each host in its turn; a wallet without an answer at `end` is late."""
        if not wallets:
            return {}
        left = max(end - asyncio.get_running_loop().time(), 0.1)
        profiles = await newest_profiles(relays, list(wallets), PROFILE_SHARE * left)
        at = int(self._now())
        late = "no answer in time"
        found = {one: w.failed(WalletStatus.TIMEOUT, late, at) for one, w in wallets.items()}

        async def ask(one: str) -> None:
            profile = profiles.get(one)
            event = None if profile is None else profile.event
            found[one] = await self._ask(wallets[one], event)

        try:
            async with asyncio.timeout_at(end), task_group() as group:
                for one in wallets:
                    group.create_task(ask(one))
        except TimeoutError:
            return found  # those who are late are noted as such
        return found

    async def _ask(self, wallet: Wallet, profile: Event | None) -> Wallet:
        """Return one person's wallet, asked at the host in the profile."""
        at = int(self._now())
        if profile is None:
            reason = "no relay gave the profile (kind 0)"
            return wallet.failed(WalletStatus.NO_PROFILE, reason, at)
        try:
            url = pay_url(profile.content, local=self._local)
            if url is None:
                reason = "the profile names no wallet (lud16, lud06)"
                return wallet.failed(WalletStatus.NO_ADDRESS, reason, at)
            return await self._ask_at(wallet, url)
        except InvalidIdentifier as error:
            return wallet.failed(WalletStatus.NO_ADDRESS, clip(str(error), _REASON), at)

    async def _ask_at(self, wallet: Wallet, url: str) -> Wallet:
        """Ask at a URL, and follow redirects. Raises InvalidIdentifier if the address is not a
        wallet's."""
        at, first = int(self._now()), _host(url)
        for _ in range(MOST_HOPS + 1):
            why = None if self._local else objection(url, self._transport.options.connection)
            if why is not None:
                return wallet.failed(WalletStatus.REFUSED, why, at, first)
            await self._turn(_host(url))
            try:
                raw = await self._transport.get_document(url, accept=ACCEPT)
                return wallet.answered(parse_pay_answer(raw), at, first)
            except NetworkError as error:
                if error.http_status not in _REDIRECTS or not error.location:
                    return wallet.failed(_status_of(error), _said(error), at, first)
                url = checked_url(urljoin(url, error.location), local=self._local)
            except ProtocolError as error:
                return wallet.failed(WalletStatus.INVALID, _said(error), at, first)
        return wallet.failed(WalletStatus.INVALID, f"more than {MOST_HOPS} redirects", at, first)

    async def _turn(self, host: str) -> None:
        """Wait until this host may be asked again."""
        now = asyncio.get_running_loop().time()
        bucket = self._turns.setdefault(host, TokenBucket(1 / PACE, 1, now=now))
        self._turns.move_to_end(host)
        while len(self._turns) > MOST_KEPT:
            self._turns.popitem(last=False)
        await asyncio.sleep(bucket.take(now))


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").removesuffix(".")


def _status_of(error: NetworkError) -> WalletStatus:
    if isinstance(error.__cause__, TimeoutError):
        return WalletStatus.TIMEOUT
    return WalletStatus.UNREACHABLE if error.http_status is None else WalletStatus.INVALID


def _said(error: RelayError) -> str:
    """Return the error without the URL: it names the person, and the host is shown beside it."""
    return clip(str(error).removeprefix(f"{error.relay}: "), _REASON)
