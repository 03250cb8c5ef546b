"""Promises of the random graphs."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.graphs import is_dag
from feddag.silos.simulation.random_graphs import erdos_renyi, scale_free


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


@pytest.mark.parametrize(("edge_probability", "expected"), [("published", 18.0), ("exact", 20.0)])
def test_erdos_renyi_has_the_expected_number_of_edges(edge_probability: str, expected: float) -> None:
    draws = 2000
    edges = [erdos_renyi(10, 2, edge_probability, rng).sum() for rng in generators(draws)]
    binomial_deviation = np.sqrt(expected * (1 - expected / 45))
    assert abs(np.mean(edges) - expected) < 4 * binomial_deviation / np.sqrt(draws)
    assert abs(np.std(edges) / binomial_deviation - 1) < 4 / np.sqrt(2 * draws)


def test_erdos_renyi_edges_are_equally_likely_wherever_the_labels_fall() -> None:
    draws = 4000
    frequency = np.mean([erdos_renyi(5, 1, "exact", rng) for rng in generators(draws)], axis=0)
    expected = 5 / 20
    off_diagonal = frequency[~np.eye(5, dtype=bool)]
    assert np.abs(off_diagonal - expected).max() < 4.5 * np.sqrt(expected * (1 - expected) / draws)


def test_erdos_renyi_with_more_edges_than_pairs_is_the_complete_dag() -> None:
    adjacency = erdos_renyi(6, 100, "exact", np.random.default_rng(0))
    assert adjacency.sum() == 15
    assert is_dag(adjacency)


@pytest.mark.parametrize("orientation", ["arrival", "random"])
@pytest.mark.parametrize(("nodes", "per_node"), [(10, 2), (20, 1), (12, 4), (3, 2)])
def test_scale_free_is_a_dag_with_k_times_d_minus_k_edges(orientation: str, nodes: int, per_node: int) -> None:
    for rng in generators(20):
        adjacency = scale_free(nodes, per_node, orientation, rng)
        assert is_dag(adjacency)
        assert adjacency.sum() == per_node * (nodes - per_node)


def test_erdos_renyi_is_acyclic() -> None:
    assert all(is_dag(erdos_renyi(12, 4, "published", rng)) for rng in generators(50))


def test_arrival_gives_every_newcomer_k_parents_and_random_orientation_does_not() -> None:
    by_arrival = [scale_free(20, 2, "arrival", rng).sum(axis=0) for rng in generators(20)]
    assert all(sorted(parents) == [0, 0] + [2] * 18 for parents in by_arrival)
    most_parents = [scale_free(20, 2, "random", rng).sum(axis=0).max() for rng in generators(20)]
    assert min(most_parents) > 2


def test_scale_free_attachment_is_proportional_to_degree() -> None:
    """With k = 1 and four nodes: 0–1, then a third at either end, so degrees (2, 1, 1); then a fourth.

    The fourth completes a star with probability 2/4 (the middle holds half the degree), else a path.
    """
    draws = 4000
    skeletons = [scale_free(4, 1, "arrival", rng) for rng in generators(draws)]
    stars = np.mean([(adjacency + adjacency.T).sum(axis=0).max() == 3 for adjacency in skeletons])
    assert abs(stars - 1 / 2) < 4 * np.sqrt(1 / 4 / draws)


def test_labels_do_not_betray_the_order() -> None:
    """Under a random labelling an edge is as likely to go up as to go down."""
    graphs = [scale_free(10, 2, "arrival", rng) for rng in generators(500)]
    upward = sum(np.triu(adjacency).sum() for adjacency in graphs) / sum(a.sum() for a in graphs)
    assert abs(upward - 1 / 2) < 0.05
