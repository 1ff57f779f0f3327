"""`nostr-client key`: make a key, show the public side of one."""

from __future__ import annotations

import os

import click

from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.paths import UserPath
from nostr_client.cli.secretkey import key_file_option, load_signer
from nostr_client.errors import InvalidInput


@click.group()
def key() -> None:
    """Make and show keys. A secret key is never taken from the command line itself."""


@key.command()
@click.option(
    "--out",
    type=UserPath(path_type=str, dir_okay=False),
    metavar="FILE",
    help="Write the secret to a new file, readable by you.",
)
@json_option
def gen(out: str | None, as_json: bool) -> None:
    """Make a key pair.

    Without --out the secret is printed on stdout. With it stdout gets the public key.
    """
    from nostr_client.keys import KeySigner

    signer = KeySigner.generate()
    if out is not None:
        _write_secret(out, signer.nsec())
        say(f"secret key written to {out}")
    public = _public(signer.pubkey)
    if as_json:
        print_json(public if out is not None else public | {"nsec": signer.nsec()})
    elif out is not None:
        click.echo(public["npub"])
    else:
        say(f"public key {public['npub']}; keep the next line secret")
        click.echo(signer.nsec())


@key.command()
@key_file_option
@json_option
def show(key_file: str | None, as_json: bool) -> None:
    """Show the public key that belongs to a secret key, as npub and hex."""
    public = _public(load_signer(key_file).pubkey)
    if as_json:
        print_json(public)
    else:
        click.echo(f"{public['npub']}\n{public['pubkey']}")


def _public(pubkey: str) -> dict[str, str]:
    from nostr_client.nip19 import PublicKey

    return {"npub": PublicKey(pubkey).encode(), "pubkey": pubkey}


def _write_secret(path: str, nsec: str) -> None:
    """A new file with mode 0600. Raises InvalidInput rather than overwriting a key, OSError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InvalidInput(f"{path} is there; choose another name") from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(nsec + "\n")
