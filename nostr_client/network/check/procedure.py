"""Check one relay from its document to its deletions, within a budget of messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from nostr_client.codecs.nip11 import ACCEPT, RelayInfo, parse_relay_info
from nostr_client.codecs.relay_url import address, normalize
from nostr_client.errors import NetworkError, ProtocolError
from nostr_client.network.access.budget import OF_PROCESS
from nostr_client.network.check import judge_reading, judge_standing
from nostr_client.network.check.ask_counting import CountCheck
from nostr_client.network.check.ask_negentropy import Comparer
from nostr_client.network.check.ask_reading import ReadCheck
from nostr_client.network.check.ask_writing import WriteCheck
from nostr_client.network.check.findings import (
    CheckOutcome,
    CheckReport,
    Findings,
    noted,
    tests_of,
    wrong,
)
from nostr_client.network.check.probe import MOST, CheckSpent, Probe
from nostr_client.network.transport import Transport
from nostr_client.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from nostr_client.codecs.keys import Signer
    from nostr_client.network.access.budget import Budgets
    from nostr_client.network.check.answers import Exchange
    from nostr_client.network.check.ask_reading import RelaySample

WAIT: Final = 10.0
"""Seconds of silence after which a request counts as unanswered."""

_JSON: Final = (b"{", b"[")
"""First characters of JSON. Other text is a web page of a relay without NIP-11."""


async def check_relay(
    url: str,
    *,
    options: Options | None = None,
    signer: Signer | None = None,
    write: bool = False,
    wait: float = WAIT,
    most: int = MOST,
    now: Callable[[], float] = time.time,
    budgets: Budgets | None = None,
) -> CheckReport:
    """Check one relay and return a finding for each test, also for tests that did not run.

    `signer` answers AUTH if the relay asks for it. With `write`, the check writes a few events of
    that key and deletes them. The deletion requests remain on the relay. `wait`: seconds of silence
    that end a request. `most`: most messages. Raises InvalidRelayURL, and NetworkError if no
    connection can be made. Safe to cancel.
    """
    options = options or Options()
    transport = Transport(options)
    probe = Probe(
        address(url),
        transport,
        budget=(budgets or OF_PROCESS).of(normalize(url), options),
        wait=wait,
        now=now,
        signer=signer,
        most=most,
    )
    check = _Check(probe)
    try:
        findings = await check.run(signer if write else None)
    finally:
        await probe.close()
        await transport.close()
    return CheckReport(
        relay=normalize(url),
        at=probe.now(),
        requests=probe.asked,
        findings=findings.all(check.why),
        remaining=check.remaining,
    )


class _Check:
    """One check. `why` is the reason for tests that did not run."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._findings = Findings()
        self._reader = ReadCheck(probe, self._findings)
        self._info: RelayInfo | None = None
        self._sample: RelaySample | None = None
        self.why = "the check ended before this test"
        self.remaining: tuple[str, ...] = ()

    async def run(self, writer: Signer | None) -> Findings:
        await self._probe.connect()
        try:
            await self._document()
            self._clock()
            self._sample = sample = await self._reader.sample()
            if sample is None:
                self._findings.skip("it serves no event to compare with", *tests_of("count", "neg"))
            else:
                await self._with(sample)
            await self._auth()
            await self._write(writer)
        except CheckSpent as spent:
            self.why = str(spent)
        except NetworkError as error:
            self.why = f"the relay could not be reached any more: {error}"
            self._findings.add(wrong("read.answer", f"It cannot be reached any more: {error}."))
        self._standing()
        return self._findings

    async def _with(self, sample: RelaySample) -> None:
        """Run the tests that need some events of the relay."""
        await self._reader.parts(sample)
        counts = CountCheck(self._probe, self._findings, self._reader, sample)
        await counts.run(listed=self._lists(45))
        longest = self._info.limitation.max_message_length if self._info else None
        comparer = Comparer(self._probe, self._findings, self._reader, sample)
        await comparer.run(longest, listed=self._lists(77))

    def _lists(self, nip: int) -> bool:
        return self._info is not None and self._info.supports(nip)

    async def _document(self) -> None:
        tests = tests_of("document")
        try:
            raw = await self._probe.document(ACCEPT)
            if not raw.lstrip().startswith(_JSON):
                raise NetworkError("what comes is another page")
            self._info = parse_relay_info(raw)
        except NetworkError as error:
            self._findings.add(noted("document.form", f"It serves no NIP-11 document: {error}."))
            self._findings.skip("it serves no document", *tests)
        except ProtocolError as error:
            self._findings.add(wrong("document.form", f"Its NIP-11 document: {error}."))
            self._findings.skip("it serves no document", *tests)
        else:
            self._findings.add(judge_standing.form(self._info))

    def _clock(self) -> None:
        if self._probe.date is None:
            self._findings.skip("it does not say what time it is", "clock")
            return
        self._findings.add(judge_standing.clock(*self._probe.date))

    async def _auth(self) -> None:
        """Test AUTH for both spellings of the address, each on its own connection."""
        signer, spelled = self._probe.signer, self._probe.address
        if signer is None:
            self._findings.skip("no key was given", "auth.spelling")
            return
        if self._probe.challenge is None:
            self._findings.skip("it sent no challenge", "auth.spelling")
            return
        tried: dict[str, Exchange | None] = {}
        for one in (spelled.rstrip("/"), spelled.rstrip("/") + "/"):
            await self._probe.reconnect(one)
            tried[one] = await self._probe.authenticate(signer)
        self._probe.address = spelled
        self._findings.add(judge_standing.spelling(tried))

    async def _write(self, signer: Signer | None) -> None:
        if signer is None:
            self._findings.skip("nothing is written without --write and a key", *tests_of("write"))
            return
        counts = self._outcome("count.answer") is CheckOutcome.RIGHT
        writing = WriteCheck(self._probe, self._findings, signer, counts=counts)
        try:
            await writing.run()
        finally:
            self.remaining = tuple(writing.remaining)

    def _standing(self) -> None:
        """Compare the document with what the tests showed."""
        info = self._info
        if info is None:
            return
        self._findings.add(judge_standing.nips(info, self._findings.found))
        served = self._sample is not None
        self._findings.add(judge_standing.wants_auth(info, self._probe.wanted_auth, served))
        said, sample = info.limitation.max_limit, self._sample
        if said is None:
            self._findings.skip("it names no `max_limit`", "document.limits")
            return
        if sample is None:
            self._findings.skip("it serves us no event", "document.limits")
            return
        self._findings.add(judge_reading.stated_page_limit(said, sample.page, sample.more))

    def _outcome(self, test: str) -> CheckOutcome | None:
        found = self._findings.found.get(test)
        return None if found is None else found.outcome
