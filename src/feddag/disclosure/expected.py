"""How many numbers a study will have each site release, before any table is there; and whether a policy allows it.

A site counts the numbers that leave its table and ends where its policy says. Better to know so before a study begins.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from feddag import constraints
from feddag.deployment.study_tasks import federated_learner
from feddag.disclosure.figures import Disclosure
from feddag.disclosure.replay import record_course
from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.silos import Silo
from feddag.silos.interventions import target_mask
from feddag.study import Study

_MADE_UP_ROWS = 60
MOST_VARIABLES = 20
"""With more, a method whose questions depend on the data takes too long to be tried for one line of text."""
MOST_VARIABLES_AND_REPLICATES = 12
_SOONEST = 4
"""Methods of averaging seldom end before a quarter of their rounds."""


_WITH_GROUPS = 3
"""A method that looks for two groups of sites may learn from all, and then from each group."""


@dataclass(frozen=True)
class Expected:
    """What a study releases."""

    numbers: int
    """The numbers that leave each site, inside sums."""
    at_most: bool
    """Whether there may be fewer, as the study may end earlier."""

    @property
    def least(self) -> float:
        """Return how many numbers leave at least, as far as is known."""
        return self.numbers / _SOONEST if self.at_most else self.numbers

    def __str__(self) -> str:
        return f"{'at most' if self.at_most else 'about'} {self.numbers:,} numbers"


def expected_release(study: Study) -> Expected | None:
    """Return what a study releases, by its method's rounds or by a trial on made-up tables; `None` if that is long."""
    learner = federated_learner(study)
    if learner.most_rounds is None:
        if len(study.columns) > (MOST_VARIABLES_AND_REPLICATES if study.trust.bootstraps else MOST_VARIABLES):
            return None
        silos = [_made_up(study, site.name, place) for place, site in enumerate(study.sites)]
        numbers = record_course(study, silos).numbers
        if learner.fewest_in_group is None:
            return Expected(numbers, at_most=False)
        return Expected(_WITH_GROUPS * numbers, at_most=True)  # made-up sites are alike
    specs = learner.tasks(study.columns, len(study.sites)).values()
    sizes = [sum(math.prod(map(int, bounds.shape)) for bounds in spec.arrays.values()) for spec in specs]
    combinations = len(constraints.combinations(study.trust.grid)) if study.trust.grid else 0
    fits = 1 + study.trust.bootstraps + combinations
    return Expected(max(sizes) * learner.most_rounds * fits, at_most=True)


def describe_release(study: Study) -> list[str]:
    """Say how many numbers leave each site, and what policies must allow for it."""
    lines, rules, shared = [], Policy(), federated_learner(study).shares
    try:
        expected = expected_release(study)
    except FeddagError:  # made-up tables do not suit every study
        expected = None
    limit = rules.maximum_numbers_per_value
    if expected is not None and limit is not None:
        rows = math.ceil(expected.numbers / limit / len(study.columns))
        lines.append(
            f"numbers: {expected} leave each site, inside sums; a site with fewer than {rows:,} rows must set "
            f"maximum_numbers_per_value in its policy, which is {limit:g} by default"
        )
    if shared not in rules.sharing:
        named = json.dumps([*rules.sharing, shared])
        lines.append(f'sharing: "{shared}", which each site must allow by name in its policy: sharing = {named}')
    return lines


def check_budget(study: Study, found: Disclosure, policy: Policy, released: int) -> str | None:
    """Refuse to begin a study that the site would have to leave in the middle; return a warning if it may have to.

    Args:
        study: The study.
        found: What it releases about the site's table.
        policy: The site's own rules.
        released: The numbers that have left the table before.
    """
    limit, values = policy.maximum_numbers_per_value, (found.rows or 0) * (found.variables or 0)
    expected = Expected(found.numbers, at_most=False) if found.every_round else expected_release(study)
    if limit is None or not values or expected is None or released + expected.numbers <= limit * values:
        return None
    needed = (released + expected.numbers) / values
    message = (
        f"Site {found.site!r}: the study releases {expected}, and {released:,} have left the {values:,} values of this "
        f"table before: {needed:.3g} for each, and maximum_numbers_per_value is {limit:g} in {policy.source}"
    )
    remedy = f"Set maximum_numbers_per_value = {math.ceil(1.1 * needed)} there"
    if study.trust.bootstraps:
        remedy += f", or agree on fewer than trust.bootstraps = {study.trust.bootstraps}"
    remedy += ", or choose a method that asks for less."
    if released + expected.least <= limit * values:
        return f"{message}. The site may end before the study does. {remedy}"
    raise FeddagError(f"{message}: the site would end in the middle of the study. {remedy}")


def _made_up(study: Study, site: str, place: int) -> Silo:
    """Return a table whose columns depend on one another, so that the method has something to ask."""
    values = np.random.default_rng(place).normal(size=(_MADE_UP_ROWS, len(study.columns)))
    for column in range(1, values.shape[1]):
        values[:, column] += values[:, column - 1]
    kinds = tuple(variable.kind for variable in study.variables)
    for column, kind in enumerate(kinds):
        if kind.discrete:
            ranks = values[:, column].argsort().argsort()
            values[:, column] = ranks * len(kind.levels) // _MADE_UP_ROWS
    declared = study.site_interventions(site)
    targets = target_mask(site, study.columns, _MADE_UP_ROWS, declared, None)
    return Silo(site, study.columns, values, kinds, targets=targets, changed=declared.changed if declared else ())
