"""Reads the configuration: one TOML file, the environment and flags become one checked value.

Files and text enter; a checked `Config` leaves, or all mistakes at once. Start with `model`, which
declares every key, then `load`.
"""

from __future__ import annotations

from agent.config.load import Draft, InvalidConfig, Mistake, load, parse, read
from agent.config.model import Config
from agent.specs import StoredNames

__all__ = ["Config", "Draft", "InvalidConfig", "Mistake", "StoredNames", "load", "parse", "read"]
