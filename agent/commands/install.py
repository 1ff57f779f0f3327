"""`nostr-agent install-service`: have the machine's service manager run the agent."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.commands import service_files
from agent.commands.options import config_option, load_config
from agent.config.load import CONFIG_VARIABLE
from nostr_client.cli.output import force_option, json_option, print_json, print_option, say
from nostr_client.errors import InvalidInput
from nostr_client.paths import user_path

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command("install-service")
@click.option("--system", is_flag=True, help="For the whole machine, under a user of its own.")
@print_option
@force_option
@config_option
@json_option
def install_service(
    system: bool, to_stdout: bool, force: bool, config: Path | None, as_json: bool
) -> None:
    """Write a systemd unit, or a launchd property list on macOS; it is not started."""
    unit = _unit(system, config or _named_by_environment())
    if to_stdout and as_json:
        print_json({"file": unit.path, "text": unit.text, "then": list(unit.then)})
        return
    if to_stdout:
        click.echo(unit.text, nl=False)
        return
    path = Path(unit.path)
    if path.exists() and not force:
        raise InvalidInput(f"{path} is there; --force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit.text, "utf-8")
    if as_json:
        print_json({"file": str(path), "then": list(unit.then)})
        return
    click.echo(path)
    for line in unit.then:
        say(f"then: {line}")


def _unit(system: bool, config: Path | None) -> service_files.ServiceFile:
    command = _command(config)
    if sys.platform == "darwin":
        if system:
            raise InvalidInput("on macOS the service is the user's own")
        home = Path.home()
        path = home / "Library/LaunchAgents" / f"{service_files.LABEL}.plist"
        text = service_files.launchd(command, str(home / "Library/Logs/nostr-agent.log"))
        return service_files.ServiceFile(str(path), text, (f"launchctl load {path}",))
    reads_none = system and config is None
    writes = () if reads_none else _writes(config)
    text = service_files.systemd(command, user=not system, writes=writes)
    if system:
        path = Path("/etc/systemd/system") / f"{service_files.NAME}.service"
        enable = f"systemctl enable --now {service_files.NAME}"
        return service_files.ServiceFile(str(path), text, ("systemctl daemon-reload", enable))
    path = Path.home() / ".config/systemd/user" / f"{service_files.NAME}.service"
    then = (
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {service_files.NAME}",
        "loginctl enable-linger    # to keep it running after you log out",
    )
    return service_files.ServiceFile(str(path), text, then)


def _named_by_environment() -> Path | None:
    """The service will not have our environment, but is to read what we read."""
    named = os.environ.get(CONFIG_VARIABLE)
    return user_path(named) if named else None


def _writes(config: Path | None) -> Sequence[str]:
    """Folders that the configuration has the agent write; its default ones are in its state."""
    found = load_config(config, ())
    api = found.api
    tokens = (api.token_file, api.read_token_file, api.source_token_file)
    named = (found.store.path, *tokens)
    return sorted({str(user_path(path).absolute().parent) for path in named if path})


def _command(config: Path | None) -> tuple[str, ...]:
    """How this installation's agent is started, by absolute paths."""
    beside = Path(sys.executable).with_name(service_files.NAME)
    script = str(beside) if beside.exists() else shutil.which(service_files.NAME)
    start = (script,) if script else (sys.executable, "-m", "agent")
    where = () if config is None else ("--config", str(config.absolute()))
    return (*start, "run", *where)
