"""What an edge is held against: no graph that reverses it may be much better than the one that was found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from feddag import CausalGraph, EvidenceSearch

ROWS, SITES = 300, 4


def straight_lines(seed: int) -> tuple[list[pd.DataFrame], CausalGraph]:
    """Draw straight lines with normal noise, some of them weak, so that several graphs are nearly as good."""
    rng = np.random.default_rng(seed)
    nodes, edges = 8, 11
    order = rng.permutation(nodes)
    pairs = [(order[i], order[j]) for i in range(nodes) for j in range(i + 1, nodes)]
    slopes = np.zeros((nodes, nodes))
    for k in rng.choice(len(pairs), edges, replace=False):
        slopes[pairs[k]] = rng.uniform(0.3, 1.3) * rng.choice([-1, 1])
    deviations = rng.uniform(0.4, 2, nodes)
    names = tuple(f"v{k}" for k in range(nodes))
    tables = []
    for _ in range(SITES):
        values = np.zeros((ROWS, nodes))
        for node in order:
            values[:, node] = values @ slopes[:, node] + deviations[node] * rng.standard_normal(ROWS)
        tables.append(pd.DataFrame(values, columns=list(names)))
    return tables, CausalGraph((slopes != 0).astype(np.int8), names)


@pytest.mark.parametrize("seed", [15, 20])
def test_an_edge_that_the_truth_reverses_is_held_against_something_nearly_as_good_as_the_truth(seed):
    tables, truth = straight_lines(seed)
    learned = EvidenceSearch(restarts=0).fit(tables)
    behind = ROWS * SITES * (-learned.score_ - learned.log_evidence(tables, truth))
    reversed_ = {(cause, effect) for effect, cause in truth.edges}
    table = learned.edge_evidence_
    wrong = table[[edge in reversed_ for edge in zip(table.cause, table.effect, strict=True)]]
    assert len(wrong)
    assert not wrong.directed.any()
    assert (wrong.reversed < max(behind, 0) + 6).all()


def products(seed: int) -> list[pd.DataFrame]:
    """Draw sums of causes and of all products of two of them: quick regressions do not see the products."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(SITES):
        values = np.zeros((ROWS, 6))
        for node in range(6):
            causes = values[:, max(node - 3, 0) : node]
            total = causes.sum(axis=1)
            values[:, node] = total + (total**2 - (causes**2).sum(axis=1)) / 2 + 0.7 * rng.standard_normal(ROWS)
            values[:, node] /= values[:, node].std()
        tables.append(pd.DataFrame(values, columns=[f"v{k}" for k in range(6)]))
    return tables


def test_no_edge_is_held_against_worse_than_its_mere_reversal():
    tables = products(3)
    learned = EvidenceSearch("graph", restarts=0).fit(tables)
    names = learned.dag_.names
    for each in learned.edge_evidence_.itertuples():
        turned, edge = learned.dag_.adjacency.copy(), (names.index(each.cause), names.index(each.effect))
        turned[edge], turned[edge[::-1]] = 0, 1
        if (graph := CausalGraph(turned, names)).is_dag:
            behind = ROWS * SITES * (-learned.score_ - learned.log_evidence(tables, graph))
            assert each.reversed < behind + 1e-6
