"""The page of results: every experiment that has results, ours beside the published, in pictures too."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feddag.experiments import published
from feddag.experiments.comparison import Block, compare_with_published, count_cells
from feddag.experiments.experiment import Experiment, experiments
from feddag.experiments.formats import LEGEND, grid, markdown_list, markdown_table
from feddag.experiments.plots import can_compare, is_a_curve, picture
from feddag.experiments.reasons import UNKNOWN, explain, notes
from feddag.experiments.result import history_of
from feddag.experiments.running import Standing
from feddag.experiments.settings import DATA, Real, Setting
from feddag.experiments.store import Store
from feddag.files import atomic_write

VERDICTS = ("better", "within", "worse", "different")
MEASURED = "published figures measured"
FIGURES = "figures"
"""The folder of pictures beside the page; in it, each page has one of its own."""


@dataclass(frozen=True)
class Report:
    """The page of results, in Markdown."""

    page: str
    pictures: Mapping[str, bytes]
    """SVG by the experiment's name."""


def write_report(
    store: Store,
    path: str | os.PathLike[str],
    *,
    progress: Callable[[Standing], None] = lambda standing: None,
) -> None:
    """Write the page of results and its pictures; the pictures first, so that the page never shows a missing one."""
    page = Path(path)
    where = Path(FIGURES) / page.stem
    made = make_report(store, pictures=where.as_posix(), progress=progress)
    folder = page.parent / where
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawn in made.pictures.items():
        with atomic_write(folder / f"{name}.svg", "wb") as stream:
            stream.write(drawn)
    with atomic_write(page) as stream:
        stream.write(made.page)
    for left in folder.glob("*.svg"):
        if left.stem in experiments() and left.stem not in made.pictures:
            left.unlink()


def make_report(
    store: Store,
    pictures: str | None = None,
    *,
    progress: Callable[[Standing], None] = lambda standing: None,
) -> Report:
    """Make the page of results.

    Args:
        store: The results.
        pictures: The folder of pictures, as seen from the page; None for a page without pictures.
        progress: Called before each experiment.
    """
    parts, summary, drawn = [], [], {}
    counted: Counter[str] = Counter()
    beyond: defaultdict[Setting, set[str]] = defaultdict(set)
    """Lines beyond the paper that were shown: the next experiment with the same setting need not repeat them."""
    for done, experiment in enumerate(experiments().values()):
        progress(Standing(done, len(experiments()), experiment.name, None))
        blocks = compare_with_published(experiment, store)
        there, wanted = count_cells(experiment, store)
        verdicts = _verdicts(blocks)
        counted += verdicts
        shown = _worth_showing(experiment, blocks)
        name = f"[{experiment.name}](#{_anchor(experiment)})" if shown else experiment.name
        summary.append(([name, experiment.place, f"{there} of {wanted}"], verdicts))
        if pictures is not None and _worth_a_picture(experiment, shown, store):
            drawn[experiment.name] = picture(experiment, store, "svg")
        if shown:
            seen = f"![{experiment.title}]({pictures}/{experiment.name}.svg)" if experiment.name in drawn else ""
            parts.append(_section(experiment, shown, seen))
        for data in DATA[1:]:
            if any(isinstance(setting, Real) for setting in experiment.settings):
                continue
            other = experiment.restrict(data=data)
            others = _worth_showing(other, compare_with_published(other, store))
            others = [block for block in others if not _measured(block) <= beyond[block.setting]]
            if others:
                parts.append(_section(other, others))
                for block in others:
                    beyond[block.setting] |= _measured(block)
    body = "\n\n".join(parts)
    columns = [MEASURED, *(each for each in VERDICTS if each != "different" or counted[each]), UNKNOWN]
    header = ["experiment", "in the paper", "cells there", *columns]
    rows = [[*which, *(str(verdicts[each] or "") for each in columns)] for which, verdicts in summary]
    page = f"""# Results

Every table and figure of the paper that has results: our mean ± standard deviation over seeds 2021-2030 beside the
published mean ± standard deviation. {LEGEND}.
Where a figure is off by more, a line below the table says why: the known reason; else that there are few seeds; else
that it may be chance, by Welch's test against the paper's ten graphs; else that no reason was found.
*p* is of Wilcoxon's signed-rank test over the seeds shared with the method named below each table, where there are five
or more. Sanity rows need no learning: a method that does not beat them has not shown that it finds more than the units
of the columns, or chance, would give. Parameters are the published ones, or were chosen on seeds 1-10, as were those of
lines marked (tuned); do not compare lines marked (by hand). Beyond the paper, a table of an earlier section is not
repeated. Seconds are those of the fastest fit on a machine of two cores with other work to do.
[methods.md](methods.md) explains methods, rows and regimes. `feddag experiment report` writes this page;
[experiments.md](experiments.md) explains how to add to it.

{_total(counted)}
Each metric of a line counts as a figure. A cell is one fit; cells of sanity rows are not counted, and shared cells are
counted in each experiment.

{markdown_table(header, rows)}

{body}
"""
    return Report(page, drawn)


