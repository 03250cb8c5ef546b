from __future__ import annotations

import numpy as np
import pytest

from feddag.graphs import CausalGraph
from feddag.silos import Silo
from feddag.trust import mechanisms_by_site

CHAIN = CausalGraph([[0, 1, 0], [0, 0, 1], [0, 0, 0]], ["a", "b", "c"])


def sites(slopes):
    """a → b → c, the last edge with a slope for each site."""
    draw = np.random.default_rng(3)
    for k, slope in enumerate(slopes):
        a = draw.normal(size=400)
        b = np.sin(2 * a) + 0.3 * draw.normal(size=400)
        c = slope * b + 0.5 * draw.normal(size=400)
        yield Silo(f"site-{k}", ("a", "b", "c"), np.column_stack([a, b, c]))


def test_the_mechanism_that_differs_is_found_and_no_other():
    table = mechanisms_by_site(CHAIN, list(sites([1.0, 1.0, -1.0])))
    assert table.drop_duplicates("effect").set_index("effect")["differs"].to_dict() == {
        "a": False,
        "b": False,
        "c": True,
    }
    gains = table[table["effect"] == "c"].set_index("site")["own_gain"]
    assert gains.idxmax() == "site-2"


def test_sites_that_are_alike_gain_nothing_by_a_mechanism_of_their_own():
    table = mechanisms_by_site(CHAIN, list(sites([1.0, 1.0, 1.0])))
    assert not table["differs"].any()
    assert table["causes"].tolist() == [""] * 3 + ["a"] * 3 + ["b"] * 3


def test_r2_is_the_share_of_the_variance_that_the_causes_explain():
    table = mechanisms_by_site(CHAIN, list(sites([1.0, 4.0]))).set_index(["effect", "site"])["r2"]
    of_b = 0.5 * (1 - np.exp(-8))  # the variance of sin(2a)
    expected = of_b / (of_b + 0.09)
    assert table["a"].abs().max() < 0.1
    assert table["b"].mean() == pytest.approx(expected, abs=0.06)
    assert table["c", "site-1"] > 0.95 > table["c", "site-0"]


def test_one_site_has_nothing_to_differ_from():
    table = mechanisms_by_site(CHAIN, list(sites([1.0])))
    np.testing.assert_allclose(table["own_gain"], 0, atol=1e-9)
    assert not table["differs"].any()
