"""Where a command may find a secret key: a file, stdin or the environment, never its arguments.

Arguments are readable by every process of the machine and stay in the shell's history.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nostr_client.cli.paths import UserPath, read_given
from nostr_client.places import check_secret_file

if TYPE_CHECKING:
    from nostr_client.keys import KeySigner

KEY_VARIABLE = "NOSTR_TALLY_KEY"
_LONGEST = 4096

F = TypeVar("F", bound=Callable[..., Any])

key_file_option: Callable[[F], F] = click.option(
    "--key-file",
    type=UserPath(path_type=str, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help=f"File that holds the secret key, nsec or hex; - reads stdin. Else ${KEY_VARIABLE}.",
)
"""The `--key-file` option; the command receives it as `key_file`."""


def load_signer(key_file: str | None) -> KeySigner:
    """The signer of the key in `key_file`, in stdin for `-`, else in the environment.

    Raises click.UsageError when there is none, InvalidInput when it is no key or the file cannot
    be read.
    """
    from nostr_client.keys import KeySigner

    text, where = _secret_text(key_file).strip(), _named(key_file)
    if not text:
        given = f"{where} is empty: " if where != KEY_VARIABLE else ""
        raise click.UsageError(f"{given}no secret key: give --key-file FILE or set {KEY_VARIABLE}")
    return KeySigner.from_nsec(text, where)


def optional_signer(key_file: str | None) -> KeySigner | None:
    """As `load_signer`, but None where neither a file nor the environment was given."""
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
