"""Publishes cards (NIP-85) again and again: the task behind `[assertions]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from agent.api import schema
from agent.service.process.secrets import make_card_signer
from agent.specs import chosen
from nostr_client.assertions.cards import CardOptions
from nostr_client.assertions.fields import subject_of
from nostr_client.assertions.relays import CardRelays
from nostr_client.assertions.run import AssertionPlan, publish
from nostr_client.codecs import nip19
from nostr_client.codecs.display import seconds
from nostr_client.errors import NostrTallyError, clip
from nostr_client.watch import scheduler

if TYPE_CHECKING:
    from agent.config.model import AssertionsSection, RelaysSection
    from agent.log import Log
    from agent.service.parts import AgentParts
    from nostr_client.assertions import PublishReport
    from nostr_client.codecs.keys import Signer
    from nostr_client.watch.clock import Clock

KIND: Final = "assertions"
LANE: Final = "assertions"
CARDS: Final = "cards"
"""The one task of this kind."""

SEND_S: Final = 600.0
"""What all relays of one run may take; the next run sends what is left."""


class AssertionRunner:
    """One task that publishes what changed; the ledger of the store survives a crash."""

    def __init__(self, clock: Clock, log: Log, parts: AgentParts) -> None:
        self.shown = schema.Assertions(on=False)
        self._section: AssertionsSection | None = None
        self._relays: tuple[str, ...] = ()
        self._clock = clock
        self._log = log
        self._parts = parts

    def configure(self, section: AssertionsSection, relays: RelaysSection) -> None:
        """Take a section, the first or another."""
        self._section = section
        self._relays = tuple(chosen(section.relays, relays.default, relays.denied))
        on = section.is_on
        if not on or not self.shown.on:
            self.shown = schema.Assertions(on=on)

    def tasks(self) -> list[scheduler.Task]:
        """The one task, while there is a key to sign with."""
        section = self._section
        if section is None or not section.is_on:
            return []
        every = seconds(section.interval)
        return [scheduler.Task(f"{KIND} {CARDS}", LANE, every, backs_off=False)]

    async def last(self) -> dict[str, float]:
        """Nothing is known of an earlier run: it is done at once, and signs nothing twice."""
        return {}

    async def run(self, _: str) -> bool:
        """Publish what changed; whether every relay has everything."""
        section = self._section
        if section is None:
            return True
        began = self._clock.wall()
        self.shown = replace(self.shown, running=True, ran_at=began)
        try:
            self._show(await self._result(section, began))
        finally:
            self.shown = replace(self.shown, running=False)
        report = self.shown.report
        return not self.shown.why and (report is None or report.is_done)

    async def _result(self, section: AssertionsSection, began: float) -> schema.Assertions:
        """Publish, and return what is shown of it."""
        pubkey, report, why = "", None, ""
        try:
            connection = self._parts.pool.options.connection
            signer = await make_card_signer(section, self._parts.signer, connection)
            if signer is not None:
                pubkey = signer.pubkey
                report = await self._publish(section, signer)
        except NostrTallyError as error:
            why = clip(str(error))
        return schema.Assertions(
            on=True, pubkey=pubkey, relays=self._relays, ran_at=began, why=why, report=report
        )

    def _show(self, shown: schema.Assertions) -> None:
        """Log what is new: an interval without a change is silent."""
        if shown.why and shown.why != self.shown.why:
            self._log.warning("assertions_failed", why=shown.why)
        report = shown.report
        if report is not None and (report.signed or report.retracted):
            self._log.info("assertions", signed=report.signed, retracted=report.retracted)
        self.shown = shown

    async def _publish(self, section: AssertionsSection, signer: Signer) -> PublishReport:
        return await publish(
            self._parts.store,
            signer,
            _plan(section),
            CardOptions(personal=frozenset(section.fields), step=section.step / 100),
            CardRelays(self._relays, self._parts.pool.options, SEND_S),
            now=self._clock.wall,
        )


def _plan(section: AssertionsSection) -> AssertionPlan:
    """What the section says is all that is wanted: the cards of others are retracted."""
    followed = section.followed_by
    return AssertionPlan(
        subjects=tuple(map(subject_of, section.subjects)),
        everything=section.all_subjects,
        followed_by=nip19.decode_pubkey(followed) if followed else "",
        watches=section.watches,
        patient=True,
        claimed_zaps=section.claimed_zaps,
        prune=True,
        name=section.name,
    )
