"""What filters and the options beside them say together, for every command that takes both."""

from __future__ import annotations

from typing import Any

import click
import pytest

from nostr_client.cli.filteroptions import Conditions
from nostr_client.codecs.filters import Filter

KEY, OTHER, ID = "ab" * 32, "cd" * 32, "ef" * 32


def chosen(**given: Any) -> list[Filter]:
    return Conditions(**given).chosen()


def test_options_alone_make_one_filter() -> None:
    found = chosen(ids=[ID], authors=[KEY], kinds=(1, 2), tags=["t=x", "t=y"], search="x", limit=2)
    assert found == [
        Filter(ids=[ID], authors=[KEY], kinds=[1, 2], tags={"#t": ["x", "y"]}, search="x", limit=2)
    ]


def test_options_add_to_each_filter() -> None:
    filters = ['{"kinds":[7]}', f'{{"authors":["{KEY}"],"limit":9,"since":5,"#t":["x"]}}']
    found = chosen(filters=filters, kinds=(1,), authors=[OTHER], tags=["t=y"], limit=2, until=8)
    assert found == [
        Filter(kinds=[7, 1], authors=[OTHER], tags={"#t": ["y"]}, until=8, limit=2),
        Filter(authors=[KEY, OTHER], kinds=[1], tags={"#t": ["x", "y"]}, since=5, until=8, limit=2),
    ]


def test_a_filter_without_options_is_what_it_was() -> None:
    assert chosen(filters=['{"kinds":[7],"limit":2}']) == [Filter(kinds=[7], limit=2)]
    assert chosen(filters=["{}"]) == [Filter()]


def test_nothing_is_no_filter() -> None:
    with pytest.raises(click.UsageError, match="no filter"):
        chosen()
