"""What other agents answer, as batches: nothing of it is believed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agent.api import schema
from agent.counters.reader import batch_of, joined
from nostr_client.errors import InvalidInput

GOOD: dict[str, Any] = {
    "store": "s",
    "epoch": "e",
    "stream": "app",
    "first_seq": 1,
    "last_seq": 5,
    "messages": [{"seq": 4, "subject": "a", "value": "1", "ts": 0}],
    "runs": [["r", 0]],
    "lineage": [["app@s"]],
}


def answer(**changes: Any) -> schema.Messages:
    found: schema.Messages = msgspec.json.decode(
        msgspec.json.encode({**GOOD, **changes}), type=schema.Messages
    )
    return found


def test_an_answer_reads_to_its_end_or_to_its_last_message() -> None:
    assert batch_of(answer(), "app", 0, whole=False).upto == 5
    assert batch_of(answer(more=True), "app", 0, whole=False).upto == 4
    assert batch_of(answer(lineage=[]), "app", 0, whole=False).ways == (("app@s",),)


@pytest.mark.parametrize(
    "changes",
    [
        {"stream": "other"},
        {"store": ""},
        {"store": "x" * 65},
        {"epoch": "\n"},
        {"last_seq": -1, "messages": []},
        {"last_seq": 2**60},
        {"last_seq": 3},
        {"more": True, "messages": []},
        {"runs": [["r", -1]]},
        {"runs": [["r", 0]] * 40},
        {"runs": [["r" * 100, 0]]},
        {"lineage": [["else"]]},
        {"messages": [{"seq": 2, "subject": "a", "value": "1", "ts": 0}] * 2},
    ],
)
def test_an_answer_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        batch_of(answer(**changes), "app", 0, whole=False)


def test_pages_of_one_stream_are_joined() -> None:
    one = batch_of(answer(more=True), "app", 0, whole=True)
    later = [{"seq": 5, "subject": "a", "value": "2", "ts": 0}]
    two = batch_of(answer(messages=later), "app", 4, whole=True)
    whole = joined([one, two])
    assert [(one.subject, one.value) for one in whole.arrivals] == [("a", "2")]
    assert (whole.upto, whole.after) == (5, 0)
    other = batch_of(answer(runs=[["r", 0], ["t", 5]]), "app", 4, whole=True)
    with pytest.raises(InvalidInput, match="changed"):
        joined([one, other])
