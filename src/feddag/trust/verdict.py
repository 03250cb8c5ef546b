"""One sentence on whether a graph is better than nothing, than chance, and than sorting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from feddag.graphs import Adjacency
from feddag.learners.failed_checks import FailedCheck
from feddag.trust.held_out import HeldOut
from feddag.trust.sites import CERTAIN
from feddag.trust.tasks import RANDOM_GRAPHS

EMPTY, RANDOM = "empty", "random"
SORTED = {"variance": "sorted by variance", "r2": "sorted by R²"}
_WORDS = {
    EMPTY: "no graph",
    RANDOM: "random graphs of the same shape",
    SORTED["variance"]: "sorting by variance",
    SORTED["r2"]: "sorting by R²",
}


def rivals(learned: Adjacency, by_sorting: Mapping[str, Adjacency]) -> dict[str, list[Adjacency]]:
    """Return the graphs to beat: none; the graph with its variables shuffled; what sorting the variables gives.

    Where most pairs are joined, shuffling changes too little to be a test, and is left out.
    """
    draw, nodes = np.random.default_rng(0), len(learned)
    orders = [draw.permutation(nodes) for _ in range(RANDOM_GRAPHS)]
    shuffled = [learned[np.ix_(order, order)] for order in orders]
    sparse = learned.sum() <= nodes * (nodes - 1) / 4
    named = {SORTED[criterion]: [graph] for criterion, graph in by_sorting.items()}
    return {EMPTY: [np.zeros_like(learned)], **({RANDOM: shuffled} if sparse else {}), **named}


def verdict(results: Sequence[HeldOut], failed: Sequence[FailedCheck] = ()) -> str:
    """Put the results into one sentence. The first result is the learned graph's own.

    Where checks of the learner's assumptions have failed, no comparison makes up for that.
    """
    better, open_, worse = [], [], []
    for result in results[1:]:
        certain = abs(result.difference) > CERTAIN * result.error
        group = open_ if not certain else better if result.difference > 0 else worse
        group.append(result)
    nothing = next(result for result in results if result.graph == EMPTY)
    if nothing not in better:
        return (
            "Do not trust this graph: it does not explain rows held out better than no graph does "
            f"(difference {nothing.difference:.2g} ± {nothing.error:.1g} nats per row)."
        )
    if failed:
        return " ".join(["Do not trust this graph as it is.", *(f"{each.found}." for each in failed)])
    said = f"On rows held out the graph explains the data better than {_listed(better, ' nats per row')}"
    if open_:
        said += f", no better than {_listed(open_)}"
    if worse:
        said += f", and worse than {_listed(worse)}"
    ending = " Do not trust it." if any(each.graph == RANDOM for each in [*open_, *worse]) else ""
    return f"{said}.{ending}"


def _listed(results: Sequence[HeldOut], unit: str = "") -> str:
    first, *others = [f"{_WORDS[each.graph]} (by {abs(each.difference):.2g} ± {each.error:.1g})" for each in results]
    parts = [first.replace(")", f"{unit})"), *others]
    return parts[0] if not others else f"{', '.join(parts[:-1])} and {parts[-1]}"
