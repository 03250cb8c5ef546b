"""Our results beside the published ones: what the store holds of an experiment, and how sure a difference is."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean, pstdev

from feddag.experiments import settings
from feddag.experiments.cell import Cell, same
from feddag.experiments.experiment import Experiment, Row
from feddag.experiments.published import Figure
from feddag.experiments.result import Result
from feddag.experiments.settings import Setting
from feddag.experiments.store import Store
from feddag.learners.registry import METHODS

LOWER_IS_BETTER: dict[str, bool | None] = {"SHD": True, "TPR": False, "FDR": True, "NNZ": None, "impossible": True}
ENOUGH_SEEDS = 5
"""Fewer shared seeds make no test: the smallest possible p is 1/16 with five."""
EXACT_UP_TO = 13
"""For more shared seeds p is approximate."""


@dataclass(frozen=True)
class Entry:
    """One metric of one line."""

    mean: float | None = None
    deviation: float | None = None
    """Over seeds; None for a single seed."""
    published: Figure | None = None
    verdict: str | None = None
    """Better, within, worse or different, by the published standard deviation."""


@dataclass(frozen=True)
class Line:
    """A row of the table with our results."""

    row: Row
    entries: Mapping[str, Entry]
    by_seed: Mapping[int, float] = field(default_factory=dict)
    """The first metric, for the tests of significance."""
    seeds: int = 0
    seconds: float | None = None
    """The seconds of the fastest fit, which other work on the machine disturbed least."""
    peak_memory: float | None = None
    bytes_sent: float | None = None
    chosen: str = "declared"
    p_value: float | None = None
    """The p-value of no difference from the reference; None where too few seeds are shared."""

    @property
    def name(self) -> str:
        """Name the row, and how its parameters were chosen."""
        return self.row.name + ("" if self.chosen == "declared" else f" ({self.chosen})")


@dataclass(frozen=True)
class Block:
    """The lines of one setting."""

    setting: Setting
    title: str
    lines: tuple[Line, ...]
    reference: str | None
    """The line that others were tested against; None where there are too few seeds for a test."""
    stands_in_for: str | None = None
    """The declared reference, where that has too few seeds."""

    @property
    def tested_against(self) -> str | None:
        """Describe the reference for a reader; None where nothing was tested."""
        if all(line.p_value is None for line in self.lines):
            return None
        if self.stands_in_for is None:
            return self.reference
        return f"{self.reference}, the best with {ENOUGH_SEEDS} seeds or more; {self.stands_in_for} has fewer"

    @property
    def seeds(self) -> list[int]:
        """Return the seeds of all lines."""
        return sorted({seed for line in self.lines for seed in line.by_seed})

    @property
    def filled(self) -> bool:
        """Whether any line has a result."""
        return any(line.seeds for line in self.lines)


def count_cells(experiment: Experiment, store: Store | None) -> tuple[int, int]:
    """Count the cells that the store holds, and all cells: each once, without the sanity rows, which cost nothing."""
    learning = replace(experiment, rows=tuple(row for row in experiment.rows if not row.sanity))
    cells = {cell.key: cell for cell in learning.cells()}
    return 0 if store is None else len(store.results_of(cells.values())), len(cells)


def compare_with_published(experiment: Experiment, store: Store, seeds: Sequence[int] | None = None) -> list[Block]:
    """Put the store's results beside the published figures, setting by setting.

    A block holds the experiment's rows, further methods that have results, and parameters tuned or chosen by hand.
    """
    seeds = experiment.seeds if seeds is None else tuple(seeds)
    rows, further = experiment.rows, experiment.further_rows()
    cells = {
        (setting, k): [row.cell(setting, seed) for seed in seeds]
        for setting in experiment.settings
        for k, row in enumerate([*rows, *further, *experiment.beside])
    }
    kept = store.results_of(cell for each in cells.values() for cell in each)
    tuned = _tuned(experiment, store, [*rows, *further], seeds, kept)
    shown = {*kept, *(each.key for found in tuned.values() for _, results in found for each in results)}
    others = _undeclared(store, shown, seeds)
    blocks = []
    for setting in experiment.settings:
        lines = [
            _line(experiment, setting, row, [kept[cell.key] for cell in cells[setting, k] if cell.key in kept])
            for k, row in enumerate([*rows, *further, *experiment.beside])
        ]
        lines, beside = lines[: len(rows) + len(further)], lines[len(rows) + len(further) :]
        lines = lines[: len(rows)] + [line for line in lines[len(rows) :] if line.seeds]
        sanity = {row.method: row.sanity for row in [*rows, *further]}
        lines += [
            replace(
                _line(experiment, setting, replace(row, sanity=sanity[row.method]), results), chosen=results[0].chosen
            )
            for row, results in (*tuned[setting], *others[json.dumps(setting.identity(), sort_keys=True)])
            if row.method in sanity
        ]
        blocks.append(_test_lines(experiment, setting, lines, beside))
    return blocks


def _tuned(
    experiment: Experiment, store: Store, rows: Sequence[Row], seeds: Sequence[int], kept: Container[str]
) -> dict[Setting, list[tuple[Row, list[Result]]]]:
    """Find, by setting, the results with the parameters that were tuned for a row."""
    by_name = {row.in_regime: row for row in rows}
    found: dict[Setting, list[tuple[Row, list[Result]]]] = defaultdict(list)
    for each in store.tuned(experiment.name):
        for setting in experiment.settings:
            if each.row not in by_name or (setting.data, setting.nodes) != (each.data, each.nodes):
                continue
            row = by_name[each.row]
            row = replace(row, parameters={**row.parameters, **each.parameters})
            results = store.results_of(row.cell(setting, seed) for seed in seeds)
            if results and not any(key in kept for key in results):
                tuned = [replace(result, chosen="tuned") for result in results.values()]
                found[setting].append((_distinguished_row(tuned[0]), tuned))
    return found


def _undeclared(store: Store, kept: Container[str], seeds: Sequence[int]) -> dict[str, list[tuple[Row, list[Result]]]]:
    """Find, by setting, the results whose parameters no experiment declares."""
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in store.undeclared():
        if result.key in kept or result.seed not in seeds or not _is_current(result):
            continue
        named = {name: value for name, value in result.parameters.items() if name != "seed"}
        setting = json.dumps(result.setting, sort_keys=True)
        grouped[setting, json.dumps([result.method, result.regime, result.chosen, named])].append(result)
    found: dict[str, list[tuple[Row, list[Result]]]] = defaultdict(list)
    for (setting, _), results in grouped.items():
        found[setting].append((_distinguished_row(results[0]), results))
    return found


def _distinguished_row(result: Result) -> Row:
    """Make a row that is named by the parameters that differ from the method's defaults."""
    defaults = Cell(
        settings.setting_from(result.setting), result.method, METHODS[result.method].regimes[0], 0
    ).all_parameters
    changed = {
        name: value
        for name, value in result.parameters.items()
        if name != "seed" and name in defaults and not same(value, defaults[name])
    }
    label = ", ".join([result.method, *(f"{name}={value}" for name, value in changed.items())])
    return Row(label, result.method, result.regime, changed)  # pyright: ignore[reportArgumentType]


