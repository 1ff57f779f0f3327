"""One grammar for every program: a word means one thing, wherever it stands."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import click
import pytest

from nostr_client.cli.filteroptions import Conditions
from tests.commands import COMMANDS, context

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAVES = {name: one for name, one in COMMANDS.items() if not isinstance(one, click.Group)}

JSON_ANYWAY = {"nostr-client req", "nostr-client store export", "nostr-client store query",
               "nostr-client decode", "nostr-client assertions declare"}  # fmt: skip
"""Commands that print JSON as it is: an event a line, an identifier."""

NO_DATA = {"nostr-client completion", "nostr-tui"}

ONE_WORD = ("nostr-client encode ", "nostr-client hll ")
"""Groups whose commands print one word for the next command; some have JSON besides."""

FORMS = {"--format"}
"""What a command can write is its own: the forms of a history, and those of events in a file."""

OWN = {
    "nostr-client publish": {"--kind", "-k", "--tag", "-t"},
    "nostr-client coverage": {"--kind", "-k", "--since"},
    "nostr-client watch people": {"--since"},
    "nostr-client digest": {"--since"},
}
"""Words of filters in commands that take no filter: the kind and tags of the event that is made,
and what of an author is compared, or since when people are listed. Users know these words from
other tools."""

FORMER = {"change", "create", "delete", "edit", "explain", "info", "load", "rm", "stats"}
"""Verbs that once stood beside add, set, remove, show and get, and meant the same."""

FILTER_OPTIONS = {
    "--filter": "filters", "--id": "ids", "--author": "authors", "-a": "authors",
    "--kind": "kinds", "-k": "kinds", "--tag": "tags", "-t": "tags", "-e": "events",
    "-p": "people", "--since": "since", "--until": "until", "--search": "search",
}  # fmt: skip


def options() -> Iterator[tuple[str, click.Option]]:
    for name, command in COMMANDS.items():
        yield from ((name, one) for one in command.params if isinstance(one, click.Option))


def meaning(one: click.Option) -> tuple[Any, ...]:
    """All that makes an option what it is, but for its other spellings."""
    return repr(one.type.to_info_dict()), repr(one.default), one.multiple, one.is_flag, one.help


def test_no_option_means_two_things() -> None:
    found: dict[str, dict[tuple[Any, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, one in options():
        for spelling in {*one.opts, *one.secondary_opts} - OWN.get(name, set()):
            found[spelling][meaning(one)].append(name)
    assert len(found) > 80
    twice = {word: list(of.values()) for word, of in found.items() if len(of) > 1}
    assert twice.keys() <= FORMS


def test_no_meaning_has_two_words() -> None:
    """The same help is the same option: none has a second name elsewhere."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for _, one in options():
        spellings[one.help or ""].add(max(one.opts, key=len))
    assert {help: words for help, words in spellings.items() if len(words) > 1} == {}


@pytest.mark.parametrize("name", list(LEAVES))
def test_every_command_with_data_gives_it_as_json(name: str) -> None:
    has_json = any("--json" in one.opts for one in LEAVES[name].params)
    if name.startswith(ONE_WORD):
        return
    assert has_json is (name not in JSON_ANYWAY | NO_DATA)


def test_every_command_with_a_filter_takes_all_ways_to_write_it() -> None:
    of_filters = 0
    for name, command in LEAVES.items():
        opts = {word for one in command.params for word in one.opts} - OWN.get(name, set())
        if opts & FILTER_OPTIONS.keys():
            of_filters += 1
            assert opts >= FILTER_OPTIONS.keys(), name
    assert of_filters > 8
    assert {*FILTER_OPTIONS.values(), "limit"} == {*Conditions._fields}


def test_a_verb_has_one_spelling() -> None:
    used = {name.split()[-1] for name in LEAVES if len(name.split()) > 2}
    assert used >= {"add", "get", "list", "remove", "run", "set", "show"}
    assert used.isdisjoint(FORMER)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_fits_a_terminal_and_is_cut_nowhere(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = COMMANDS[name].get_help(context(name))
    assert max(map(len, shown.splitlines())) <= 80, shown
    _, below = shown.split("\n\n", 1)
    assert not any(line.endswith(("...", "…")) for line in below.splitlines()), below


@pytest.mark.parametrize(
    "name", [name for name, one in COMMANDS.items() if isinstance(one, click.Group)]
)
def test_a_list_of_commands_has_a_sentence_for_each(name: str) -> None:
    command, where = COMMANDS[name], context(name)
    assert isinstance(command, click.Group)
    listed = " ".join(command.get_help(where).split("Commands:\n")[1].split())
    rows = re.split(r" ?(?:^|(?<=\. ))(?=[a-z][a-z-]* [A-Z])", listed)
    found = dict(row.split(" ", 1) for row in rows if row)
    assert list(found) == command.list_commands(where)
    for sentence in found.values():
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert not sentence.endswith("..")
