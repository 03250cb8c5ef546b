"""The page of results: every experiment of which the store holds something, ours beside the published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from feddag.experiments.comparison import Block, compared
from feddag.experiments.experiment import Experiment, experiments
from feddag.experiments.formats import LEGEND, grid, markdown_table
from feddag.experiments.settings import DATA, Real
from feddag.experiments.store import Store


def report(store: Store) -> str:
    """In Markdown."""
    parts, summary = [], []
    for experiment in experiments().values():
        blocks = [block for block in compared(experiment, store) if block.filled]
        there = sum(line.seeds for block in blocks for line in block.lines if line.row in experiment.rows)
        wanted = len(list(experiment.cells()))
        name = f"[{experiment.name}](#{_anchor(experiment)})" if blocks else experiment.name
        summary.append([name, experiment.place, f"{there} of {wanted}", *_verdicts(experiment, blocks)])
        if blocks:
            parts.append(_section(experiment, blocks))
        for data in DATA[1:]:
            other = _on(experiment, data)
            others = [] if other is None else [block for block in compared(other, store) if block.filled]
            if other and others:
                parts.append(_section(replace(other, title=f"{experiment.title}, {data}"), others))
    header = ["experiment", "in the paper", "cells there", "better", "within", "worse"]
    body = "\n\n".join(parts)
    return f"""# Results

Every table and figure of the paper of which results are there, mean ± standard deviation over seeds 2021-2030 beside
the published mean ± standard deviation. {LEGEND}.
*p* is of Wilcoxon's signed-rank test over the seeds shared with the method named below each table, where there are five
or more. Sanity rows need no learning: what does not beat them has learned nothing. Parameters were chosen on seeds 1-10
or are the published ones; lines marked otherwise are not to be compared. Seconds are those of a fit on the machine at
hand. `feddag experiment report` writes this page; [experiments.md](experiments.md) tells how to add to it.

{markdown_table(header, summary)}

{body}
"""


def _on(experiment: Experiment, data: str) -> Experiment | None:
    if any(isinstance(setting, Real) for setting in experiment.settings):
        return None
    return experiment.restricted(data=data)  # pyright: ignore[reportArgumentType]


def _verdicts(experiment: Experiment, blocks: Sequence[Block]) -> list[str]:
    """How many of the first metric's figures are better, within or worse."""
    counted = Counter(line.entries[experiment.metrics[0]].verdict for block in blocks for line in block.lines)
    return [str(counted[verdict] or "") for verdict in ("better", "within", "worse")]


def _section(experiment: Experiment, blocks: Sequence[Block]) -> str:
    parts = [f"## {_heading(experiment)}", *([experiment.about] if experiment.about else [])]
    for block in blocks:
        header, rows = grid(experiment, block)
        measured = [row for row, line in zip(rows, block.lines, strict=True) if line.seeds]
        tested = any(line.p_value is not None for line in block.lines)
        against = f"\n\n*p* against {block.reference}." if tested else ""
        parts.append(f"**{block.setting.title}**\n\n{markdown_table(header, measured)}{against}")
    return "\n\n".join(parts)


def _heading(experiment: Experiment) -> str:
    return f"{experiment.title} ({experiment.place})"


def _anchor(experiment: Experiment) -> str:
    """As a Markdown viewer makes it of the heading."""
    kept = "".join(sign for sign in _heading(experiment).lower() if sign.isalnum() or sign in " -_")
    return kept.replace(" ", "-")
