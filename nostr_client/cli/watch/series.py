"""Write a watch's history: as text, CSV, JSON, Parquet, or a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nostr_client.cli.output import csv_of
from nostr_client.codecs import display
from nostr_client.errors import optional

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.watch import Point

_OWN = ("at", "value", "low", "high", "exact", "as_said", "unit", "least", "most", "samples")
_WITHIN = ("within", "within_low", "within_high", "within_exact", "within_web")
COLUMNS = (*_OWN, *_WITHIN)
_FLAGS = ("exact", "as_said", "within_exact")


def as_dicts(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the points as JSON values of COLUMNS."""
    return [{name: getattr(point, name) for name in _OWN} | _of_web(point) for point in points]


def _of_web(point: Point) -> dict[str, Any]:
    """Return the columns of the figure within a web; all None if it is not known."""
    found = point.within
    figure = None if found is None else found.figure
    if found is None or figure is None:
        return dict.fromkeys(_WITHIN)
    values = (figure.value, figure.low, figure.high, figure.exact, found.web)
    return dict(zip(_WITHIN, values, strict=True))


def as_csv(points: Sequence[Point]) -> str:
    """Write one row for each point with a header; times in Unix seconds, an empty cell for no
    bound."""
    cells = ([_cell(one[name]) for name in COLUMNS] for one in as_dicts(points))
    return csv_of(COLUMNS, cells)


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def write_parquet(points: Sequence[Point], path: Path) -> None:
    """Write one row for each point, with zstd. Raises MissingExtra without pyarrow."""
    with optional("Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    kinds = dict.fromkeys(COLUMNS, pa.int64()) | dict.fromkeys(_FLAGS, pa.bool_())
    kinds |= dict.fromkeys(("unit", "within_web"), pa.string())
    schema = pa.schema([(name, kinds[name]) for name in COLUMNS])
    pq.write_table(pa.Table.from_pylist(as_dicts(points), schema), path, compression="zstd")


def plot(points: Sequence[Point], path: Path, title: str) -> None:
    """Draw the series as a PNG: value as a line, interval as a band. Raises MissingExtra."""
    import numpy as np

    with optional("a plot"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(9, 4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    times = np.array([point.at for point in points], "datetime64[s]")
    low = [point.low for point in points]
    high = [point.value if point.high is None else point.high for point in points]
    axes.fill_between(times, low, high, alpha=0.2, linewidth=0)
    axes.plot(times, [point.value for point in points], linewidth=1.5)
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    figure.savefig(path, format="png")


def sparkline_of(points: Sequence[Point], width: int = 40) -> str:
    """Return the series as a line of blocks."""
    from nostr_client.watch import sparkline

    return sparkline((point.value for point in points), width)


def lines_of(points: Sequence[Point], most: int = 20) -> list[str]:
    """Return the last points as lines."""
    return [f"{moment(point.at)}  {number(point)}{_near(point)}" for point in points[-most:]]


def _near(point: Point) -> str:
    """Return the figure within a web, after a semicolon; nothing if it is not known."""
    found = point.within
    if found is None or found.figure is None:
        return ""
    return f"; within {found.web}: {display.said(found.figure)}"


def number(point: Point) -> str:
    """Return a point's number with its precision, as `count` prints it."""
    return display.said(point.figure)


def moment(at: float | None) -> str:
    """Return a time for people, in UTC; "never" for None."""
    return "never" if at is None else display.minute(at)
