"""The agent's configuration: one TOML file, the environment, and flags, as one checked value."""

from __future__ import annotations

from agent.config.load import Added, Draft, InvalidConfig, Mistake, load, parse, read
from agent.config.model import Config

__all__ = ["Added", "Config", "Draft", "InvalidConfig", "Mistake", "load", "parse", "read"]
