"""A graph from one noisy release: found where the noise allows, left out where it does not, and nobody told apart."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from feddag import FeddagError, PrivateSearch, compare, make_learner, simulate
from feddag.federation.discrete_gaussian import system_noise
from feddag.federation.protocol import Task
from feddag.learners.private_search import FRAMED, ROUGH, ReleasingSite
from feddag.regression.bounded_features import FeatureMap
from feddag.regression.frames import FramedMap

SIMULATION = simulate(5, mechanism="linear", sites=4, rows=2500, seed=3)
RANGES = (-5.0, 5.0)


def learner(**changes):
    return PrivateSearch(**{"epsilon": 3.0, "ranges": RANGES, "expected_rows": 10_000, "noise_seed": 1, **changes})


def test_it_finds_the_graph_that_enough_rows_tell():
    simulation = simulate(5, mechanism="gp", sites=4, rows=2500, seed=3)
    found = compare(learner().fit(simulation).graph_, simulation.truth)
    assert found.shd <= 1


def test_a_second_release_finds_what_the_noise_of_one_would_drown():
    """Two causes explain nearly all of an effect: what is left of it is as small as the noise of a single release."""
    rng = np.random.default_rng(1)
    tables = {}
    for k in range(4):
        a, b = rng.standard_normal((2, 2500))
        c = 3 * a + 3 * b + rng.standard_normal(2500)
        tables[f"s{k}"] = pd.DataFrame({"a": a, "b": b, "c": c, "d": 3 * c - 9 * a + rng.standard_normal(2500)})
    ranges = {"a": (-3, 3), "b": (-3, 3), "c": (-13, 13), "d": (-30, 30)}
    found = learner(epsilon=1.0, ranges=ranges, mechanisms="linear", noise="equal").fit(tables)
    assert set(found.graph_.edges) == {("a", "c"), ("b", "c"), ("c", "d"), ("a", "d")}


def test_straight_lines_with_noise_of_equal_variance_are_found_at_epsilon_1():
    simulation = simulate(5, mechanism="linear", sites=5, rows=2000, seed=4)
    found = learner(epsilon=1.0, ranges=(-8.0, 8.0), mechanisms="linear", noise="equal").fit(simulation)
    assert compare(found.graph_, simulation.truth).shd <= 1


@pytest.mark.parametrize("seed", range(5))
def test_where_nothing_depends_on_anything_next_to_no_edge_is_invented(seed):
    rng = np.random.default_rng(seed)
    tables = {f"s{k}": rng.standard_normal((400, 6)) for k in range(3)}
    found = learner(epsilon=1.0, ranges=(-3.0, 3.0), expected_rows=1200, noise_seed=seed).fit(tables)
    assert len(found.graph_.edges) + len(found.graph_.undirected_edges) <= 1


def test_a_discrete_variable_takes_its_place_in_the_same_release():
    rng = np.random.default_rng(1)
    frames = {}
    for k in range(3):
        group = rng.integers(0, 3, 3000)
        marker = np.array([-1.5, 0.0, 1.5])[group] + rng.standard_normal(3000)
        frames[f"s{k}"] = {"group": group, "marker": marker, "other": rng.standard_normal(3000)}
    tables = {name: pd.DataFrame(frame) for name, frame in frames.items()}
    private = learner(ranges={"marker": (-5, 5), "other": (-4, 4)}, levels={"group": 3})
    found = private.fit(tables, kinds={"group": {"type": "categorical", "levels": [0, 1, 2]}})
    adjacent = found.graph_.adjacency | found.graph_.adjacency.T
    np.testing.assert_array_equal(adjacent, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    with pytest.raises(FeddagError, match=r"'group' is categorical .* levels declares 0 levels"):
        learner(ranges=(-5, 5)).fit(tables, kinds={"group": {"type": "categorical", "levels": [0, 1, 2]}})


def test_without_a_seed_no_two_releases_are_alike():
    one, two = (learner(noise_seed=None, mechanisms="linear").fit(SIMULATION).release_ for _ in range(2))
    assert (one != two).mean() > 0.9


def test_a_fit_that_is_resumed_asks_for_no_second_release(tmp_path):
    class StopError(Exception):
        pass

    def stop(status):
        raise StopError

    private = learner(noise_seed=None, mechanisms="linear")
    for _ in ("after the first release", "after the second"):
        with pytest.raises(StopError):
            private.fit(SIMULATION, progress=stop, checkpoint=tmp_path / "state.npz")
    first, again = (
        learner(noise_seed=None, mechanisms="linear").fit(SIMULATION, checkpoint=tmp_path / "state.npz").release_
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranges": {}}, r"There is no range of 'x0'\. Declare which values are plausible"),
        ({"ranges": (3, 1)}, "ranges must be a pair"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"quorum": 9}, "quorum must be at most the number of sites, 4"),
        ({"levels": {"x0": 1}}, "levels must be"),
    ],
)
def test_what_is_not_declared_or_protects_nothing_is_refused(changes, message):
    with pytest.raises(FeddagError, match=message):
        learner(**changes).fit(SIMULATION)


def test_too_few_rows_for_the_noise_are_told():
    tables = {f"s{k}": np.random.default_rng(k).standard_normal((12, 5)) for k in range(3)}
    with pytest.raises(FeddagError, match="too few rows for this ε"):
        make_learner("private-search", epsilon=0.1, ranges=(-3, 3), expected_rows=36, noise_seed=1).fit(tables)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_best_attack_on_many_releases_stays_below_the_claimed_epsilon(epsilon):
    """Release with and without the worst row, attack by the likelihood ratio, and bound ε from below.

    The bound (Clopper-Pearson, 99 % sure) uses that (ε, δ) allows a true positive rate of e^ε times the false one.
    """
    private = PrivateSearch(epsilon, 1e-6, ranges=(-1, 1), mechanisms="linear", noise="equal")
    names = ("a", "b")
    features = private.features(names)
    rng = np.random.default_rng(5)
    rows = rng.uniform(-0.3, 0.3, (50, 2))
    worst = np.array([[1.0, 1.0]])
    specs = ROUGH, FRAMED
    tasks = [
        Task(spec.name, 0, {"deviation": private.plan(names, 1, spec).share_deviation}, {}, (0,)) for spec in specs
    ]
    scores = {}
    for name, table in (("with", np.vstack([rows, worst])), ("without", rows)):
        site = ReleasingSite("s", table, features, system_noise)
        scores[name] = np.zeros(2000)
        for place in range(2000):
            # the second release is in a frame that singles out the worst row as well as one can
            frame = {"center": np.zeros(2), "frame": np.array([[9.0, 9.0], [1.0, -1.0]])}
            for task, arrays, seen in zip(tasks, ({}, frame), (features, FramedMap.of(features, **frame)), strict=True):
                answer = site.answer(replace(task, arrays=arrays)).arrays["products"]
                moved = seen.products(worst)
                scores[name][place] += (answer - seen.products(rows)) @ moved / task.numbers["deviation"] ** 2
    threshold = np.quantile(scores["without"][:1000], 0.95)
    caught, alarms = ((scores[name][1000:] > threshold).sum() for name in ("with", "without"))
    least_caught = beta.ppf(0.01, caught, 1000 - caught + 1)
    most_alarms = beta.ppf(0.99, alarms + 1, 1000 - alarms)
    found = math.log(max((least_caught - 1e-6) / most_alarms, 1.0))
    assert found <= epsilon
    assert scores["with"].mean() > scores["without"].mean()  # the attack is a real one


def test_the_membership_attack_on_a_release_is_no_better_than_epsilon_allows():
    features = FeatureMap(((-3.0, 3.0),) * 5, (0,) * 5, 4, 0)
    rng = np.random.default_rng(1)
    for epsilon in (1.0, 10.0):
        private = PrivateSearch(epsilon, 1e-6)
        deviation = private.privacy.multiplier * features.sensitivity
        moved = np.array([features.products(row[None]) for row in rng.standard_normal((300, 5))])
        noise = np.rint(deviation * rng.standard_normal((2, *moved.shape)))
        inside = ((moved / 2 + noise[0]) * moved).sum(axis=1)
        outside = ((noise[1] - moved / 2) * moved).sum(axis=1)
        auc = (inside[:, None] > outside).mean()
        most = 0.5 * (1 + math.erf(1 / private.privacy.multiplier / 2))
        assert auc <= most + 3 * math.sqrt(0.25 / 300)


@pytest.mark.parametrize(
    "features",
    [
        FeatureMap(((-3.0, 3.0),) * 10, (0,) * 10, 1, 0),
        FeatureMap(((-3.0, 3.0),) * 2, (0,) * 2, 1, 0),
        FramedMap(((-3.0, 3.0),) * 3, (0,) * 3, 1, 0, np.array([0.0, 1.0, -50.0]), np.triu(np.ones((3, 3))) * 9),
        FramedMap(((-3.0, 3.0),) * 3, (0,) * 3, 1, 0, np.full(3, 1e9), np.full((3, 3), 1e9)),
        FramedMap(((-3.0, 3.0),) * 3, (0,) * 3, 1, 0, np.full(3, -1e9), np.eye(3) * 1e9),
        FeatureMap(((-3.0, 3.0),) * 4, (0,) * 4, 5, 1),
        FeatureMap(((-3.0, 3.0), None, None), (0, 3, 2), 4, 0),
    ],
)
def test_no_row_adds_more_than_the_noise_is_made_for(features):
    """The attack: rows at corners, far beyond the ranges, and without a number."""
    rng = np.random.default_rng(0)
    numbers = np.concatenate(
        [
            rng.choice([-1e9, -3.0, 0.0, 3.0, 1e9, np.nan, np.inf, -np.inf], (400, features.nodes)),
            rng.uniform(-4, 4, (400, features.nodes)),
            np.eye(features.nodes) * 3,
        ]
    )
    for node, levels in enumerate(features.levels):
        if levels:
            numbers[:, node] = rng.integers(0, levels, len(numbers))
    lengths = [int(sum(int(each) ** 2 for each in features.products(row[None]))) for row in numbers]
    assert max(lengths) <= features.sensitivity**2
    assert max(lengths) > 0.6 * features.sensitivity**2  # it is no wild overestimate either


def test_discrete_effects_of_one_bent_cause_are_not_joined_by_a_sure_edge():
    rng = np.random.default_rng(1)
    frames = {}
    for k in range(3):
        cause = rng.standard_normal(6000)
        bent = 2 * np.cos(2 * cause)[:, None] * [0, 1, 0] + rng.gumbel(size=(6000, 3))
        too = 2 * np.cos(2 * cause)[:, None] * [1, 0, 0] + rng.gumbel(size=(6000, 3))
        frames[f"s{k}"] = pd.DataFrame({"cause": cause, "one": bent.argmax(axis=1), "two": too.argmax(axis=1)})
    kinds = {name: {"type": "categorical", "levels": [0, 1, 2]} for name in ("one", "two")}
    private = learner(epsilon=100.0, ranges={"cause": (-3, 3)}, levels={"one": 3, "two": 3}, expected_rows=18_000)
    evidence = private.fit(frames, kinds=kinds).edge_evidence_
    invented = {(row.cause, row.effect) for row in evidence.itertuples() if row.present} & {
        ("one", "two"),
        ("two", "one"),
    }
    assert not invented
    assert not evidence.directed.any() or set(evidence[evidence.directed].cause) == {"cause"}
