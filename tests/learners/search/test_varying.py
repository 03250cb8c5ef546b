"""Sites that differ: at how many an edge stands, where the graph does not fit, and how sure a direction is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import feddag
from feddag import AssumptionWarning
from feddag.federation.protocol import Task
from feddag.learners.search import tasks
from feddag.learners.search.checks import VARYING, Checks
from feddag.learners.search.graph_fit import answer_graph_fit
from feddag.learners.search.sites import OwnMechanisms
from feddag.regression.comparison import error_over_sites, spread_of_site
from feddag.regression.imprecision import SHARES
from feddag.silos import Silo

NAMES = ("x0", "x1", "x2")
CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.uint8)


def _table(seed: int, *, further: bool = False, turned: bool = False, rows: int = 300) -> np.ndarray:
    """Draw x0 -> x1 -> x2, nonlinear; with a further edge x0 -> x2, or with the first edge the other way."""
    rng = np.random.default_rng(seed)
    one = rng.normal(size=rows)
    other = np.tanh(2 * one) + 0.4 * rng.normal(size=rows)
    first, second = (other, one) if turned else (one, other)
    third = np.sin(2 * second) + 0.4 * rng.normal(size=rows) + (np.cos(2 * first) if further else 0)
    return np.column_stack([first, second, third])


def _answer(values: np.ndarray):
    site = OwnMechanisms(Silo("a", NAMES, values), equal_noise=False)
    return answer_graph_fit(site, Task(tasks.GRAPH_FIT.name, 0, {}, {"dag": CHAIN}, (0, 1, 2)), NAMES, len(values))


def test_a_site_of_the_graph_speaks_for_its_edges_and_says_nothing():
    answer = _answer(_table(1))
    assert answer.arrays["standing"].tolist() == [1, 1]
    assert not answer.arrays["misfit"].any()
    assert not answer.notes


def test_a_site_with_another_graph_tells_its_operator_what_differs():
    further, turned = _answer(_table(1, further=True)), _answer(_table(1, turned=True))
    assert further.arrays["misfit"].tolist() == [0, 0, 1]
    assert turned.arrays["misfit"].tolist() == [0, 1, 0]
    assert "x0 -> x2 is missing" in " ".join(further.notes)
    assert "x0 -> x1 points the other way" in " ".join(turned.notes)


def test_an_edge_that_a_site_lacks_is_named_there():
    values = _table(1)
    values[:, 2] = np.random.default_rng(2).normal(size=len(values))
    answer = _answer(values)
    assert answer.arrays["standing"].tolist() == [1, 0]
    assert "x1 -> x2" in " ".join(answer.notes)


def test_noise_alone_speaks_for_no_other_graph():
    spoken = sum(_answer(_table(seed)).arrays["misfit"].sum() for seed in range(3, 13))
    assert spoken == 0


def test_the_result_names_variables_that_have_other_causes_at_some_sites():
    tables = {f"s{seed}": pd.DataFrame(_table(seed, further=seed == 4), columns=list(NAMES)) for seed in range(5)}
    with pytest.warns(AssumptionWarning, match="some sites by themselves speak for other causes of x2"):
        learned = feddag.EvidenceSearch(restarts=0, workers=1, forbidden=[("x0", "x2")]).fit(tables)
    found = learned.checks_[learned.checks_.check.eq(VARYING)]
    assert found.variables.tolist() == ["x2"]
    assert found.sites.tolist() == [1]
    assert learned.edge_evidence_.sites.tolist() == [5, 5]


def test_numbers_of_few_sites_are_not_told():
    counts, pairs = np.array([0.0, 2.0, 3.0]), np.zeros((3, 3))
    nothing: dict[str, np.ndarray] = dict.fromkeys(Checks._fields, np.zeros(3)) | {"copies": pairs, "together": pairs}
    nothing |= {"imprecise": np.zeros((len(SHARES), 3, 3)), "precise": np.zeros(3, dtype=bool)}
    nothing |= dict.fromkeys(("vary_everywhere", "come_together", "errors_seen"), np.zeros(()))
    checks = Checks(**nothing | {"sites_differing": counts, "misfit": counts, "standing": np.diag(counts)})
    told = checks.told_of(3)
    for found in (told.sites_differing, told.misfit, told.standing.diagonal()):
        np.testing.assert_array_equal(found, [0, np.nan, 3])
    assert told.table(NAMES, CHAIN.astype(np.int8)).query("check == @VARYING").variables.tolist() == ["x2"]


def test_the_error_over_sites_is_that_of_a_sum_of_shares():
    rows, differences = np.array([100, 200, 300]), np.array([0.1, -0.2, 0.3])
    shares = rows / 600
    parts = [spread_of_site(np.array([each]), count) for each, count in zip(differences, rows.tolist(), strict=True)]
    answer = {
        name: np.sum([w * part[name] for w, part in zip(shares, parts, strict=True)], axis=0) for name in parts[0]
    }
    expected = np.sqrt((shares**2 * (differences - 0.05) ** 2).sum() * 3 / 2)
    np.testing.assert_allclose(error_over_sites(answer, 600, 3, np.array([0.05])), expected)


@pytest.mark.parametrize(("changed", "directed"), [(1, False), (5, True)])
def test_one_site_that_differs_makes_no_direction_sure(changed, directed):
    """Straight lines with normal noise: nothing but changes of the cause tells the direction."""
    tables = {}
    for k in range(8):
        rng = np.random.default_rng(k)
        cause = rng.normal(size=300) * (2.5 if k < changed else 1) + (1.5 * k if k < changed else 0)
        tables[f"s{k}"] = pd.DataFrame({"a": cause, "b": 0.8 * cause + rng.normal(size=300)})
    learned = feddag.EvidenceSearch(restarts=0, workers=1).fit(tables)
    (edge,) = learned.edge_evidence_.to_dict("records")
    assert (edge["cause"], edge["effect"], edge["directed"]) == ("a", "b", directed)
    assert edge["by_changes"] > 0.5 * edge["reversed"]
