"""What stderr shows while a run is under way: on a terminal a live table, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from feddag.cli.tables import bare_table
from feddag.drawing.figures import find_figure, format_figure
from feddag.learners.status import Progress, Status

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def shown_progress(console: Console, *, quiet: bool, notice: Callable[[], str]) -> Iterator[Progress]:
    """Yield the callback that shows each round of a fit.

    On a terminal, what `notice` returns stands below.
    """
    if quiet:
        yield lambda status: None
    elif not console.is_terminal:
        lines = Lines(console)
        yield lambda status: lines.write(lambda: _line(status))
    else:
        table = _LiveTable(console, notice)
        with Live(get_renderable=table.render, console=console, refresh_per_second=4, transient=True):
            yield table


class _LiveTable:
    """The last status of each site that learns alone, or of the whole federation."""

    def __init__(self, console: Console, notice: Callable[[], str]) -> None:
        self._console = console
        self._notice = notice
        self._spinner = Spinner("dots")
        self._rows: dict[str | None, Status] = {}
        self._updated = time.monotonic()

    def __call__(self, status: Status) -> None:
        self._rows[status.site] = status
        self._updated = time.monotonic()

    def render(self) -> Table | Spinner:
        # sites begin one after the other, so the last ones are those under way
        rows = list(self._rows.values())[-max(1, self._console.height - 5) :]
        since = time.monotonic() - self._updated
        if not rows:
            self._spinner.update(text=f"Preparing, and learning the first round: {clock(since)}  {self._notice()}")
            return self._spinner
        alone = rows[0].site is not None
        table = bare_table()
        table.caption, table.caption_justify = self._notice(), "left"
        if alone:
            table.add_column("site", no_wrap=True)
        identifiers = dict.fromkeys(name for row in rows for name in row.figures)
        for name in identifiers:
            table.add_column(find_figure(name).heading, justify="right", no_wrap=True)
        table.add_column("time", no_wrap=True)
        for row in rows:
            figures = [Text(format_figure(name, row.figures.get(name, ""))) for name in identifiers]
            spent = row.seconds if alone else row.seconds + since
            table.add_row(*([Text(row.site)] if row.site else []), *figures, f"{clock(spent)}{_left(row)}")
        return table


class Lines:
    """For logs: at most one line every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = Lock()
        self._last = -SECONDS_BETWEEN_LINES

    def write(self, line: Callable[[], str], *, now: bool = False) -> None:
        """Write a line, if it is time to, or `now`."""
        with self._lock:
            if now or time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
                self._last = time.monotonic()
                self._console.print(line(), markup=False, soft_wrap=True)


def _line(status: Status) -> str:
    who = "" if status.site is None else f"{status.site}: "
    figures = [f"{find_figure(name).heading} {format_figure(name, value)}" for name, value in status.figures.items()]
    return f"{who}{', '.join([*figures, clock(status.seconds)])}{_left(status)}"


def _left(status: Status) -> str:
    return "" if status.seconds_left is None else f", about {clock(status.seconds_left)} left"


def clock(seconds: float) -> str:
    """Format seconds such as 0:07, 12:34 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
