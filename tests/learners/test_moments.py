from __future__ import annotations

import numpy as np
import pytest

from feddag import simulate
from feddag.learners.sortnregress import SortnRegress

SIMULATION = simulate(4, mechanism="linear", sites=3, rows=[20, 50, 30], seed=5)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_the_moments_are_those_of_the_pooled_rows_wherever_their_mean_is(shift, monkeypatch):
    seen = []
    learn = SortnRegress.learn_moments
    monkeypatch.setattr(SortnRegress, "learn_moments", lambda *given: (seen.append(given[1]), learn(*given))[1])
    learned = SortnRegress().fit({silo.name: silo.to_frame() + shift for silo in SIMULATION.silos})

    rows = np.concatenate([silo.values for silo in SIMULATION.silos])
    assert (seen[0].rows, seen[0].columns) == (100, SIMULATION.truth.names)
    np.testing.assert_allclose(seen[0].covariance, np.cov(rows, rowvar=False, ddof=0), rtol=1e-8)
    assert learned.communication_.sent == dict.fromkeys(learned.sites_, 8 * (1 + 4 + 16))
    assert learned.communication_.received == dict.fromkeys(learned.sites_, 8 * 4)
