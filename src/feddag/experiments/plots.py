"""Draw an experiment: bars of a table, curves along an axis, or the course of an optimisation."""

from __future__ import annotations

import io
import os
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from feddag.errors import FeddagError
from feddag.experiments.comparison import Block, Entry, Line, compare_with_published
from feddag.experiments.experiment import Experiment
from feddag.experiments.published import Figure as Published
from feddag.experiments.result import Result, history_of
from feddag.experiments.store import Store
from feddag.extras import imported
from feddag.files import atomic_write

PANEL = (3.6, 2.8)
LEGEND_WIDTH = 2.0
"""Inches."""
COURSES = {"rho": "ρ", "alpha": "α", "h": "h", "l1_distance": "ℓ1 between sites", "shd_distance": "SHD between sites"}
SNAPSHOTS = 6
OURS, THEIRS, SANITY = "#4c78a8", "#e45756", "#b0b0b0"
LETTERS_PER_INCH = 12
"""In a heading."""
MARKERS = {"all": "s", "separate": "^", "federated": "o", "voting": "v"}
SANITY_STYLES = {
    "empty": {"ls": "-", "marker": "."},
    "random": {"ls": "--", "marker": "."},
    "var-sortnregress": {"ls": "-.", "marker": "1"},
    "r2-sortnregress": {"ls": "-.", "marker": "2"},
}
Point = tuple[Any, Line]
"""Where along the axis, and the line of the table there."""
FORMATS = ("svg", "png", "pdf")


def plot(
    experiment: Experiment, store: Store, path: str | os.PathLike[str], seeds: Sequence[int] | None = None
) -> None:
    """Write the picture in the format of the path's extension."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise FeddagError(f"{path} has the extension {suffix!r}. Use one of {', '.join(FORMATS)}.")
    drawn = picture(experiment, store, suffix, seeds)
    with atomic_write(path, "wb") as stream:
        stream.write(drawn)


def picture(experiment: Experiment, store: Store, suffix: str, seeds: Sequence[int] | None = None) -> bytes:
    """Draw the picture; the same results give the same bytes."""
    matplotlib = imported("matplotlib", "experiments", "Plots need Matplotlib")
    with matplotlib.rc_context({"svg.hashsalt": "feddag", "svg.fonttype": "none"}):
        if experiment.kind == "history":
            figure = _courses(experiment, store, seeds)
        else:
            blocks = [block for block in compare_with_published(experiment, store, seeds) if block.filled]
            if not blocks:
                raise _nothing(experiment)
            figure = _curves(experiment, blocks) if experiment.kind == "curve" else _bars(experiment, blocks)
        heading = textwrap.fill(experiment.heading, int(figure.get_figwidth() * LETTERS_PER_INCH))
        figure.suptitle(heading, fontsize=11, x=0.01, ha="left")
        stream = io.BytesIO()
        # without a date
        figure.savefig(stream, format=suffix, metadata={"Date": None} if suffix == "svg" else None)
    return stream.getvalue()


def _figure(
    panels: int, columns: int, *, size: tuple[float, float], heights: Sequence[float] | None = None
) -> tuple[Any, list[Any]]:
    """Make a figure with panels row by row; `size` in inches, `heights` of the rows relative to each other."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(-(-panels // columns), columns, height_ratios=heights)
    return figure, [figure.add_subplot(grid[divmod(k, columns)]) for k in range(panels)]


def _nothing(experiment: Experiment) -> FeddagError:
    return FeddagError(
        f"The store has no result of this part of {experiment.name} to plot. First run it, with the same options: "
        f"feddag experiment run {experiment.name}"
    )


def can_compare(block: Block) -> bool:
    """Whether two methods that learn have results."""
    return sum(line.seeds > 0 and not line.row.sanity for line in block.lines) > 1


