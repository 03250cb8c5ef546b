"""Compute cells side by side, and keep each result as soon as it is there.

joblib spreads them: over processes of this machine, or over whatever backend `joblib.parallel_config` names (Dask,
Ray). Only the process that calls `run` touches the store, so workers may be on machines that do not see it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import joblib

from feddag import constraints
from feddag.errors import FeddagError
from feddag.experiments.cell import Cell
from feddag.experiments.result import Failure, Result, compute_or_fail
from feddag.experiments.settings import Real
from feddag.experiments.store import Store
from feddag.extras import imported
from feddag.parallel import as_finished


@dataclass(frozen=True)
class Standing:
    """Where a run stands at its beginning, and after each cell."""

    done: int
    """Cells of this run, with those that were there before, and those that another process has taken."""
    total: int
    last: str | None
    """The cell that ended; None at the beginning."""
    seconds_left: float | None


@dataclass
class Outcome:
    """What became of the cells."""

    total: int
    there_before: int
    computed: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def elsewhere(self) -> int:
        """Count the cells that another process computes, or has computed meanwhile."""
        return self.total - self.there_before - self.computed - len(self.failures)


_CHOSEN = ("declared", "tuned", "by hand", "grid")
"""Where parameters were chosen in several ways, the first of these counts."""


def run(
    cells: Iterable[Cell],
    store: Store,
    *,
    jobs: int | None = None,
    chosen: str = "declared",
    folder: Path | None = None,
    again: bool = False,
    progress: Callable[[Standing], None] = lambda standing: None,
) -> Outcome:
    """Compute the cells that the store lacks.

    Args:
        cells: In the order to be computed.
        store: Where results go.
        jobs: Processes, -1 for one per core; None leaves it to `joblib.parallel_config`, and is one without that.
        chosen: How the cells' parameters were chosen (`Result.chosen`).
        folder: Where the data of the user are, if the cells need them.
        again: Compute also what the store holds; each result stays until the new one takes its place.
        progress: Called at the beginning, and after every cell. What it raises ends the run; what is finished stays.
    """
    if jobs is not None and (jobs == 0 or jobs < -1):
        raise constraints.refusal("jobs", "a number of processes, or -1 for one per core", jobs)
    cells = list(cells)
    for cell in cells:
        cell.check()
    cells = list({cell.key: cell for cell in cells}.values())
    before = store.results_of(cells)
    _check_data(cells, store, folder)
    ways = {key: min(chosen, result.chosen, key=_CHOSEN.index) for key, result in before.items()}
    store.mark_chosen([key for key, result in before.items() if ways[key] != result.chosen], chosen)
    if again:
        before = {}
    pending = [cell for cell in cells if cell.key not in before]
    outcome = Outcome(len(cells), len(before))
    pace = Pace(store, pending)
    at_once = joblib.effective_n_jobs(jobs)  # pyright: ignore[reportArgumentType]
    workers = None if at_once == 1 else 1

    def claimed() -> Iterator[Any]:
        for cell in pending:
            if store.claim(cell, again=again):
                yield joblib.delayed(compute_or_fail)(cell, ways.get(cell.key, chosen), workers, folder)
            else:
                pace.finish(cell.key, None)

    if pending:
        progress(Standing(len(before), len(cells), None, pace.seconds_left(at_once)))
    with store.claiming():
        found: Iterator[Result | Failure] = as_finished(claimed(), jobs)
        for result in found:
            if isinstance(result, Failure):
                outcome.failures.append(result)
                store.release([result.cell])
                key, last = result.cell.key, f"failed: {result.cell.title}"
            else:
                store.keep(result)
                outcome.computed += 1
                key, last = result.key, pace.titles[result.key]
            pace.finish(key, None if isinstance(result, Failure) else result.elapsed)
            progress(Standing(outcome.total - pace.pending, outcome.total, last, pace.seconds_left(at_once)))
        if outcome.elsewhere:
            progress(Standing(outcome.total, outcome.total, f"{outcome.elsewhere} are another process's", 0.0))
    return outcome


_LATEST = 5
"""The number of similar cells that predict how long one takes: older ones may be of another or a busier machine."""


class Pace:
    """Predicts how long the cells to come will take, by the time of the most similar ones so far."""

    def __init__(self, store: Store, pending: list[Cell]) -> None:
        self.titles = {cell.key: cell.title for cell in pending}
        self._likenesses = {
            cell.key: _likenesses(cell.method, cell.regime, cell.setting.identity()) for cell in pending
        }
        self._pending = set(self._likenesses)
        self._seconds: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for method, regime, setting, seconds in store.paces():
            for likeness in _likenesses(method, regime, setting):
                self._seconds[likeness].append(seconds)

    @property
    def pending(self) -> int:
        """Count the cells to come."""
        return len(self._pending)

    def finish(self, key: str, seconds: float | None) -> None:
        """Note that a cell has ended, and how long it took; None for a cell that was not computed."""
        self._pending.discard(key)
        if seconds is not None:
            for likeness in self._likenesses[key]:
                self._seconds[likeness].append(seconds)

    def seconds_left(self, jobs: int) -> float | None:
        """Predict the seconds left; None while a cell to come is like nothing that was measured."""
        expected = [self._expected(key) for key in tuple(self._pending)]  # joblib's threads take from it meanwhile
        known = [each for each in expected if each is not None]
        return sum(known) / max(1, jobs) if len(known) == len(expected) else None

    def _expected(self, key: str) -> float | None:
        for likeness in self._likenesses[key]:
            if self._seconds[likeness]:
                return fmean(self._seconds[likeness][-_LATEST:])
        return None


def _likenesses(method: str, regime: str, setting: dict[str, Any]) -> list[tuple[Any, ...]]:
    """List what to compare a cell by: from the same setting on another seed to the same method anywhere."""
    size = setting.get("nodes", setting.get("real"))
    return [
        (method, regime, *sorted((name, str(value)) for name, value in setting.items())),
        (method, regime, size, setting.get("functions")),
        (method, regime, size),
        (method, size),
        (method,),
    ]


def _check_data(cells: list[Cell], store: Store, folder: Path | None) -> None:
    """Refuse to add results to a table whose earlier results come from other numbers of the user's own data."""
    for setting in {cell.setting for cell in cells if isinstance(cell.setting, Real) and cell.setting.needs_folder}:
        if store.digests(setting) - {setting.draw(0, folder).digest()}:
            raise FeddagError(
                f"The store has results of {setting.title}, but of other numbers than the data have now. "
                "Restore the data, or name another store with --store."
            )


@contextmanager
def on_dask(address: str) -> Iterator[None]:
    """Let the workers of a Dask cluster compute the cells; they need feddag but not the store."""
    distributed = imported("dask.distributed", "experiments", "A cluster needs Dask")
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise FeddagError(f"No Dask scheduler answers at {address} ({error}). Start one with: dask scheduler") from None
    with client, joblib.parallel_config(backend="dask"):
        yield
