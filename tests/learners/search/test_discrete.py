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
from feddag.learners.search.tasks import COMPARISONS, NEIGHBOURHOODS, SCORES
from feddag.regression.evidence import RIDGES
from feddag.regression.features import ContrastFeatures, level_counts
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
    def test_coarse_scores_are_the_evidence_about_no_effect(self, child):
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
        for other in range(NODES):
            family = set(parents) if other == child else set(parents) ^ {other}
            features = np.concatenate([mixed._single[node] for node in sorted(family)]).T
            features = features - features.mean(axis=0)
            expected = 0.0
            for target, weight in zip(targets.T, weights, strict=True):
                scores = []
                for ridge in RIDGES:
                    covariance = np.eye(SILO.rows) + features @ features.T / ridge
                    quadratic = target @ np.linalg.solve(covariance, target)
                    scores.append((quadratic + np.linalg.slogdet(covariance)[1]) / (2 * SILO.rows))
                evidence = np.exp(-SILO.rows * (np.array(scores) - min(scores))).mean()
                expected += weight * (min(scores) - np.log(evidence) / SILO.rows)
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
    return {seed: EvidenceSearch(restarts=0).fit(mixed_silos(seed)) for seed in range(1, 6)}


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
        for parameters, remedy in (({"sharing": "all"}, "sharing='graph'"), ({"noise": "equal"}, "noise='free'")):
            with pytest.raises(FeddagError, match=rf"and 'ill' is binary\. Choose {remedy}"):
                EvidenceSearch(**parameters).fit([SILO])
        many = Kind("ordinal", tuple(range(12)))
        with pytest.raises(FeddagError, match="'grade' has 12 levels, and EvidenceSearch takes at most 9"):
            EvidenceSearch().fit([Silo("s", NAMES, SILO.values, (*KINDS[:5], many))])
