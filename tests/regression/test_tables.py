"""The evidence of complete tables, against BDeu written out, and what it promises."""

from __future__ import annotations

from itertools import combinations, product
from math import lgamma, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddag.graphs import is_dag, to_cpdag
from feddag.regression.tables import SAMPLE_SIZE, Tables

LEVELS = [2, 3, 2, 4]


def draw(seed, rows=60):
    """Four variables, each depending on the one before it."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((rows, 4), dtype=int)
    for node, levels in enumerate(LEVELS):
        codes[:, node] = rng.integers(levels, size=rows)
        if node:
            copied = rng.uniform(size=rows) < 0.5
            codes[copied, node] = codes[copied, node - 1] % levels
    return codes


def bdeu(codes, child, parents):
    """Return the log-evidence of a table, combination by combination of the parents' levels."""
    total, settings_ = 0.0, list(product(*(range(LEVELS[node]) for node in parents)))
    a = SAMPLE_SIZE / len(settings_)
    for setting in settings_:
        of_setting = codes[(codes[:, parents] == setting).all(axis=1), child]
        total += lgamma(a) - lgamma(a + len(of_setting))
        for level in range(LEVELS[child]):
            count = int((of_setting == level).sum())
            total += lgamma(a / LEVELS[child] + count) - lgamma(a / LEVELS[child])
    return total


def left_out(codes, child, parents):
    """Return how likely each row is by the table learned from all others, as a sum of logarithms."""
    total, a = 0.0, SAMPLE_SIZE / np.prod([LEVELS[node] for node in parents], initial=1)
    for row in range(len(codes)):
        others = np.delete(codes, row, axis=0)
        others = others[(others[:, parents] == codes[row, parents]).all(axis=1), child]
        same = int((others == codes[row, child]).sum())
        total += log((a / LEVELS[child] + same) / (a + len(others)))
    return total


FAMILIES = [(0, []), (3, [1]), (1, [0, 3]), (2, [0, 1, 3])]


@pytest.mark.parametrize(("child", "parents"), FAMILIES)
def test_one_site_scores_by_bdeu(child, parents):
    codes = draw(1)
    found = Tables(codes, LEVELS, sites=1).score(child, parents)
    assert found == pytest.approx(-bdeu(codes, child, parents) / len(codes), abs=1e-12)


@pytest.mark.parametrize(("child", "parents"), FAMILIES)
def test_among_several_sites_later_rows_are_predicted_from_a_site_s_others(child, parents):
    codes = draw(2)
    found = Tables(codes, LEVELS, sites=4).score(child, parents)
    expected = (bdeu(codes, child, parents) + 3 * left_out(codes, child, parents)) / 4
    assert found == pytest.approx(-expected / len(codes), abs=1e-12)


def all_dags(nodes):
    places = list(combinations(range(nodes), 2))
    for ways in product((0, 1, 2), repeat=len(places)):
        graph = np.zeros((nodes, nodes), dtype=np.int8)
        for (i, j), way in zip(places, ways, strict=True):
            if way:
                graph[(i, j) if way == 1 else (j, i)] = 1
        if is_dag(graph):
            yield graph


CLASSES: dict[bytes, list[np.ndarray]] = {}
for dag in all_dags(4):
    CLASSES.setdefault(to_cpdag(dag).tobytes(), []).append(dag)


@given(st.integers(0, 10**6), st.sampled_from([1, 5]), st.sampled_from([1, 4]))
@settings(max_examples=5)
def test_all_graphs_of_an_equivalence_class_have_the_same_score(seed, sites, minimum_cell):
    tables = Tables(draw(seed), LEVELS, sites=sites, minimum_cell=minimum_cell)

    def score(graph):
        return sum(tables.score(node, np.flatnonzero(graph[:, node]).tolist()) for node in range(4))

    def losses(graph):
        return sum(tables.row_losses(node, np.flatnonzero(graph[:, node]).tolist()) for node in range(4))

    assert len(CLASSES) == 185
    totals = {}
    for cpdag, graphs in CLASSES.items():
        found = [score(graph) for graph in graphs]
        np.testing.assert_allclose(found, found[0], rtol=0, atol=1e-12)
        totals[cpdag] = found[0]
    assert np.ptp(list(totals.values())) > 0.01
    several = max(CLASSES.values(), key=len)
    np.testing.assert_allclose(losses(several[0]), losses(several[-1]), atol=1e-12)


