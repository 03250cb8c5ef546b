"""Attack a release with privacy of rows, as one who knows everything but whether one row was there."""

from __future__ import annotations

import numpy as np

from feddag.deployment.study_tasks import federated_learner
from feddag.disclosure.attack import Membership, area, caught
from feddag.disclosure.population import Population
from feddag.federation.discrete_gaussian import simulated_noise
from feddag.learners.private_search import PrivateSearch
from feddag.silos import Silo
from feddag.study import Study

_ROWS = 400


def release_membership(study: Study, silo: Silo, *, seed: int) -> Membership:
    """Look for rows in noisy releases, with the likelihood ratio: no attack on a release does better.

    The attacker knows every other row of all sites, so that only the noise is between them and the row.

    Args:
        study: A study with privacy of rows.
        silo: The site's table; the rows are made up to be like its own.
        seed: The rows and the noise are a function of it.
    """
    learner = federated_learner(study)
    assert isinstance(learner, PrivateSearch)
    features, plan = learner.features(silo.columns), learner.plan(silo.columns, len(study.sites))
    noise = simulated_noise(seed, 0)
    inside, outside = [], []
    for row in Population(silo).draw(_ROWS, np.random.default_rng([seed, 2])):
        moved = features.products(row[None])
        for scores, was_there in ((inside, 1.0), (outside, 0.0)):
            seen = was_there * moved + noise(len(moved), round(plan.deviation))
            scores.append(float((seen - moved / 2) @ moved))
    return Membership(area(np.array(inside), np.array(outside)), caught(np.array(inside), np.array(outside)), _ROWS)
