"""What stderr shows while a run is under way: on a terminal a live table, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from feddag.cli.time_left import TimeLeft
from feddag.learners import FedDAG, Round
from feddag.learners.feddag import Progress

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def shown_progress(
    estimator: FedDAG, console: Console, *, quiet: bool, notice: Callable[[], str]
) -> Iterator[Progress]:
    """The callback that shows each round of a fit, for as long as the context lasts.

    On a terminal, what `notice` returns stands below.
    """
    if quiet:
        yield lambda site, round_: None
        return
    rounds = _Rounds(estimator)
    if not console.is_terminal:
        yield _Lines(rounds, console)
        return
    table = _LiveTable(rounds, console, notice)
    with Live(get_renderable=table.render, console=console, refresh_per_second=4, transient=True):
        yield rounds


class _Row(NamedTuple):
    round: Round
    seconds_left: float | None


class _Rounds:
    """The last round of each site that learns alone, or of the whole federation (under None)."""

    def __init__(self, estimator: FedDAG) -> None:
        self.rows: dict[str | None, _Row] = {}
        self._estimator = estimator
        self._times: dict[str | None, TimeLeft] = {}
        self._started = time.monotonic()

    def __call__(self, site: str | None, round_: Round) -> None:
        if site not in self._times:
            self._times[site] = TimeLeft(self._estimator.h_tol, self._estimator.rho_max)
        self.rows[site] = _Row(round_, self._times[site].after(round_))

    @property
    def elapsed(self) -> str:
        return clock(time.monotonic() - self._started)


class _LiveTable:
    def __init__(self, rounds: _Rounds, console: Console, notice: Callable[[], str]) -> None:
        self._rounds = rounds
        self._console = console
        self._notice = notice
        self._spinner = Spinner("dots")

    def render(self) -> Table | Spinner:
        rows = list(self._rounds.rows.items())
        if not rows:
            waiting = f"Compiling, and learning the first round: {self._rounds.elapsed}  {self._notice()}"
            self._spinner.update(text=waiting)
            return self._spinner
        alone = rows[0][0] is not None
        table = Table(
            box=None, header_style="dim", padding=(0, 2, 0, 0), caption=self._notice(), caption_justify="left"
        )
        if alone:
            table.add_column("site", no_wrap=True)
        for heading in ("sub-problem", "step", "ρ", "h", "edges", "time"):
            table.add_column(heading, justify="left" if heading == "time" else "right", no_wrap=True)
        # sites begin one after the other, so the last ones are those under way
        for site, (round_, seconds_left) in rows[-max(1, self._console.height - 5) :]:
            cells = [
                f"{round_.sub_problem}",
                f"{round_.step}",
                f"{round_.rho:.1e}",
                f"{round_.h:.1e}",
                f"{round_.edges}",
                f"{clock(round_.seconds) if alone else self._rounds.elapsed}{_left(seconds_left)}",
            ]
            table.add_row(*([] if site is None else [Text(site)]), *cells)
        return table


class _Lines:
    """For logs: at most one line every few seconds."""

    def __init__(self, rounds: _Rounds, console: Console) -> None:
        self._rounds = rounds
        self._console = console
        self._lock = Lock()
        self._last = -SECONDS_BETWEEN_LINES

    def __call__(self, site: str | None, round_: Round) -> None:
        with self._lock:
            self._rounds(site, round_)
            if time.monotonic() - self._last < SECONDS_BETWEEN_LINES:
                return
            self._last = time.monotonic()
            who = "" if site is None else f"{site}: "
            self._console.print(
                f"{who}sub-problem {round_.sub_problem}, step {round_.step}: ρ {round_.rho:.1e}, "
                f"h {round_.h:.1e}, {round_.edges} edges, "
                f"{self._rounds.elapsed}{_left(self._rounds.rows[site].seconds_left)}",
                markup=False,
                soft_wrap=True,
            )


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", about {clock(seconds)} left"


def clock(seconds: float) -> str:
    """Such as 0:07, 12:34 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
