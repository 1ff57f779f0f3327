"""The options of every command with relays, and the exit code for the statuses of relays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from nostr_client.cli.entry import NO_RELAY, OK, TIMEOUT
from nostr_client.cli.parameters import Seconds
from nostr_client.codecs.relay_url import normalize

if TYPE_CHECKING:
    from nostr_client.options import Options

RELAYS_VARIABLE = "NOSTR_TALLY_RELAYS"

ALL: Final = "all"
"""The value of `--unlimited` that stands for every relay."""

F = TypeVar("F", bound=Callable[..., Any])

relay_option: Callable[[F], F] = click.option(
    "--relay",
    "-r",
    "relays",
    metavar="URL",
    multiple=True,
    envvar=RELAYS_VARIABLE,
    help=f"Ask this relay; repeat for more. Default: those of ${RELAYS_VARIABLE}.",
)
"""The repeatable `--relay`; the command receives a tuple as `relays`."""

timeout_option: Callable[[F], F] = click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(most=86_400),
    default=15.0,
    show_default=True,
    help="Wait at most this long for all relays together.",
)
"""`--timeout`, in seconds."""


proxy_option: Callable[[F], F] = click.option(
    "--proxy",
    metavar="URL",
    help="Connect through this SOCKS5 or HTTP proxy, such as socks5h://127.0.0.1:9050; "
    "none: no proxy. Default: those of $ALL_PROXY, $HTTPS_PROXY and $HTTP_PROXY; $NO_PROXY names "
    "hosts with direct connections.",
)
_UNLIMITED: Callable[[F], F] = click.option(
    "--unlimited",
    metavar="URL",
    multiple=True,
    help="Ask this relay of yours as fast as it answers, without the budget of public relays; "
    "repeat for more, all: no relay has a budget.",
)

_STRANGERS: Callable[[F], F] = click.option(
    "--strangers-by-proxy",
    is_flag=True,
    help="Also connect through the proxy to hosts that only others name (relay lists, wallets); it "
    "resolves their names unchecked.",
)


def network_options(*, strangers: bool = False) -> Callable[[F], F]:
    """Add the options of connections; the command receives them as `network`, Options.

    `strangers`: the command looks up relay lists, and so connects to relays that others name.
    """

    def add(command: F) -> F:
        @functools.wraps(command)
        def with_network(
            *args: Any, proxy: str | None, unlimited: Sequence[str], **given: Any
        ) -> Any:
            by_proxy = given.pop("strangers_by_proxy", False)
            return command(*args, network=_network(proxy, unlimited, by_proxy), **given)

        options = (
            (proxy_option, _STRANGERS, _UNLIMITED) if strangers else (proxy_option, _UNLIMITED)
        )
        wrapped: Any = with_network
        for option in reversed(options):
            wrapped = option(wrapped)
        return cast("F", wrapped)

    return add


def _network(proxy: str | None, unlimited: Sequence[str], strangers_by_proxy: bool) -> Options:
    """Build the proxies. Raises InvalidInput for an invalid proxy, InvalidRelayURL."""
    from nostr_client.options import ConnectionOptions, Options, RelayBudget

    return Options(
        connection=ConnectionOptions(proxy=proxy, strangers_by_proxy=strangers_by_proxy),
        budget=None if ALL in unlimited else RelayBudget(),
        share_budget=True,
        unlimited=frozenset(normalize(url) for url in unlimited if url != ALL),
    )


def chosen_relays(relays: Sequence[str]) -> list[str]:
    """Return the relays to ask, each once, as the user wrote them.

    Raises click.UsageError without a relay, InvalidRelayURL for an invalid URL.
    """
    if not relays:
        raise click.UsageError(f"no relay: give --relay URL or set {RELAYS_VARIABLE}")
    once: dict[str, str] = {}
    for url in relays:
        once.setdefault(normalize(url), url)
    return list(once.values())


def worst_code(codes: Sequence[int]) -> int:
    """Return the code of many questions: 0 if each was answered, 124 if all others timed out, else
    3."""
    failed = {code for code in codes if code != OK}
    return NO_RELAY if len(failed) > 1 else next(iter(failed), OK)


def outcome_code(statuses: Sequence[str]) -> int:
    """Return 0 if any relay answered, 124 if every one timed out, else 3."""
    if "ok" in statuses:
        return OK
    return TIMEOUT if all(status == "timeout" for status in statuses) else NO_RELAY
