"""Declares options that several commands share: which configuration, and how to print."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.config.load import CONFIG_VARIABLE
from nostr_client.cli.parameters import UserPath
from nostr_client.paths import config_path, user_path

if TYPE_CHECKING:
    from agent.config import Config

F = TypeVar("F", bound=Callable[..., Any])


config_option: Callable[[F], F] = click.option(
    "--config",
    "-c",
    metavar="FILE",
    type=UserPath(path_type=Path),
    help=f"The configuration. Else ${CONFIG_VARIABLE}, else agent.toml in the user's folder. "
    "Commands that ask a running agent ask the one of FILE; without FILE, the first one.",
)

_set_option: Callable[[F], F] = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Override one key of the configuration; repeat for more.",
)


def config_options(command: F) -> F:
    """`--config` and `--set`; the command receives `config` and `settings`."""
    return config_option(_set_option(command))


def chosen_store(given: Path | None, config: Path | None, settings: tuple[str, ...]) -> Path:
    """The store of a command: as given, else the configuration's. Raises as `load_config`."""
    from agent.service.parts import store_file

    return given or store_file(load_config(config, settings))


def chosen_file(given: Path | None) -> Path | None:
    """The file to read: as given, else by the environment, else the user's one if there is one."""
    if given is not None:
        return given
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return user_path(named)
    default = config_path()
    return default if default.exists() else None


def load_config(given: Path | None, settings: tuple[str, ...]) -> Config:
    """The configuration of a command. Raises InvalidConfig, InvalidInput."""
    from agent.config import load

    return load(chosen_file(given), settings=settings)
