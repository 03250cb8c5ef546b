"""How well graphs predict rows that no mechanism was fitted to: one number per graph and site, inside sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from feddag.federation import Federation
from feddag.federation.protocol import Arrays
from feddag.graphs import Adjacency
from feddag.regression.comparison import errors_of_differences
from feddag.trust import tasks


@dataclass(frozen=True)
class HeldOut:
    """How well a graph predicts rows held out, in nats per row."""

    graph: str
    score: float
    """The mean log-likelihood of a row."""
    difference: float
    """By how much the learned graph is better."""
    error: float
    """The standard error of the difference: over sites or over rows, whichever is larger."""


def compare_held_out(
    federation: Federation, learned: Adjacency, rivals: Mapping[str, list[Adjacency]]
) -> list[HeldOut]:
    """Compare the learned graph with others; where a name stands for several, with their mean."""
    graphs = [learned, *(graph for several in rivals.values() for graph in several)]
    terms = np.zeros((len(rivals) + 1, len(graphs)))
    terms[1:, 0] = 1
    first = 1
    for k, several in enumerate(rivals.values(), start=1):
        terms[k, first : first + len(several)] -= 1 / len(several)
        first += len(several)
    answer = tasks.HELD_OUT.ask(federation, 0, {"graphs": np.array(graphs, dtype=np.uint8), "terms": terms})
    errors = standard_errors(federation, answer)
    best = float(answer["scores"][0])
    return [
        HeldOut(name, best - float(difference), float(difference), float(error))
        for name, difference, error in zip(("learned", *rivals), answer["row_first"], errors, strict=True)
    ]


def standard_errors(federation: Federation, answer: Arrays) -> Float[np.ndarray, " comparison"]:
    """Return the standard errors of differences on rows held out."""
    rows = float(tasks.ROWS.ask(federation)["held_out"]) * federation.summed
    return np.maximum(*errors_of_differences(answer, answer["row_first"], rows, federation.summed))
