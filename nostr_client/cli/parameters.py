"""Types of parameters that commands of every program take: paths, times and durations."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import click

from nostr_client.codecs.display import seconds
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    _PathType = click.Path[Any]
    _FloatType = click.ParamType[float]
    _IntType = click.ParamType[int]
else:  # generic only in new versions of click
    _PathType = click.Path
    _FloatType = click.ParamType
    _IntType = click.ParamType


class UserPath(_PathType):
    """A path, or a URL, as people write it: `~` is a home folder, and empty text is refused.

    A shell expands `~` only at the beginning of a word: not in `--store=~/x.db`, and not if a
    program is started without a shell.
    """

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        return super().convert(_user_path(self, value, param, ctx), param, ctx)


def read_given(path: str, most: int) -> bytes:
    """Return the first `most` bytes of a file given to a command. Raises InvalidInput."""
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error


def _user_path(
    kind: click.Path[Any],
    value: str | os.PathLike[str],
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> str:
    text = os.path.expanduser(os.fspath(value))
    if not text:
        kind.fail("the name is empty", param, ctx)
    return text


class TimeParameter(_IntType):
    """Unix seconds, given as a date, a time ago, or a number (`codecs.times`)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from nostr_client.codecs.times import time_of

        try:
            return time_of(str(value), time.time())
        except InvalidInput as error:
            self.fail(str(error), param, ctx)


class Seconds(click.FloatRange):
    """Seconds above 0, finite: `nan` passes every range check, so it is refused here."""

    def __init__(self, most: float | None = None) -> None:
        super().__init__(min=0, min_open=True, max=most)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return found


class Percent(_FloatType):
    """A number of per cent from 0 to 100, given as `5` or `5%`."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(str(value).strip().removesuffix("%"))
        except ValueError:
            number = math.nan
        if not 0 <= number <= 100:
            self.fail(f"{value!r} is not from 0% to 100%: write for instance 5%", param, ctx)
        return number


class Duration(_FloatType):
    """Seconds, given as `90s`, `15m`, `2h`, `1d` or `1w`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return seconds(str(value).strip())
        except InvalidInput as error:
            self.fail(str(error), param, ctx)
