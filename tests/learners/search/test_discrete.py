"""Discrete variables in the search: a site's answers, and the graphs that are found."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from feddag import EvidenceSearch, FeddagError
from feddag.federation import Task
from feddag.graphs import shd
from feddag.learners.search.mixed import MixedMechanisms
from feddag.learners.search.sites import OwnMechanisms
from feddag.learners.search.tasks import (
    CHECKS,
    COMPARISONS,
    DEPENDENCES,
    GRAPH_FIT,
    IMPRECISION,
    NEIGHBOURHOODS,
    SCORES,
)
from feddag.regression.evidence import RIDGES
from feddag.regression.features import ContrastFeatures, level_counts
from feddag.regression.tables import Tables
from feddag.silos import Silo
from feddag.silos.variable_types import CONTINUOUS, Kind

BINARY = Kind("binary", (0, 1))
COLOUR = Kind("categorical", ("red", "green", "blue"))
GRADE = Kind("ordinal", (0, 1, 2, 3))
KINDS = (CONTINUOUS, BINARY, CONTINUOUS, COLOUR, BINARY, GRADE)
NAMES = ("dose", "ill", "size", "colour", "well", "grade")
TRUTH = np.zeros((6, 6), dtype=int)
for path in ((0, 1, 2, 3, 4), (0, 4), (2, 5)):
    for cause, effect in pairwise(path):
        TRUTH[cause, effect] = 1


def mixed_silo(name, rows, rng):
    """dose → ill → size → colour → well ← dose, size → grade."""
    dose = rng.normal(size=rows)
    ill = rng.uniform(size=rows) < expit(2 * dose)
    size = 1.5 * ill + 0.7 * rng.normal(size=rows)
    attraction = np.stack([np.zeros(rows), 1.5 * (size - 0.7), 1 - 2 * (size - 0.7) ** 2], axis=1)
    colour = (attraction + rng.gumbel(size=(rows, 3))).argmax(axis=1)
    well = rng.uniform(size=rows) < expit(np.array([-1.5, 1.5, 0])[colour] + 1.5 * np.tanh(2 * dose))
    grade = np.digitize(1.2 * size + rng.logistic(size=rows), [-0.5, 0.8, 2])
    return Silo(name, NAMES, np.column_stack([dose, ill, size, colour, well, grade]).astype(float), KINDS)


def mixed_silos(seed, sites=3, rows=250):
    rng = np.random.default_rng(seed)
    return [mixed_silo(f"s{k}", rows, rng) for k in range(sites)]


SILO = mixed_silos(1, sites=1, rows=150)[0]
NODES = len(NAMES)


def ask(site, spec, children, parents, **more):
    arrays = {
        "children": np.array(children, dtype=np.int64),
        "parents": np.array([np.isin(np.arange(NODES), each) for each in parents], dtype=np.uint8),
        "reference": np.zeros((NODES, NODES), np.uint8),
        **more,
    }
    return site.answer(Task(spec.name, 0, {}, arrays, (0,))).arrays


class TestASiteOfMixedVariables:
    def test_what_only_two_together_tell_is_found(self):
        rng = np.random.default_rng(0)
        one, other = rng.integers(0, 2, (2, 200)).astype(float)
        same = np.where(rng.uniform(size=200) < 0.1, one == other, one != other).astype(float)
        rest = rng.integers(0, 2, (3, 200)).astype(float)
        silo = Silo("s", NAMES, np.column_stack([one, other, same, *rest]), (BINARY,) * 6)
        none, first, both = ask(MixedMechanisms(silo), SCORES, [2, 2, 2], [(), (0,), (0, 1)])["scores"]
        assert both < none - 0.2
        assert first > none

    def test_continuous_variables_are_scored_as_without_discrete_ones_bit_for_bit(self):
        silo = Silo("s", NAMES, np.random.default_rng(0).normal(size=(80, 6)))
        families = [0, 3, 2], [(1,), (0, 2, 5), ()]
        terms = np.array([[1, -1, 0], [0, 1, -1]], dtype=np.int8)
        for task, more in ((NEIGHBOURHOODS, {}), (SCORES, {}), (COMPARISONS, {"terms": terms})):
            ours = ask(MixedMechanisms(silo), task, *families, **more)
            theirs = ask(OwnMechanisms(silo, equal_noise=False), task, *families, **more)
            for name, array in theirs.items():
                np.testing.assert_array_equal(ours[name], array)

    @pytest.mark.parametrize("child", [1, 3, 5])
    def test_coarse_scores_are_tables_and_what_numbers_add_by_the_evidence_about_no_effect(self, child):
        """Written out: the indicators' quadratic form under the inverse of their covariance, for each λ apart."""
        parents = (0, 4)
        found = ask(MixedMechanisms(SILO), NEIGHBOURHOODS, [child], [parents])["scores"][0]
        values = SILO.values[:, child]
        if child == 3:
            targets = np.eye(3)[values.astype(int)]
            weights = 1 - targets.mean(axis=0)
        else:
            targets, weights = values[:, None], np.ones(1)
        targets = (targets - targets.mean(axis=0)) / targets.std(axis=0)
        standard = SILO.values.copy()
        standard[:, [0, 2]] = (standard - standard.mean(axis=0))[:, [0, 2]] / standard.std(axis=0)[[0, 2]]
        mixed = ContrastFeatures(standard, level_counts(KINDS))
        codes, levels = SILO.values.astype(int), level_counts(KINDS).tolist()
        tables = Tables(codes, levels, sites=1)

        def evidence(family):
            features = np.concatenate([np.zeros((1, SILO.rows)), *(mixed._single(node) for node in sorted(family))]).T
            features = features - features.mean(axis=0)
            expected = 0.0
            for target, weight in zip(targets.T, weights, strict=True):
                scores = []
                for ridge in RIDGES:
                    covariance = np.eye(SILO.rows) + features @ features.T / ridge
                    quadratic = target @ np.linalg.solve(covariance, target)
                    scores.append((quadratic + np.linalg.slogdet(covariance)[1]) / (2 * SILO.rows))
                mean = np.exp(-SILO.rows * (np.array(scores) - min(scores))).mean()
                expected += weight * (min(scores) - np.log(mean) / SILO.rows)
            return expected

        for other in range(NODES):
            family = set(parents) if other == child else set(parents) ^ {other}
            discrete = family - {0, 2}
            expected = tables.score(child, discrete) + evidence(family) - evidence(discrete)
            assert found[other] == pytest.approx(expected, abs=1e-10)

    def test_a_level_never_seen_and_a_constant_tell_nothing_and_break_nothing(self):
        values = SILO.values.copy()
        values[:, 1] = 1.0  # all ill
        values[values[:, 3] == 2, 3] = 0.0  # none blue
        site = MixedMechanisms(Silo("s", NAMES, values, KINDS))
        parents = [(), (0,), (0, 3)]
        scores = ask(site, SCORES, [1, 1, 1], parents)["scores"]
        np.testing.assert_array_equal(scores, 0)
        assert not ask(site, NEIGHBOURHOODS, [1], [(0,)])["scores"].any()
        alone, with_constant = ask(site, SCORES, [0, 0], [(3,), (1, 3)])["scores"]
        assert alone <= with_constant + 1e-12
        terms = np.array([[1, -1, 0], [0, 1, -1]], dtype=np.int8)
        for children in ([1, 1, 1], [3, 3, 3], [2, 2, 2]):
            answers = ask(site, COMPARISONS, children, [(), (0,), (0, 4)], terms=terms)
            assert all(np.isfinite(answer).all() for answer in answers.values())

    def test_row_likelihoods_tell_the_same_as_scores(self):
        site, terms = MixedMechanisms(SILO), np.array([[1, -1]], dtype=np.int8)
        for child, parent in ((1, 0), (3, 2), (5, 2), (4, 3)):
            answer = ask(site, COMPARISONS, [child, child], [(), (parent,)], terms=terms)
            # the likelihood gains more than the evidence, which charges for what could have been fitted besides
            assert answer["row_first"][0] > answer["difference"][0] > 0
            assert answer["row_second"][0] > answer["row_first"][0] ** 2


