"""Hold the result of a relay check: one outcome and one sentence for each test."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class CheckOutcome(StrEnum):
    """The outcome of a test."""

    RIGHT = "right"
    WRONG = "wrong"
    """The relay breaks a NIP, or its own document."""
    NOTED = "noted"
    """A limit or a choice that the NIPs allow, and that a client should know."""
    NOT_TESTED = "not tested"


class Finding(msgspec.Struct, frozen=True):
    """Result of one test. `text` is a sentence about the relay, or why the test did not run."""

    test: str
    outcome: CheckOutcome
    text: str


TESTS: Final[dict[str, str]] = {
    "document.form": "the NIP-11 document is JSON with fields of the right types",
    "document.nips": "it lists the NIPs that the relay shows, and no others",
    "document.limits": "its page limit is the one that the relay has",
    "document.auth": "it says whether the relay wants AUTH",
    "clock": "the relay's clock is right",
    "read.answer": "a REQ is answered and ended by EOSE",
    "read.frames": "every frame is a message of a NIP, and belongs to a request",
    "read.filter": "a REQ brings what matches its filter, and nothing else",
    "read.limit": "a REQ brings as many events as its limit says",
    "read.order": "the newest events come, newest first",
    "read.range": "`since` and `until` include their seconds",
    "read.ids": "events come by their ids",
    "read.union": "several filters in a REQ bring what matches any of them",
    "read.signatures": "ids and signatures of events hold",
    "read.repeats": "no event comes twice for one REQ",
    "read.page": "how many events one REQ brings at most",
    "read.hint": "what the relay says at EOSE is true (NIP-67)",
    "read.id": "a subscription id of 64 characters is accepted",
    "read.refusal": "an invalid filter is refused by CLOSED, with a prefix",
    "read.versions": "one version of a replaceable event comes",
    "read.deleted": "what its author deleted does not come (NIP-09)",
    "read.expired": "what has expired does not come (NIP-40)",
    "count.answer": "a COUNT is answered, or refused by CLOSED with a prefix",
    "count.exact": "counts match the relay's own events (NIP-45)",
    "count.zero": "a refusal is not a count of zero",
    "count.limit": "`limit` does not cap a count",
    "count.union": "several filters in a COUNT are counted together",
    "count.registers": "registers match the relay's own events (NIP-45)",
    "neg.answer": "NIP-77 is answered, or refused in a known form",
    "neg.names": "a session names what the relay serves, and nothing else",
    "neg.snapshot": "a session compares everything that the relay holds",
    "neg.version": "an unknown version is answered by the known one",
    "neg.refusal": "an invalid message is refused by NEG-ERR",
    "neg.frame": "a long message is accepted, or refused with a reason",
    "auth.spelling": "AUTH is accepted with and without the final slash of the URL",
    "write.stored": "what an OK says is stored comes back",
    "write.forged": "a forged event is refused",
    "write.repeated": "an event that the relay already has is not an error",
    "write.versions": "an older version does not replace a newer one",
    "write.expired": "an event that has expired is not served",
    "write.ephemeral": "an ephemeral event is not stored",
    "write.foreign": "a stranger's deletion deletes nothing",
    "write.deletion": "a deletion deletes, in REQ and COUNT, and the event does not come back",
}
"""Every test in the order of the report, with the correct behaviour."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report of one relay at `at` (Unix seconds), with a finding for each of `TESTS` in that order.

    `requests` is the number of messages sent, which includes connections and documents. `remaining`
    has ids of the deletion requests (kind 5) that the check wrote. Relays keep these requests.
    """

    relay: str
    at: int
    requests: int
    findings: tuple[Finding, ...]
    remaining: tuple[str, ...] = ()

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The defects."""
        return tuple(one for one in self.findings if one.outcome is CheckOutcome.WRONG)

    def of(self, test: str) -> Finding:
        """Return the finding of one test. Raises KeyError."""
        return {one.test: one for one in self.findings}[test]

    def to_dict(self) -> dict[str, Any]:
        """Return the report in the form of its JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


_WEIGHT: Final = (
    CheckOutcome.NOT_TESTED,
    CheckOutcome.RIGHT,
    CheckOutcome.NOTED,
    CheckOutcome.WRONG,
)


class Findings:
    """Collects findings.

    If a test has several findings, the most severe one stays. Of equal ones the first stays.
    """

    def __init__(self) -> None:
        self.found: dict[str, Finding] = {}

    def add(self, finding: Finding | None) -> None:
        """Add a finding. Ignores None."""
        if finding is None:
            return
        before = self.found.get(finding.test)
        if before is None or _WEIGHT.index(finding.outcome) > _WEIGHT.index(before.outcome):
            self.found[finding.test] = finding

    def add_all(self, findings: Iterable[Finding | None]) -> None:
        """Add several findings."""
        for one in findings:
            self.add(one)

    def skip(self, why: str, *tests: str) -> None:
        """Note why these tests could not run."""
        for test in tests:
            self.add(Finding(test, CheckOutcome.NOT_TESTED, why))

    def all(self, why: str) -> tuple[Finding, ...]:
        """Return a finding for every test. `why` is the reason for tests that did not run."""
        lacking = {test: Finding(test, CheckOutcome.NOT_TESTED, why) for test in TESTS}
        return tuple((lacking | self.found)[test] for test in TESTS)


def right(test: str) -> Finding:
    """Make a finding of correct behaviour.

    Only call it for an answer that could have shown a defect.
    """
    return Finding(test, CheckOutcome.RIGHT, TESTS[test])


def untested(test: str, why: str) -> Finding:
    """Make a finding of a test that had nothing to judge."""
    return Finding(test, CheckOutcome.NOT_TESTED, why)


def wrong(test: str, text: str) -> Finding:
    """Make a finding of a defect."""
    return Finding(test, CheckOutcome.WRONG, text)


def noted(test: str, text: str) -> Finding:
    """Make a finding of a limit or a choice that a client should know."""
    return Finding(test, CheckOutcome.NOTED, text)


def tests_of(*rooms: str) -> Sequence[str]:
    """Return the tests whose names begin with one of these."""
    return [test for test in TESTS if test.partition(".")[0] in rooms]
