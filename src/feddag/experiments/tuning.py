"""Choose parameters by the true graph of simulated data, on seeds that no result is reported on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from feddag.constraints import Grid, combinations
from feddag.errors import FeddagError
from feddag.experiments.comparison import LOWER_IS_BETTER
from feddag.experiments.experiment import Experiment, Row
from feddag.experiments.running import Outcome, Standing, run
from feddag.experiments.seeds import TUNING, check_tuning
from feddag.experiments.settings import Real, Setting
from feddag.experiments.store import Store, Tuned
from feddag.learners.registry import find_method


@dataclass(frozen=True)
class GridPoint:
    """A combination of parameters, and its mean over settings and seeds; None while cells are lacking."""

    parameters: Mapping[str, Any]
    mean: float | None


@dataclass(frozen=True)
class Choice:
    """The outcome of tuning."""

    points: list[GridPoint]
    best: GridPoint | None
    """None while cells are lacking."""
    outcome: Outcome
    replaced: list[Tuned] = field(default_factory=list)
    """Earlier choices that differ."""


def tune(
    experiment: Experiment,
    method: str,
    grid: Grid,
    store: Store,
    *,
    regime: str | None = None,
    seeds: Sequence[int] = TUNING,
    jobs: int | None = None,
    progress: Callable[[Standing], None] = lambda standing: None,
) -> Choice:
    """Run a row with every combination of the grid, and keep the best by the mean of the first metric.

    It is kept for the data and the numbers of variables of the experiment's settings, and for no others.

    `method` is a row's name, or a method's; `regime` tells which, where it stands in several.
    Cells are those of the same store, so what was tried is not tried again. Nothing is kept while cells are lacking.
    """
    seeds = tuple(seeds)
    check_tuning(seeds)
    if any(isinstance(setting, Real) for setting in experiment.settings):
        raise FeddagError(
            f"{experiment.name} has real data, whose truth must choose nothing. Choose without it: feddag tune SILO..."
        )
    row = _row(experiment, method, regime)
    candidates = [(given, with_parameters(row, given)) for given in combinations(grid)]
    cells = {
        k: [each.cell(setting, seed) for setting in experiment.settings for seed in seeds]
        for k, (_, each) in enumerate(candidates)
    }
    order = [cell for some in zip(*cells.values(), strict=True) for cell in some]  # one draw serves all combinations
    outcome = run(order, store, jobs=jobs, chosen="grid", progress=progress)
    metric = experiment.metrics[0]
    points = []
    for k, (given, _) in enumerate(candidates):
        found = store.results_of(cells[k]).values()
        values = [value for result in found if (value := result.metric(metric)) is not None]
        points.append(GridPoint(given, fmean(values) if len(values) == len(cells[k]) else None))
    measured = [point for point in points if point.mean is not None]
    if len(measured) < len(points):
        return Choice(points, None, outcome)
    lower = LOWER_IS_BETTER[metric] is not False
    best = min(measured, key=lambda point: (point.mean or 0.0) * (1 if lower else -1))
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    chosen = dict(best.parameters), seeds, metric, best.mean or 0.0, finished
    kinds = _by_kind(experiment.settings)
    replaced = [
        each
        for each in store.tuned(experiment.name)
        if each.row == row.in_regime and (each.data, each.nodes) in kinds and each.parameters != best.parameters
    ]
    store.keep_tuned(Tuned(experiment.name, row.in_regime, *kind, *chosen) for kind in kinds)
    return Choice(points, best, outcome, replaced)


def tuned_parts(experiment: Experiment, store: Store) -> list[Experiment]:
    """Return the rows with tuned parameters: a part for each kind of data and number of variables.

    A row that was tuned in one regime only is left out in the others.
    """
    kept = {(each.row, each.data, each.nodes): each.parameters for each in store.tuned(experiment.name)}
    tuned_on: dict[str, list[str]] = defaultdict(list)
    for row in experiment.rows:
        tuned_on[row.label] += [describe_kind(data, nodes) for name, data, nodes in kept if name == row.in_regime]
    if not any(tuned_on.values()):
        raise FeddagError(
            f"Nothing was tuned for these rows of {experiment.name}. First run: feddag experiment tune "
            f"{experiment.name} --method NAME --grid NAME=VALUE,VALUE"
        )
    if not experiment.open and (without := [label for label, known in tuned_on.items() if not known]):
        raise FeddagError(
            f"{', '.join(without)} of {experiment.name} was not tuned. Leave it out of --methods, or tune it, too: "
            f"feddag experiment tune {experiment.name}"
        )
    parts = []
    for where, settings in _by_kind(experiment.settings).items():
        rows = [row for row in experiment.rows if (row.in_regime, *where) in kept]
        for label, known in tuned_on.items():
            if known and label not in {row.label for row in rows}:
                raise FeddagError(
                    f"{label} was tuned on {' and '.join(dict.fromkeys(known))}, and not on {describe_kind(*where)}. "
                    f"Keep to that by --data, --nodes or --methods, or tune it on these, too: feddag experiment tune "
                    f"{experiment.name}"
                )
        tuned = tuple(with_parameters(row, kept[row.in_regime, *where]) for row in rows)
        parts.append(replace(experiment, settings=settings, rows=tuned))
    return parts


def _by_kind(settings: Sequence[Setting]) -> dict[tuple[str, int], tuple[Setting, ...]]:
    """Group settings by what parameters are tuned for: the data, and the number of variables."""
    kinds = dict.fromkeys((setting.data, setting.nodes) for setting in settings)
    return {kind: tuple(each for each in settings if (each.data, each.nodes) == kind) for kind in kinds}


def describe_kind(data: str, nodes: int) -> str:
    """Describe what parameters are tuned for."""
    return f"{data} data of {nodes} nodes"


def _row(experiment: Experiment, name: str, regime: str | None) -> Row:
    named = experiment.restrict(methods=[name]).rows
    rows = [row for row in named if regime in (None, row.regime)]
    if any(row.varied for row in named):
        raise FeddagError(
            f"{experiment.name} varies a parameter of {name!r}. Tune it in a table: feddag experiment list"
        )
    if len(rows) != 1:
        found = "; ".join(row.in_regime for row in rows or named)
        raise FeddagError(
            f"One row of {experiment.name} is to be tuned, and {name!r} has {found}. Choose by --regime, or by name."
        )
    return rows[0]


def with_parameters(row: Row, given: Mapping[str, Any]) -> Row:
    """Return the row with further parameters, or refuse one that its method does not take."""
    find_method(row.method).check_names(given)
    return replace(row, parameters={**row.parameters, **given})
