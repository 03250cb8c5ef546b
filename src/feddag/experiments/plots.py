"""An experiment as a picture: bars of a table, curves along an axis, or the course of an optimisation."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from feddag.errors import FeddagError
from feddag.experiments.comparison import Block, Line, compared
from feddag.experiments.experiment import Experiment
from feddag.experiments.result import Result, history_of
from feddag.experiments.store import Store
from feddag.files import atomic_write

PANEL = (4.2, 3.2)
"""Inches."""
COURSES = {"rho": "ρ", "alpha": "α", "h": "h", "l1_distance": "ℓ1 between sites", "shd_distance": "SHD between sites"}
SNAPSHOTS = 6
FORMATS = ("svg", "png", "pdf")


def plot(
    experiment: Experiment, store: Store, path: str | os.PathLike[str], seeds: Sequence[int] | None = None
) -> None:
    """Write the picture in the format of the path's extension."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise FeddagError(f"{path} has the extension {suffix!r}. Use one of {', '.join(FORMATS)}.")
    if experiment.kind == "history":
        figure = _courses(experiment, store, seeds)
    else:
        blocks = [block for block in compared(experiment, store, seeds) if block.filled]
        if not blocks:
            raise _nothing(experiment)
        figure = _curves(experiment, blocks) if experiment.kind == "curve" else _bars(experiment, blocks)
    figure.suptitle(f"{experiment.title} ({experiment.place})")
    with atomic_write(path, "wb") as stream:
        # no date, so that the same results give the same file
        figure.savefig(stream, format=suffix, metadata={"Date": None} if suffix == "svg" else None)


def _figure(panels: int, columns: int, *, panel: tuple[float, float] = PANEL) -> tuple[Any, list[Any]]:
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise FeddagError("Plots need matplotlib. Install it with: pip install 'feddag[experiments]'") from None
    rows = -(-panels // columns)
    with rc_context({"svg.hashsalt": "feddag"}):
        figure = Figure(figsize=(panel[0] * columns, panel[1] * rows), layout="constrained")
        axes = [figure.add_subplot(rows, columns, k + 1) for k in range(panels)]
    return figure, axes


def _nothing(experiment: Experiment) -> FeddagError:
    return FeddagError(
        f"The store has no result of {experiment.name} to plot. First run: feddag experiment run {experiment.name}"
    )


def _bars(experiment: Experiment, blocks: Sequence[Block]) -> Any:
    metric = experiment.metrics[0]
    most = max(sum(bool(line.seeds) for line in block.lines) for block in blocks)
    columns = min(2, len(blocks))
    figure, axes = _figure(len(blocks), columns, panel=(5.2, 1.2 + 0.26 * most))
    for axis, block in zip(axes, blocks, strict=True):
        lines = [line for line in block.lines if line.entries[metric].mean is not None]
        places = range(len(lines))
        entries = [line.entries[metric] for line in lines]
        deviations = [entry.deviation or 0.0 for entry in entries]
        axis.barh(places, [entry.mean for entry in entries], xerr=deviations, height=0.6, color="#4c78a8")
        told = [(place, entry.published) for place, entry in zip(places, entries, strict=True) if entry.published]
        if told:
            spread = [figure.deviation for _, figure in told]
            means = [figure.mean for _, figure in told]
            axis.errorbar(means, [k for k, _ in told], xerr=spread, fmt="D", color="#e45756", label="published")
            axis.legend(fontsize=7)
        axis.set_yticks(places, [_named(line) for line in lines], fontsize=7)
        axis.invert_yaxis()
        axis.set_xlim(left=0)
        axis.set_title(block.setting.title, fontsize=9)
        axis.set_xlabel(metric)
    return figure


def _curves(experiment: Experiment, blocks: Sequence[Block]) -> Any:
    """A panel for each group of settings, or of a varied parameter, that differ along the axis alone."""
    metric = experiment.metrics[0]
    panels: dict[str, dict[str, list[tuple[Any, Line]]]] = defaultdict(lambda: defaultdict(list))
    for block in blocks:
        for line in block.lines:
            if line.entries[metric].mean is None:
                continue
            along = line.row.varied
            if along is None and experiment.axis in ("parameter", "participation"):
                continue
            if along is not None:
                panels[f"{block.setting.title}: {along}"][line.row.label].append((line.row.parameters[along], line))
            else:
                here = getattr(block.setting, experiment.axis or "nodes")
                rest = replace(block.setting, **_without(experiment.axis or "nodes"))
                panels[f"{rest.title}: {experiment.axis}"][_named(line)].append((here, line))
    figure, axes = _figure(len(panels), min(3, len(panels)))
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for label, points in lines.items():
            places = [str(place) for place, _ in points]
            entries = [line.entries[metric] for _, line in points]
            spread = [entry.deviation or 0.0 for entry in entries]
            drawn = axis.errorbar(places, [entry.mean for entry in entries], yerr=spread, marker="o", label=label)
            told = [(place, entry.published) for place, entry in zip(places, entries, strict=True) if entry.published]
            if told:
                means = [figure.mean for _, figure in told]
                axis.plot([place for place, _ in told], means, "--", color=drawn[0].get_color(), alpha=0.6)
        axis.set_title(title, fontsize=8)
        axis.set_ylabel(metric)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=6)
    return figure


def _without(axis: str) -> dict[str, Any]:
    """What a setting's title leaves out, or all settings of a panel share."""
    return {"rows": {"rows": 600}, "sites": {"sites": 10, "rows": 600}, "nodes": {"nodes": 0}}[axis]


def _named(line: Line) -> str:
    return line.name if line.row.sanity else f"{line.name}, {line.row.regime}"


def _courses(experiment: Experiment, store: Store, seeds: Sequence[int] | None) -> Any:
    """Figures 3 and 4 of the paper: for each setting the coefficients, then the graph after some sub-problems."""
    import numpy as np  # noqa: PLC0415

    cells = [cell for cell in experiment.cells(seeds) if cell.method == "feddag"]
    kept = store.of(cells)
    found: list[tuple[str, Result]] = [
        (f"{cell.setting.title}, seed {cell.seed}", kept[cell.key])
        for cell in cells
        if cell.key in kept and kept[cell.key].history
    ]
    if not found:
        raise _nothing(experiment)
    columns = max(len(COURSES), SNAPSHOTS)
    figure, axes = _figure(2 * len(found) * columns, columns, panel=(2.6, 2.3))
    for k, (title, result) in enumerate(found):
        history = history_of(result)
        here = axes[2 * k * columns : 2 * (k + 1) * columns]
        for axis, (name, label) in zip(here, COURSES.items(), strict=False):
            values = history["rounds"].get(name)
            if values is None:
                continue
            axis.plot(history["rounds"]["step"], values)
            axis.set_title(label, fontsize=8)
            if name in ("rho", "alpha", "h") and max(values) > 0:
                axis.set_yscale("log", nonpositive="mask")
            axis.tick_params(labelsize=6)
        here[0].set_ylabel(title, fontsize=7)
        graphs = history["graphs"]
        shown = np.unique(np.linspace(0, len(graphs) - 1, SNAPSHOTS).round().astype(int))
        for axis, position in zip(here[columns:], shown, strict=False):
            # the mask's logits: their sigmoid is the chance that an edge is open
            axis.imshow(1 / (1 + np.exp(-np.array(graphs[position]))), vmin=0, vmax=1, cmap="Blues")
            axis.set_title(f"after sub-problem {position + 1}", fontsize=7)
            axis.set_xticks([])
            axis.set_yticks([])
    for axis in axes:
        if not axis.has_data():
            axis.set_axis_off()
    return figure