@pytest.fixture(scope="module")
def learned():
    return {seed: EvidenceSearch(restarts=0).fit(mixed_silos(seed)) for seed in range(1, 4)}


class TestTheSearch:
    def test_it_finds_a_mixed_graph(self, learned):
        """Of 6 edges among 15 pairs; a graph without edges has a distance of 6."""
        assert np.mean([shd(each.dag_.adjacency, TRUTH) for each in learned.values()]) <= 1

    def test_it_says_how_sure_each_edge_is(self, learned):
        table = learned[1].edge_evidence_
        assert np.isfinite(table[["absent", "absent_error", "reversed", "reversed_error"]]).all(axis=None)
        assert (table.absent > 3 * table.absent_error).all()

    def test_names_and_numbers_of_levels_do_not_matter(self, learned):
        def renamed(silo):
            values = silo.values.copy()
            values[:, 1] = 1 - values[:, 1]
            values[:, 3] = np.array([1.0, 2.0, 0.0])[values[:, 3].astype(int)]
            return Silo(silo.name, silo.columns, values, KINDS)

        again = EvidenceSearch(restarts=0).fit([renamed(silo) for silo in mixed_silos(1)])
        np.testing.assert_array_equal(again.dag_.adjacency, learned[1].dag_.adjacency)
        assert again.score_ == pytest.approx(learned[1].score_, abs=1e-6)

    def test_a_site_that_has_seen_one_level_only_takes_part(self):
        *silos, last = mixed_silos(2)
        healthy = Silo(last.name, NAMES, last.values[last.values[:, 1] == 0], KINDS)
        learner = EvidenceSearch(restarts=0).fit([*silos, healthy])
        assert np.isfinite(learner.graph_.scores).all()
        assert shd(learner.dag_.adjacency, TRUTH) <= 1

    def test_it_refuses_what_it_cannot_do(self):
        with pytest.raises(FeddagError, match=r"and 'ill' is binary\. Choose noise='free'"):
            EvidenceSearch(noise="equal").fit([SILO])
        many = Kind("ordinal", tuple(range(12)))
        with pytest.raises(FeddagError, match="'grade' has 12 levels, and EvidenceSearch takes at most 9"):
            EvidenceSearch().fit([Silo("s", NAMES, SILO.values, (*KINDS[:5], many))])


