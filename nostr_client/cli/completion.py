"""`nostr-client completion SHELL`: the code that a shell needs to complete our names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print completion code for SHELL.

    bash: eval "$(nostr-client completion bash)"
    """
    from nostr_client.cli.app import cli

    maker = get_completion_class(shell)
    if maker is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(maker(cli, {}, "nostr-client", "_NOSTR_CLIENT_COMPLETE").source())
