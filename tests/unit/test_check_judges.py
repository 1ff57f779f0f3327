"""A judge of `relay check` says right only of what it saw: never of nothing."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.nip11 import RelayInfo
from nostr_client.network.check import (
    CheckOutcome,
    Finding,
    judge_counting,
    judge_negentropy,
    judge_reading,
    judge_standing,
    judge_writing,
)
from nostr_client.network.check.answers import (
    CountExchange,
    Exchange,
    ExchangeEnd,
    NegExchange,
    ReqExchange,
)
from nostr_client.network.check.judge_counting import refused as count_refused
from nostr_client.network.check.judge_negentropy import refused as neg_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

MODULES = (judge_reading, judge_counting, judge_negentropy, judge_standing, judge_writing)

BY_THE_ANSWER = {
    "judge_reading.answer",
    "judge_reading.frames",
    "judge_reading.long_id",
    "judge_writing.repeated",
    "judge_writing.expired",
    "judge_writing.ephemeral",
    "judge_writing.deleted",
}
"""Judges for whom an answer without events is what they want to see."""


def judges() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in MODULES:
        for name, one in vars(module).items():
            own = inspect.isfunction(one) and one.__module__ == module.__name__
            if own and not name.startswith("_") and "Finding" in str(inspect.signature(one)):
                yield f"{short(module)}.{name}", one


def short(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


JUDGES = dict(judges())


def empty(annotation: str, end: ExchangeEnd) -> Any:
    """A value of a type without any content; answers end so."""
    kind = annotation.removesuffix(" | None")
    answers: dict[str, Any] = {
        "Exchange": Exchange(end=end),
        "ReqExchange": ReqExchange(end=end, filters=(Filter(limit=0),)),
        "CountExchange": CountExchange(end=end, filters=(Filter(limit=0),)),
        "NegExchange": NegExchange(end=end),
        "RelayInfo": RelayInfo(),
    }
    plain: dict[str, Any] = {"int": 0, "float": 0.0, "str": "", "bool": False}
    if kind in answers or kind in plain:
        return (answers | plain)[kind]
    return {} if kind.startswith("Mapping") else set() if "Set" in kind else ()


def judged(name: str, end: ExchangeEnd) -> list[Finding]:
    one = JUDGES[name]
    given = {p.name: empty(p.annotation, end) for p in inspect.signature(one).parameters.values()}
    found = one(**given)
    return [each for each in (found if isinstance(found, list) else [found]) if each is not None]


def test_all_judges_are_found() -> None:
    assert len(JUDGES) > 35
    assert JUDGES.keys() >= BY_THE_ANSWER


@pytest.mark.parametrize("end", [ExchangeEnd.SILENT, ExchangeEnd.DROPPED, ExchangeEnd.NOTICE])
@pytest.mark.parametrize("name", sorted(JUDGES.keys() - {"judge_standing.clock"}))
def test_no_answer_is_never_right(name: str, end: ExchangeEnd) -> None:
    assert CheckOutcome.RIGHT not in {one.outcome for one in judged(name, end)}


@pytest.mark.parametrize("name", sorted(JUDGES.keys() - BY_THE_ANSWER - {"judge_standing.clock"}))
def test_an_answer_without_events_is_right_only_where_it_is_the_evidence(name: str) -> None:
    found = {one.test: one.outcome for one in judged(name, ExchangeEnd.ANSWERED)}
    allowed = {"read.answer", "read.frames"} if name == "judge_reading.each_answer" else set()
    assert {test for test, what in found.items() if what is CheckOutcome.RIGHT} <= allowed


@pytest.mark.parametrize("end", [ExchangeEnd.SILENT, ExchangeEnd.NOTICE, ExchangeEnd.DROPPED])
def test_a_message_that_a_relay_does_not_list_may_go_unanswered(end: ExchangeEnd) -> None:
    """NIPs 45 and 77 bind relays that have them."""
    for listed, outcome in ((True, CheckOutcome.WRONG), (False, CheckOutcome.NOTED)):
        counted = count_refused(CountExchange(end=end), listed=listed)
        compared = neg_refused(NegExchange(end=end), listed=listed)
        assert counted is not None
        assert compared is not None
        assert (counted.outcome, compared.outcome) == (outcome, outcome)
