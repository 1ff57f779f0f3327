"""`nostr-client key`: make a key, show its public half."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.entry import CommandGroup
from nostr_client.cli.output import json_option, output_option, print_json, say
from nostr_client.cli.parameters import UserPath, read_given
from nostr_client.errors import InvalidInput
from nostr_client.paths import check_secret_file

if TYPE_CHECKING:
    from nostr_client.codecs.keys import KeySigner


KEY_VARIABLE = "NOSTR_TALLY_KEY"
_LONGEST = 4096

F = TypeVar("F", bound=Callable[..., Any])

key_file_option: Callable[[F], F] = click.option(
    "--key-file",
    type=UserPath(path_type=str, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help=f"Read the secret key, nsec or hex, from this file; - is stdin. Default: ${KEY_VARIABLE}.",
)
"""The `--key-file` option; the command receives it as `key_file`."""


def load_signer(key_file: str | None) -> KeySigner:
    """Return the signer of the key in `key_file`, in stdin for `-`, else in the environment.

    Raises click.UsageError without a key, InvalidInput if the key is invalid or the file cannot be
    read.
    """
    from nostr_client.codecs.keys import KeySigner

    return KeySigner.from_nsec(*key_text(key_file))


def key_text(key_file: str | None) -> tuple[str, str]:
    """Return the text of a secret key and the name of its source, as `load_signer` finds them."""
    text, where = _secret_text(key_file).strip(), _named(key_file)
    if not text:
        given = f"{where} is empty: " if where != KEY_VARIABLE else ""
        raise click.UsageError(f"{given}no secret key: give --key-file FILE or set {KEY_VARIABLE}")
    return text, where


def optional_signer(key_file: str | None) -> KeySigner | None:
    """As `load_signer`, but return None if neither a file nor the environment names a key."""
    given = key_file is not None or os.environ.get(KEY_VARIABLE)
    return load_signer(key_file) if given else None


def _named(key_file: str | None) -> str:
    return KEY_VARIABLE if key_file is None else "stdin" if key_file == "-" else key_file


def _secret_text(key_file: str | None) -> str:
    if key_file == "-":
        return sys.stdin.read(_LONGEST)
    if key_file is not None:
        given = read_given(key_file, _LONGEST).decode("ascii", "replace")
        check_secret_file(Path(key_file))
        return given
    return os.environ.get(KEY_VARIABLE, "")


@click.group(cls=CommandGroup)
def key() -> None:
    """Make and show keys. No command takes a secret key as an argument."""


@key.command()
@output_option
@json_option
def gen(output: Path | None, as_json: bool) -> None:
    """Make a key pair.

    Without --output the secret key is printed on stdout; with it, stdout gets the public key.
    """
    from nostr_client.codecs.keys import KeySigner

    signer = KeySigner.generate()
    if output is not None:
        _write_secret(output, signer.nsec())
        say(f"secret key written to {output}")
    public = _public(signer.pubkey)
    if as_json:
        print_json(public if output is not None else public | {"nsec": signer.nsec()})
    elif output is not None:
        click.echo(public["npub"])
    else:
        say(f"public key {public['npub']}; keep the next line secret")
        click.echo(signer.nsec())


@key.command()
@key_file_option
@json_option
def show(key_file: str | None, as_json: bool) -> None:
    """Show the public key of a secret key, as npub and hex."""
    public = _public(load_signer(key_file).pubkey)
    if as_json:
        print_json(public)
    else:
        click.echo(f"{public['npub']}\n{public['pubkey']}")


def _public(pubkey: str) -> dict[str, str]:
    from nostr_client.codecs.nip19 import PublicKey

    return {"npub": PublicKey(pubkey).encode(), "pubkey": pubkey}


def _write_secret(path: Path, nsec: str) -> None:
    """Create a file with mode 0600. Raises InvalidInput instead of overwriting a key, OSError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists; choose another name") from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(nsec + "\n")
