"""Show the progress of cells on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Column
from rich.text import Text

from feddag.cli.progress import Lines, clock
from feddag.experiments.running import Standing


@contextmanager
def show_cells(console: Console, *, quiet: bool, unit: str = "cells") -> Iterator[Callable[[Standing], None]]:
    """Give a callback that shows where a run stands, while the context lasts."""
    if quiet:
        yield lambda standing: None
    elif not console.is_terminal:
        lines, started = Lines(console), time.monotonic()

        def write(standing: Standing) -> None:
            lines.write(lambda: _line(standing, unit, started), now=standing.done >= standing.total)

        yield write
    else:
        description = _Description(unit)
        with Progress(SpinnerColumn(), BarColumn(), description, console=console, transient=True) as progress:
            task = progress.add_task("", total=None)

            def show(standing: Standing) -> None:
                description.update(standing)
                progress.update(task, total=standing.total, completed=standing.done)

            yield show


class _Description(ProgressColumn):
    """The text beside the bar; its clocks go on between two cells."""

    def __init__(self, unit: str) -> None:
        super().__init__(Column(no_wrap=True))
        self._unit = unit
        self._started = time.monotonic()
        self._standing, self._since = None, self._started

    def update(self, standing: Standing) -> None:
        """Take the newest standing."""
        self._standing, self._since = standing, time.monotonic()

    def render(self, task: Task) -> Text:
        """Write the standing with the time that has passed since."""
        del task
        if self._standing is None:
            return Text("preparing")
        now = time.monotonic()
        text = Text(_describe(self._standing, self._unit, now - self._started, now - self._since))
        return text.append(f"  {self._standing.last or ''}", style="dim")


def _line(standing: Standing, unit: str, started: float) -> str:
    last = "" if standing.last is None else f": {standing.last}"
    return f"{_describe(standing, unit, time.monotonic() - started)}{last}"


def _describe(standing: Standing, unit: str, seconds: float, since: float = 0.0) -> str:
    """Describe a standing that is `since` seconds old."""
    left = "" if standing.seconds_left is None else f", about {clock(max(0.0, standing.seconds_left - since))} left"
    return f"{standing.done} of {standing.total} {unit}, {clock(seconds)}{left}"