def levels_of(probabilities, rng):
    """Draw a level for each row, with the row's own probabilities."""
    return (rng.uniform(size=(len(probabilities), 1)) > probabilities.cumsum(axis=1)).sum(axis=1)


def discrete_silos(seed, edges, nodes, *, levels=3, sites=4, rows=400, strength=0.5):
    """Tables of all sites, by the same Dirichlet probabilities for each combination of causes."""
    rng = np.random.default_rng(seed)
    kinds, silos = (Kind("categorical", tuple("abcd"[:levels])),) * nodes, []
    causes = [[i for i, j in edges if j == node] for node in range(nodes)]
    tables = [rng.dirichlet(np.full(levels, strength), (levels,) * len(each)) for each in causes]
    for site in range(sites):
        values = np.zeros((rows, nodes), dtype=int)
        for node in range(nodes):
            table = tables[node][tuple(values[:, causes[node]].T)]
            values[:, node] = levels_of(np.broadcast_to(table, (rows, levels)), rng)
        silos.append(Silo(f"s{site}", tuple(f"x{k}" for k in range(nodes)), values.astype(float), kinds))
    return silos


COLLIDER = [(0, 2), (1, 2), (2, 3)]
COMPLETE = [(0, 1), (0, 2), (1, 2)]


class TestTables:
    def test_coarse_scores_are_joint_ones_and_those_of_tables_among_all_sites(self):
        silos = discrete_silos(1, COLLIDER, 4, strength=3.0)
        site, tables = MixedMechanisms(silos[0]), Tables(silos[0].values.astype(int), [3] * 4, sites=4)
        parents = np.array([[1, 1, 0, 0]], dtype=np.uint8)
        arrays = {"children": np.array([2]), "parents": parents, "reference": np.zeros((0, 4), np.uint8)}
        coarse = site.answer(Task(NEIGHBOURHOODS.name, 0, {}, arrays, (0, 1, 2, 3))).arrays["scores"][0]
        joint = site.answer(Task(SCORES.name, 0, {}, arrays, (0, 1, 2, 3))).arrays["scores"][0]
        assert coarse[2] == joint == tables.score(2, [0, 1])
        assert coarse[[0, 1, 3]].tolist() == [tables.score(2, family) for family in ([1], [0], [0, 1, 3])]

    @pytest.mark.parametrize("seed", range(1, 9))
    def test_nothing_is_sure_within_an_equivalence_class(self, seed):
        learned = EvidenceSearch(restarts=0).fit(discrete_silos(seed, COMPLETE, 3))
        assert not learned.edge_evidence_.directed.any()

    def test_independent_causes_tell_their_directions(self):
        found = [
            EvidenceSearch(restarts=0).fit(discrete_silos(seed, COLLIDER, 4, strength=1.0)) for seed in range(1, 9)
        ]
        tables = [each.edge_evidence_ for each in found]
        directed = [(row.cause, row.effect) for each in tables for row in each[each.directed].itertuples()]
        true = {(f"x{i}", f"x{j}") for i, j in COLLIDER}
        assert len(directed) >= 15
        assert set(directed) <= true
        assert all(len(each) == len(true) for each in tables)  # none between the causes, whichever way they first point

    def test_sites_together_find_what_pooled_rows_show(self):
        """Each site alone would pay for its own tables."""
        silos = discrete_silos(3, [(0, 1), (1, 2), (2, 3), (0, 3)], 4, rows=150, strength=3.0)
        pooled = Silo("all", silos[0].columns, np.concatenate([each.values for each in silos]), silos[0].kinds)
        alone = EvidenceSearch(restarts=0).fit([silos[0]])
        together, of_all = EvidenceSearch(restarts=0).fit(silos), EvidenceSearch(restarts=0).fit([pooled])
        skeletons = [each.dag_.adjacency | each.dag_.adjacency.T for each in (together, of_all)]
        np.testing.assert_array_equal(skeletons[0], skeletons[1])
        assert len(alone.dag_.edges) < len(together.dag_.edges)

    def test_sharing_all_asks_for_scores_alone(self):
        silos = discrete_silos(2, COLLIDER, 4)
        common = EvidenceSearch("all", restarts=0)
        with common.in_process(silos) as federation:
            asked = []
            aggregate = federation.aggregate
            federation.aggregate = lambda task: asked.append(task.name) or aggregate(task)
            common.fit_federation(federation, silos[0].columns)
        own = EvidenceSearch(restarts=0).fit(silos)
        np.testing.assert_array_equal(common.dag_.adjacency, own.dag_.adjacency)
        np.testing.assert_array_equal(common.graph_.adjacency, own.graph_.adjacency)
        specs = (NEIGHBOURHOODS, SCORES, COMPARISONS, DEPENDENCES, CHECKS, IMPRECISION, GRAPH_FIT)
        assert set(asked) == {"search.rows", *(spec.name for spec in specs)}


@pytest.mark.parametrize("concentration", [1.0, 3.0])
def test_no_direction_is_sure_in_complete_tables(concentration):
    for seed in range(24):
        learned = EvidenceSearch(restarts=0).fit(
            discrete_silos(seed, COMPLETE, 3, sites=5, rows=500, strength=concentration)
        )
        assert not learned.edge_evidence_.directed.any(), seed
