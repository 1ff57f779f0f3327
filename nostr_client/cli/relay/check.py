"""`nostr-client relay check`: test a relay against the NIPs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nostr_client.cli.entry import FAILURE, OK, run_async
from nostr_client.cli.key import key_file_option, load_signer, optional_signer
from nostr_client.cli.output import console, json_option, plain_table, print_json, say, waiting
from nostr_client.cli.relays import network_options, timeout_option
from nostr_client.codecs.display import plural

if TYPE_CHECKING:
    from nostr_client.codecs.keys import KeySigner
    from nostr_client.network.check import CheckReport
    from nostr_client.options import Options


@click.command()
@click.argument("url")
@click.option(
    "--write",
    is_flag=True,
    help="Write a few events with your key, read them back, and delete them. Two deletion requests"
    " of the key stay on the relay: use a key made for this.",
)
@click.option("--anonymous", is_flag=True, help="Answer AUTH with a fresh key instead of yours.")
@timeout_option
@key_file_option
@network_options()
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    url: str,
    write: bool,
    anonymous: bool,
    timeout: float,
    key_file: str | None,
    network: Options,
    as_json: bool,
) -> None:
    """Test whether the relay does what the NIPs and its own document say.

    The test queries the relay's own events, with 200 messages at most, at the usual rate. The
    result of each test is right, wrong, noted (a limit or a choice that is allowed) or not tested.
    Exit code 1 if one is wrong.
    """
    signer = _signer(write, anonymous, key_file)
    if write:
        say("two deletion requests (kind 5) of your key stay on the relay: use a key made for this")
    with waiting("checking"):
        report = run_async(_check(url, signer, write, timeout, network))
    if as_json:
        print_json(report.to_dict())
    else:
        _show(report)
    if report.remaining:
        left = plural(len(report.remaining), "deletion request")
        stay = "stays" if len(report.remaining) == 1 else "stay"
        say(f"{left} of your key {stay} there: {', '.join(report.remaining)}")
    ctx.exit(FAILURE if report.wrong else OK)


def _signer(write: bool, anonymous: bool, key_file: str | None) -> KeySigner | None:
    from nostr_client.codecs.keys import KeySigner

    if write and anonymous:
        raise click.UsageError("--write needs your own key: leave --anonymous out")
    if anonymous:
        return KeySigner.generate()
    return load_signer(key_file) if write else optional_signer(key_file)


async def _check(
    url: str, signer: KeySigner | None, write: bool, seconds: float, options: Options
) -> CheckReport:
    from nostr_client.network.check import check_relay

    return await check_relay(url, options=options, signer=signer, write=write, wait=seconds)


def _show(report: CheckReport) -> None:
    from rich.text import Text

    from nostr_client.errors import clip

    table = plain_table("test", "result", "what was seen")
    for one in report.findings:
        style = "bold" if one in report.wrong else ""
        table.add_row(Text(one.test), Text(one.outcome, style=style), Text(clip(one.text)))
    console().print(table)
    console().print(f"{plural(report.requests, 'message')}, {len(report.wrong)} wrong")
