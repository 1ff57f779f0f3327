"""The options of every command that asks relays: how these are reached, and how fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from nostr_client.cli.app import cli
from nostr_client.cli.relays import network_options
from nostr_client.errors import InvalidInput
from nostr_client.options import Options, RelayBudget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def commands(command: click.Command, above: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command and group with its options."""
    yield " ".join(above), {name for one in command.params for name in one.opts}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*above, name))


def test_who_connects_to_relays_may_lift_the_budget_of_ones_own() -> None:
    proxied = {name: options for name, options in commands(cli) if "--proxy" in options}
    elsewhere = ("counter ", "watch add", "watch set")  # nats-servers, and domains of names
    asking = {name for name in proxied if not name.startswith(elsewhere)}
    assert {"assertions", "count", "coverage", "watch", "req"} | {"sync", "mirror"} | {
        "publish",
        "relay",
    } == {name.split()[0] for name in asking}
    assert {name for name, options in proxied.items() if "--unlimited" in options} == asking


def network(*args: str, strangers: bool = False) -> Options:
    seen: list[Options] = []

    @click.command()
    @network_options(strangers=strangers)
    def command(network: Options) -> None:
        seen.append(network)

    result = CliRunner().invoke(command, args)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return seen[0]


@pytest.mark.parametrize(
    ("args", "budget", "unlimited"),
    [
        ((), RelayBudget(), set()),
        (("--unlimited", "WSS://Mine.example:443"), RelayBudget(), {"wss://mine.example"}),
        (("--unlimited", "a.example", "--unlimited", "wss://b.example"), RelayBudget(),
         {"wss://a.example", "wss://b.example"}),
        (("--unlimited", "all"), None, set()),
    ],
)  # fmt: skip
def test_the_budget_is_lifted_for_relays_of_ones_own_or_for_all(
    args: Sequence[str], budget: RelayBudget | None, unlimited: set[str]
) -> None:
    found = network(*args)
    assert (found.budget, set(found.unlimited)) == (budget, unlimited)


def test_strangers_are_reached_by_the_proxy_where_the_command_meets_any() -> None:
    found = network("--proxy", "socks5h://h:1", "--strangers-by-proxy", strangers=True)
    assert found.connection.strangers_by_proxy
    assert not network("--proxy", "none").connection.strangers_by_proxy


@pytest.mark.parametrize("args", [("--proxy", "x://y"), ("--unlimited", "http://[")])
def test_what_is_no_proxy_or_relay_is_refused(args: Sequence[str]) -> None:
    with pytest.raises(InvalidInput):
        network(*args)
