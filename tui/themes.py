"""Our own colours, beside those that Textual brings."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="tally-dark",
    primary="#5eb1ef",
    secondary="#b39ddb",
    accent="#f2b84b",
    success="#5fcf8f",
    warning="#f0a848",
    error="#f07178",
    background="#0e131a",
    surface="#141b24",
    panel="#1c2530",
    foreground="#d9e1ea",
    dark=True,
)
LIGHT: Final = Theme(
    name="tally-light",
    primary="#1767a8",
    secondary="#6b4fa0",
    accent="#9a5b00",
    success="#1c7a45",
    warning="#9a5b00",
    error="#b3261e",
    background="#faf9f6",
    surface="#f3f1ec",
    panel="#e7e4dc",
    foreground="#22262b",
    dark=False,
)
OWN: Final = (DARK, LIGHT)