def _is_current(result: Result) -> bool:
    """Whether today's code would compute it: the same version of the method, on the same data."""
    if result.method not in METHODS:
        return False
    same_method = result.method_version == METHODS[result.method].version
    return same_method and result.setting_version == settings.setting_from(result.setting).version


def _line(experiment: Experiment, setting: Setting, row: Row, results: Sequence[Result]) -> Line:
    entries = {metric: _entry(experiment, setting, row, results, metric) for metric in experiment.metrics}
    if not results:
        return Line(row, entries)
    first = experiment.metrics[0]
    memory = [each.peak_memory for each in results if each.peak_memory is not None]
    return Line(
        row,
        entries,
        {each.seed: value for each in results if (value := each.metric(first)) is not None},
        len(results),
        min(each.seconds for each in results),
        fmean(memory) if memory else None,
        fmean(each.bytes_sent for each in results),
    )


def _entry(experiment: Experiment, setting: Setting, row: Row, results: Sequence[Result], metric: str) -> Entry:
    figure = experiment.figure(setting, row, metric)
    ours = [value for each in results if (value := each.metric(metric)) is not None]
    if not ours:
        return Entry(published=figure)
    mean = fmean(ours)
    verdict = None if figure is None else figure.judge(mean, lower_is_better=LOWER_IS_BETTER[metric])
    return Entry(mean, pstdev(ours) if len(ours) > 1 else None, figure, verdict)


def _test_lines(experiment: Experiment, setting: Setting, lines: Sequence[Line], beside: Sequence[Line]) -> Block:
    """Each line against the reference, or, where that has too few seeds, against the best line that has enough."""
    title = setting.titled(experiment.axis)
    enough = [line for line in (*lines, *beside) if len(line.by_seed) >= ENOUGH_SEEDS and not line.row.sanity]
    declared = [line for line in enough if line.row.label == experiment.reference and _as_published(setting, line.row)]
    references = declared or [line for line in enough if line.row.varied is None and line.chosen != "by hand"]
    if not references:
        return Block(setting, title, tuple(lines), None)
    lower = LOWER_IS_BETTER[experiment.metrics[0]] is not False
    reference = min(references, key=lambda line: fmean(line.by_seed.values()) * (1 if lower else -1))
    itself = reference.row.cell(setting, 0).key  # which may stand under several names, one for each varied parameter
    tested = [
        line
        if line.row.cell(setting, 0).key == itself
        else replace(line, p_value=signed_rank(line.by_seed, reference.by_seed))
        for line in lines
    ]
    name = f"{reference.name}, {reference.row.regime}"
    return Block(setting, title, tuple(tested), name, None if declared else experiment.reference)


def _as_published(setting: Setting, row: Row) -> bool:
    """Whether nothing is varied, or the varied parameter has the value it has unless varied."""
    given = {name: value for name, value in row.parameters.items() if name != row.varied}
    return row.cell(setting, 0).key == replace(row, parameters=given).cell(setting, 0).key


def signed_rank(ours: Mapping[int, float], theirs: Mapping[int, float]) -> float | None:
    """Compute Wilcoxon's p over the seeds that both have: the same data, so the differences are paired."""
    shared = [seed for seed in ours if seed in theirs]
    if len(shared) < ENOUGH_SEEDS:
        return None
    differences = [round(ours[seed] - theirs[seed], 9) for seed in shared]  # so that what is equal ties
    if not any(differences):
        return 1.0
    import numpy as np  # noqa: PLC0415 - not for an empty table
    from scipy.stats import rankdata, wilcoxon  # noqa: PLC0415

    # pratt keeps the ties: dropping them would let two seeds that differ speak for ten
    if len(shared) > EXACT_UP_TO:
        return float(wilcoxon(differences, zero_method="pratt").pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    # the same in one product: where there are ties, scipy takes a second for each test
    ranks = rankdata(np.abs(differences)) * np.sign(differences)
    by_signs = np.array([*product((-1, 1), repeat=len(shared))]) @ ranks
    return float(np.mean(np.abs(by_signs) >= abs(ranks.sum())))
