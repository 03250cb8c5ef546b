"""What `feddag disclosure` says of a study with privacy of rows."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.disclosure import disclose, figures
from feddag.silos import Silo
from feddag.study import Study


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 0.57), (10.0, 0.91)])
def test_epsilon_stands_beside_an_attack_that_is_no_better_than_it_allows(epsilon, most):
    variables = "\n".join(f"{name} = {{ type = 'continuous', range = [-4, 4] }}" for name in "abc")
    study = Study.parse(
        f'name = "test"\n[variables]\n{variables}\n[method]\nname = "private-search"\n[sites.x]\n[sites.y]\n[sites.z]\n'
        f"[privacy.rows]\nepsilon = {epsilon}\ndelta = 1e-6\nexpected_rows = 3000\n"
    )
    silo = Silo("x", ("a", "b", "c"), np.random.default_rng(1).standard_normal((1000, 3)))
    found = disclose(study, silo)
    assert found.membership is not None
    assert found.membership.auc <= most + 3 * np.sqrt(0.25 / 400)
    shown = {figure.name: figure for figure in figures(found)}
    assert shown["Privacy of a person"].value == f"ε={epsilon:g}, δ=1e-06"
    assert f"an AUC above {most:.2f}" in shown["Privacy of a person"].sentence
    assert "knows one whole row and every other row" in shown["Membership of a row"].sentence
    assert type(found).from_json(found.to_json()) == found