def _worth_a_picture(experiment: Experiment, blocks: Sequence[Block], store: Store) -> bool:
    """Whether it is a figure in the paper, or one of its main tables, and has something to compare."""
    if experiment.kind == "history":
        kept = store.results_of(experiment.cells())
        return any(history_of(result)["graphs"] for result in kept.values())
    if experiment.kind == "curve":
        return bool(blocks)
    return experiment.place.startswith(("Table", "Figure")) and any(map(can_compare, blocks))


def _verdicts(blocks: Sequence[Block]) -> Counter[str]:
    """Count published figures with one of ours beside them, their verdicts, and those off without a known reason."""
    counted: Counter[str] = Counter()
    for block in blocks:
        for line in block.lines:
            for metric, entry in line.entries.items():
                if entry.verdict is not None:
                    counted.update((MEASURED, entry.verdict))
                    off = entry.verdict != "within"
                    counted[UNKNOWN] += off and UNKNOWN in explain(block.setting, line, metric, entry)
    return counted


def _total(counted: Mapping[str, int]) -> str:
    """Sum up all experiments; a figure that two tables of one experiment print counts once."""
    figures = published.figures().values()
    counts = ", ".join(f"{counted[each]} {each}" for each in VERDICTS if each != "different" or counted[each])
    lacking = sum(figure is None for figure in figures)
    return f"Of the {len(figures)} published figures ({lacking} are NaN) {counted[MEASURED]} are measured: {counts}."


def _worth_showing(experiment: Experiment, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks that have results; none for a curve with one point."""
    filled = [block for block in blocks if block.filled]
    return [] if experiment.kind == "curve" and not is_a_curve(experiment, filled) else filled


def _measured(block: Block) -> set[str]:
    """Return the lines that have results, each by its first cell: other tables use other names for the same."""
    return {line.row.cell(block.setting, 0).key for line in block.lines if line.seeds}


def _section(experiment: Experiment, blocks: Sequence[Block], shown: str = "") -> str:
    parts = [f"## {experiment.heading}", experiment.about, shown]
    for block in blocks:
        header, rows = grid(experiment, block)
        measured = [row for row, line in zip(rows, block.lines, strict=True) if line.seeds]
        parts += [f"**{block.title}**", markdown_table(header, measured)]
        parts += [f"*p* against {block.tested_against}." if block.tested_against else "", markdown_list(notes(block))]
    return "\n\n".join(part for part in parts if part)


def _anchor(experiment: Experiment) -> str:
    """Make the anchor as a Markdown viewer makes it from the heading."""
    kept = "".join(sign for sign in experiment.heading.lower() if sign.isalnum() or sign in " -_")
    return kept.replace(" ", "-")
