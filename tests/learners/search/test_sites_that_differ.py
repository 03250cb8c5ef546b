from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import feddag
from feddag.learners.search.checks import EVERYWHERE, TOGETHER
from feddag.learners.search.differences import Differences
from feddag.regression.agreement import PULLS, Lines, Pull, SiteLines


def _differences(differs, distance=0.0, parameters=100.0):
    """What sites answer whose variables differ as a table of sites and variables says."""
    counts = np.sum(differs, axis=1)
    at_once = (counts * (counts - 1) / 2).sum()
    totals = (np.array(float(total)) for total in (at_once, distance, parameters))
    return Differences(np.zeros(len(differs[0])), np.sum(differs, axis=0).astype(float), *totals)


def test_changes_here_and_there_do_not_come_together():
    assert not _differences(np.eye(5, 10)).come_together(5)
    assert not _differences(np.zeros((5, 10))).come_together(5)
    assert not _differences(np.ones((5, 10))).come_together(5)
    rng = np.random.default_rng(1)
    found = [_differences(rng.random((6, 8)) < 0.2).come_together(6) for _ in range(400)]
    assert np.mean(found) < 0.07


def test_many_changes_at_the_same_sites_come_together():
    differs = np.zeros((5, 10))
    differs[3:, :4] = 1
    assert _differences(differs).come_together(5)


def test_sites_differ_one_by_one_if_many_do_and_each_in_one_variable_alone():
    assert _differences(np.eye(5, 10)).one_by_one
    assert _differences(np.eye(5, 10))._replace(at_once=np.array(1e-7)).one_by_one  # of a secure sum
    assert not _differences(np.eye(3, 10)).one_by_one
    two_at_once = np.eye(5, 10)
    two_at_once[0, 9] = 1
    assert not _differences(two_at_once).one_by_one
    assert not Differences.unknown(3).one_by_one


@pytest.mark.parametrize("seed", [2, 4])
def test_a_change_at_one_site_tells_directions_where_sites_differ_one_by_one(seed):
    simulation = feddag.simulate(5, edges_per_node=1, mechanism="linear", sites=8, rows=200, shifted=1, seed=seed)
    learned = feddag.EvidenceSearch(restarts=0, workers=1).fit(simulation)
    assert set(learned.graph_.edges) == set(simulation.truth.edges)


def test_sites_vary_everywhere_if_lines_are_farther_from_common_ones_than_by_chance():
    assert not _differences(np.zeros((5, 10)), 100.0, 100.0).vary_everywhere
    assert _differences(np.zeros((5, 10)), 200.0, 100.0).vary_everywhere
    assert not Differences.unknown(3).vary_everywhere


@pytest.mark.parametrize("kind", ["line", "curve", "noise by the cause", "long tails"])
def test_a_site_is_as_far_from_the_common_line_as_chance_says_whatever_the_mechanism(kind):
    rng, distances = np.random.default_rng(2), []

    def draw(rows):
        cause = rng.normal(size=rows)
        noise = rng.standard_t(6, size=rows) / 1.2 if kind == "long tails" else rng.normal(size=rows)
        if kind == "noise by the cause":
            noise *= np.exp(0.5 * cause)
        effect = np.tanh(2 * cause) if kind == "curve" else 0.7 * cause
        return np.column_stack([cause, (effect + noise) / 1.5])

    many = SiteLines(draw(200_000))
    parents = np.array([[True, False]])
    centre = Lines.of_all(np.array([1]), parents, many.covariances)
    line = Lines(*(each[0] for each in centre))
    distances = [SiteLines(draw(400)).distance(1, line) for _ in range(200)]
    assert 2.2 < np.mean(distances) < 3.9  # three parameters


@pytest.mark.parametrize("noise", [0.1, 1.0, 5.0])
def test_one_site_that_differs_by_much_does_not_move_the_common_line(noise):
    rng, sites = np.random.default_rng(3), []
    for slope, deviation in [(0.8, 1.0)] * 4 + [(-2.0, noise)]:
        cause = rng.normal(size=400)
        sites.append(SiteLines(np.column_stack([cause, slope * cause + deviation * rng.normal(size=400)]) / 2))
    children, spread = np.array([1]), np.mean([site.covariances for site in sites], axis=0)
    lines = Lines.of_all(children, np.array([[True, False]]), spread)
    for _ in range(PULLS):
        pulls = [site.pull(children, lines) for site in sites]
        mean = Pull(*(np.mean([getattr(pull, name) for pull in pulls], axis=0) for name in Pull._fields))
        lines = mean.move(lines, spread)
    assert [bool(site.differs(children, lines)[0]) for site in sites] == [False] * 4 + [True]


def _pairs_of_three(how, seed, sites=6, rows=300):
    """Straight lines with normal noise at sites that differ in ways that tell no direction."""
    rng = np.random.default_rng([7, seed])
    tables = {}
    for site in range(sites):
        weights = rng.normal(0.8, 0.25 if how == "slopes" else 0.0, 5)
        noise = rng.normal(size=(rows, 6))
        values = np.zeros((rows, 6))
        for node, parents in enumerate(((), (0,), (1,), (), (3,), (4,))):
            values[:, node] = noise[:, node] + sum(weights[parent] * values[:, parent] for parent in parents)
        if how == "devices" and site >= sites - 2:
            values[:, [0, 2, 3, 5]] = 1.7 * values[:, [0, 2, 3, 5]] + 1
        tables[f"site-{site}"] = pd.DataFrame(values, columns=[f"x{node}" for node in range(6)])
    return tables, {("x0", "x1"), ("x1", "x2"), ("x3", "x4"), ("x4", "x5")}


@pytest.mark.parametrize(("how", "check"), [("slopes", EVERYWHERE), ("devices", TOGETHER)])
def test_sites_that_differ_in_other_ways_make_no_direction_sure(how, check):
    for seed in (1, 2):
        tables, truth = _pairs_of_three(how, seed)
        learned = feddag.EvidenceSearch(restarts=0, workers=1).fit(tables)
        assert check in set(learned.checks_.check)
        assert not set(learned.graph_.edges) - truth
        assert {frozenset(edge) for edge in learned.dag_.edges} == {frozenset(edge) for edge in truth}


def test_sites_that_are_told_to_be_alike_are_warned_of():
    tables, _ = _pairs_of_three("slopes", 1)
    with pytest.warns(feddag.AssumptionWarning, match="vary a little from site to site"):
        feddag.EvidenceSearch("all", restarts=0, workers=1).fit(tables)


@pytest.mark.parametrize("stage", ["refinement", "directions", "checks"])
def test_a_search_that_leaves_sites_alone_goes_on_where_it_was_interrupted(stage, tmp_path):
    tables, _ = _pairs_of_three("devices", 1)
    whole = feddag.EvidenceSearch(restarts=0, workers=1).fit(tables)

    def stop(status):
        if status.figures["stage"] == stage:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "checkpoint.npz"
    with pytest.raises(KeyboardInterrupt):
        feddag.EvidenceSearch(restarts=0, workers=1).fit(tables, progress=stop, checkpoint=checkpoint)
    resumed = feddag.EvidenceSearch(restarts=0, workers=1).fit(tables, checkpoint=checkpoint)
    pd.testing.assert_frame_equal(resumed.edge_evidence_, whole.edge_evidence_)
    assert len(resumed.history_.rounds) == len(whole.history_.rounds)
