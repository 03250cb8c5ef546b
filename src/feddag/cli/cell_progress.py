"""What stderr shows while cells are computed: on a terminal a bar, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from feddag.cli.progress import SECONDS_BETWEEN_LINES, clock
from feddag.experiments.running import Standing


@contextmanager
def shown_cells(console: Console, *, quiet: bool) -> Iterator[Callable[[Standing], None]]:
    """The callback that shows each cell that ended, for as long as the context lasts."""
    if quiet:
        yield lambda standing: None
    elif not console.is_terminal:
        yield _Lines(console)
    else:
        columns = SpinnerColumn(), BarColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("the first cell is under way", total=None)
            started = time.monotonic()

            def show(standing: Standing) -> None:
                text = f"{_told(standing, time.monotonic() - started)}  [dim]{standing.last}[/]"
                progress.update(task, total=standing.total, completed=standing.done, description=text)

            yield show


class _Lines:
    """For logs: at most one line every few seconds, and the last."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._last = -SECONDS_BETWEEN_LINES

    def __call__(self, standing: Standing) -> None:
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_LINES and standing.done < standing.total:
            return
        self._last = now
        text = f"{_told(standing, now - self._started)}: {standing.last}"
        self._console.print(text, markup=False, soft_wrap=True)


def _told(standing: Standing, seconds: float) -> str:
    left = "" if standing.seconds_left is None else f", about {clock(standing.seconds_left)} left"
    return f"{standing.done} of {standing.total} cells, {clock(seconds)}{left}"
