"""Attack a release with privacy of rows, as one who knows everything but whether one row was there."""

from __future__ import annotations

import numpy as np

from feddag.deployment.study_tasks import federated_learner
from feddag.disclosure.attack import Membership, area, caught
from feddag.disclosure.population import Population
from feddag.federation.discrete_gaussian import simulated_noise
from feddag.learners.private_search import ROUGH, PrivateSearch
from feddag.learners.search.released import frame_of
from feddag.regression.frames import FramedMap
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
    noise, columns = simulated_noise(seed, 0), silo.columns
    rows = Population(silo).draw(_ROWS, np.random.default_rng([seed, 2]))
    inside, outside = np.zeros(_ROWS), np.zeros(_ROWS)
    features = learner.features(columns)
    for spec in learner.releases(columns):
        plan = learner.plan(columns, len(study.sites), spec)
        deviation = round(plan.deviation)
        for place, row in enumerate(rows):
            moved = features.products(row[None])
            for scores, was_there in ((inside, 1.0), (outside, 0.0)):
                seen = was_there * moved + noise(len(moved), deviation)
                scores[place] += float((seen - moved / 2) @ moved) / deviation**2
        if spec is ROUGH:
            features = FramedMap.of(features, **frame_of(features, features.products(silo.values), 0.0))
    return Membership(area(inside, outside), caught(inside, outside), _ROWS)