def test_a_constant_and_a_level_that_is_never_seen_tell_nothing():
    codes = draw(3)
    codes[:, 2] = 0
    tables = Tables(codes, [2, 3, 1, 4], sites=3)
    assert tables.score(2, [0, 1]) == pytest.approx(0, abs=1e-12)
    assert tables.score(0, [1, 2]) == pytest.approx(tables.score(0, [1]), abs=1e-12)


def test_large_tables_are_counted_as_small_ones_are():
    """Past a size only combinations that occur get a number."""
    codes = np.random.default_rng(0).integers(0, 9, (50, 30))
    tables = Tables(codes, [9] * 30, sites=1)
    everything = list(range(1, 30))
    assert tables.score(0, everything) == pytest.approx(log(9), rel=1e-6)  # each row is the first of its combination


@pytest.mark.parametrize("minimum_cell", [1, 5])
def test_dependence_beyond_chance_is_about_standard_normal_without_one_and_large_with_one(minimum_cell):
    rng, found = np.random.default_rng(0), []

    def deviations(codes):
        told = Tables(codes, [3, 3, 2], sites=1, minimum_cell=minimum_cell).dependence(0, 1, [2])
        return told.excess * len(codes) / np.sqrt(told.variance * len(codes))

    for _ in range(300):
        found.append(deviations(np.column_stack([rng.integers(0, 3, (400, 2)), rng.integers(0, 2, 400)])))
    assert abs(np.mean(found)) < 0.2
    assert 0.8 < np.std(found) < 1.2
    codes = np.column_stack([rng.integers(0, 3, (400, 2)), rng.integers(0, 2, 400)])
    codes[:200, 0] = codes[:200, 1]
    assert deviations(codes) > 10


class TestSmallCells:
    """What leaves does not tell how levels go together in rows of small cells."""

    LARGE = np.repeat([[0, 0], [1, 1], [2, 2]], 40, axis=0)

    def answers(self, few, minimum_cell):
        tables = Tables(np.concatenate([self.LARGE, few]), [3, 3], sites=3, minimum_cell=minimum_cell)
        return np.array(
            [
                *(tables.score(0, [1]), tables.score(1, [0])),
                *(*tables.dependence(0, 1, []), *tables.dependence(1, 0, [])),
                tables.row_losses(0, [1]).sum(),
            ]
        )

    def test_whether_few_rows_share_levels_cannot_be_told(self):
        """Both tables have the same single columns: without the rule a server tells them apart."""
        first = np.array([0, 0, 0, 0, 1, 1, 2, 2])
        alike = np.column_stack([first, [1, 1, 1, 1, 2, 2, 0, 0]])
        unlike = np.column_stack([first, [1, 1, 2, 2, 0, 0, 1, 1]])
        assert np.abs(self.answers(alike, 1) - self.answers(unlike, 1)).max() > 1e-3
        np.testing.assert_allclose(self.answers(alike, 5), self.answers(unlike, 5), atol=1e-10)

    def test_which_levels_a_single_row_has_cannot_be_told(self):
        found = [self.answers(np.array([row]), 5) for row in ([0, 1], [1, 2], [2, 0])]
        np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-10)

    @pytest.mark.parametrize("minimum_cell", [1, 5])
    def test_no_row_is_more_than_certain(self, minimum_cell):
        for seed in range(20):
            tables = Tables(draw(seed, rows=100), LEVELS, sites=3, minimum_cell=minimum_cell)
            assert min(tables.score(child, parents) for child, parents in FAMILIES) > 0