def _bars(experiment: Experiment, blocks: Sequence[Block]) -> Any:
    """Draw a panel for each setting with something to compare, as high as it has lines."""
    from matplotlib.patches import Patch  # noqa: PLC0415

    metric = experiment.metrics[0]
    blocks = [block for block in blocks if can_compare(block)] or blocks
    measured = [[line for line in block.lines if line.entries[metric].mean is not None] for block in blocks]
    columns = min(2, len(blocks))
    heights = [max(map(len, measured[k : k + columns])) + 3 for k in range(0, len(blocks), columns)]
    figure, axes = _figure(len(blocks), columns, size=(5.2 * columns, 0.8 + 0.24 * sum(heights)), heights=heights)
    legend: dict[str, Any] = {"ours": Patch(color=OURS), "needs no learning": Patch(color=SANITY)}
    for k, (axis, block, lines) in enumerate(zip(axes, blocks, measured, strict=True)):
        places = range(len(lines))
        entries = [line.entries[metric] for line in lines]
        colours = [SANITY if line.row.sanity else OURS for line in lines]
        bars = {"height": 0.6, "color": colours, "error_kw": {"elinewidth": 1.2, "ecolor": "#333333"}}
        axis.barh(places, [entry.mean for entry in entries], xerr=_spread(entries), **bars)
        published = [(place, entry.published) for place, entry in zip(places, entries, strict=True) if entry.published]
        if published:
            figures = [figure for _, figure in published]
            means = [figure.mean for figure in figures]
            beside = [place + 0.36 for place, _ in published]
            legend["published"] = axis.errorbar(
                means, beside, xerr=_spread(figures), fmt="D", color=THEIRS, markersize=4, lw=1.2
            )
        axis.set_yticks(places, [_named(line) for line in lines], fontsize=7)
        axis.set_ylim(heights[k // columns] - 3.3, -0.7)  # bars as thick as those of the panel beside
        axis.set_xlim(0, max(1.0, axis.get_xlim()[1]))
        axis.set_title(block.setting.title, fontsize=9)
        axis.set_xlabel(metric, fontsize=8)
        axis.tick_params(axis="x", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(legend.values(), legend, loc="outside lower left", ncols=len(legend), fontsize=7, frameon=False)
    return figure


def _spread(figures: Sequence[Entry | Published]) -> list[list[float]]:
    """Return standard deviations to either side; no metric is below 0."""
    deviations = [each.deviation or 0.0 for each in figures]
    return [[min(side, each.mean or 0.0) for side, each in zip(deviations, figures, strict=True)], deviations]


def _curves(experiment: Experiment, blocks: Sequence[Block]) -> Any:
    """Draw a panel for each group of settings, or of a varied parameter, that differ along the axis alone."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    metric = experiment.metrics[0]
    panels = _panels(experiment, blocks)
    if not panels:
        raise _nothing(experiment)
    panels = {which: lines for which, lines in panels.items() if _has_a_course(lines)} or panels
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = _figure(len(panels), columns, size=(LEGEND_WIDTH + PANEL[0] * columns, 0.4 + PANEL[1] * rows))
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    methods = list(dict.fromkeys(points[0][1].row.label for lines in panels.values() for points in lines.values()))
    legend: dict[str, Any] = {}
    theirs = None
    for axis, ((title, along), lines) in zip(axes, panels.items(), strict=True):
        places = sorted({place for points in lines.values() for place, _ in points})
        for label, points in lines.items():
            row = points[0][1].row
            colour = SANITY if row.sanity else f"C{methods.index(row.label)}"
            aside = 0.2 * ((labels.index(label) + 0.5) / len(labels) - 0.5)  # so that bars do not hide each other
            entries = [(places.index(place) + aside, line.entries[metric]) for place, line in points]
            spread = None if row.sanity else _spread([entry for _, entry in entries])
            style = SANITY_STYLES[row.method] if row.sanity else {"marker": MARKERS[row.regime]}
            means = [entry.mean for _, entry in entries]
            legend[label] = axis.errorbar(
                [place for place, _ in entries], means, spread, color=colour, capsize=2, lw=1.3, markersize=4, **style
            )
            published = [(place, entry.published.mean) for place, entry in entries if entry.published]
            if published:
                dotted = {"ls": ":", "marker": "D", "markersize": 3, "lw": 1.3}
                axis.plot(*zip(*published, strict=True), color=colour, **dotted)
                theirs = Line2D([], [], color="black", **dotted)
        axis.set_xticks(range(len(places)), [f"{place:g}" for place in places])
        axis.set_xlim(-0.3, len(places) - 0.7)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(along, fontsize=8)
        axis.set_ylabel(metric, fontsize=8)
        top = max(1.0, axis.get_ylim()[1])
        axis.set_ylim(-0.03 * top, top)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    if theirs:
        legend["published"] = theirs
    figure.legend(legend.values(), legend, loc="outside right center", fontsize=7, frameon=False)
    return figure


def _panels(experiment: Experiment, blocks: Sequence[Block]) -> dict[tuple[str, str], dict[str, list[Point]]]:
    """Group the points along the axis, by title and axis, and by line."""
    axis, metric = experiment.axis or "nodes", experiment.metrics[0]
    panels: dict[tuple[str, str], dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for block in blocks:
        for line in block.lines:
            varied = line.row.varied
            if line.entries[metric].mean is None or (varied is None and axis in ("parameter", "participation")):
                continue
            if varied is not None:
                panel, point, label = (block.setting.title, varied), line.row.parameters[varied], line.row.label
            else:
                panel, point, label = (_without(axis, block), axis), getattr(block.setting, axis), _named(line)
            panels[panel][label].append((point, line))
    return panels


def is_a_curve(experiment: Experiment, blocks: Sequence[Block]) -> bool:
    """Whether any line of a method that learns has two points to join."""
    return any(map(_has_a_course, _panels(experiment, blocks).values()))


def _has_a_course(lines: Mapping[str, Sequence[Point]]) -> bool:
    return any(len(points) > 1 and not points[0][1].row.sanity for points in lines.values())


def _without(axis: str, block: Block) -> str:
    """Return the title that all settings along the axis share."""
    if axis == "nodes":
        return block.setting.title.replace(f", {block.setting.nodes} nodes", "")
    same = {"rows": {"rows": 600}, "sites": {"sites": 10, "rows": 600}}[axis]
    return replace(block.setting, **same).title


def _named(line: Line) -> str:
    return line.name if line.row.sanity else f"{line.name}, {line.row.regime}"


def _courses(experiment: Experiment, store: Store, seeds: Sequence[int] | None) -> Any:
    """Draw figures 3 and 4 of the paper: for each setting the coefficients, then the graph after some sub-problems."""
    import numpy as np  # noqa: PLC0415

    cells = [cell for cell in experiment.cells(seeds) if cell.method == "feddag"]
    kept = store.results_of(cells)
    found: list[tuple[str, Result]] = [
        (f"{cell.setting.title}, seed {cell.seed}", kept[cell.key])
        for cell in cells
        if cell.key in kept and kept[cell.key].history
    ]
    if not found:
        raise _nothing(experiment)
    columns = max(len(COURSES), SNAPSHOTS)
    figure, axes = _figure(2 * len(found) * columns, columns, size=(2.1 * columns, 0.4 + 2 * len(found) * 1.9))
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
            axis.set_xlabel("step", fontsize=7)
            axis.tick_params(labelsize=6, which="both")
        here[0].set_ylabel(title, fontsize=7)
        graphs = history["graphs"]
        shown = np.unique(np.linspace(0, len(graphs) - 1, SNAPSHOTS).round().astype(int))
        for axis, position in zip(here[columns:], shown, strict=False):
            # the mask's logits: their sigmoid is the chance that an edge is open
            chances = 1 / (1 + np.exp(-np.array(graphs[position])))
            np.fill_diagonal(chances, 0.0)
            axis.imshow(chances, vmin=0, vmax=1, cmap="Blues", interpolation="none")
            axis.set_title(f"after sub-problem {position + 1}", fontsize=7)
            axis.set_xticks([])
            axis.set_yticks([])
    for axis in axes:
        if not axis.has_data():
            axis.set_axis_off()
    return figure
