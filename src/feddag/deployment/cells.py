"""Whether all that a study would sum over a site's rows is over rows enough: the site's rule `minimum_cell`."""

from __future__ import annotations

from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.silos import Silo
from feddag.silos.cells import count_levels, merge_text, propose_merge, rare_levels, unlike_the_others
from feddag.silos.interventions import FEWEST_ROWS
from feddag.study import Study
from feddag.trust.sites import held_out_rows


def check_cells(study: Study, silo: Silo, policy: Policy) -> None:
    """Refuse a table in which a number that leaves would rest on fewer rows than the policy allows.

    Levels are counted here. Combinations of levels need no refusal: no task counts them, and a search at this site does
    not tell apart those with too few rows (`Silo.minimum_cell`). The counts are in the error, which is for the site's
    operator alone.
    """
    if study.privacy.secure_sum and max(policy.minimum_sites, study.federation.minimum_sites) > 1:
        _check_own_experiments(study, silo, policy)
    _check_levels(study, silo, policy)
    for name, rows in unlike_the_others(silo).items():
        found = f"{name!r} has one value in all but {_rows(rows)}"
        policy.check_cell(rows, found, f"Have the study leave out {name!r}")
    if study.trust.assess or study.trust.mechanisms or study.trust.grid:
        rows = held_out_rows(silo.rows)
        found = f"the checks of the graph lay aside {_rows(rows)} of {silo.rows}"
        policy.check_cell(
            rows, found, "Have the study do without trust.assess, mechanisms and grid, or take part with more rows"
        )


def check_experiments(study: Study, fewest: int) -> None:
    """Refuse a study in which sums would be about few sites, since experiments set a variable at all others."""
    if not study.privacy.secure_sum or fewest < 2:
        return
    for name in study.columns:
        free = [site.name for site in study.sites if name not in site.interventions.experimental]
        if len(free) < min(fewest, len(study.sites)):
            raise FeddagError(
                f"{study.source}: experiments set or changed {name!r} at all sites but {', '.join(free)}, so that sums "
                f"about its causes would be about {len(free)} site{'s' * (len(free) > 1)}, and {fewest} are the fewest "
                f"that are allowed. Name more sites, leave out {name!r}, or agree on minimum_sites = {len(free)} in "
                "the study's [federation] and in all policies."
            )


def experiments_together(study: Study, fewest: int) -> tuple[str, ...]:
    """Return the variables of which no sum may part sites with experiments from others, as either would be few.

    Sums of all sites and of those without experiments tell, held against each other, about those with them; and where
    several variables part sites in several ways, about those that are on one side of one alone.
    """
    if not study.privacy.secure_sum or fewest < 2:
        return ()
    at = {name: study.experimental_sites(name) for name in study.columns}
    parts = {sites for sites in at.values() if sites}
    by_rows = any(site.interventions.column for site in study.sites)  # the study does not tell which variables
    if not by_rows and len(parts) < 2 and all(fewest <= len(part) <= len(study.sites) - fewest for part in parts):
        return ()
    return tuple(name for name, sites in at.items() if sites)


def _check_own_experiments(study: Study, silo: Silo, policy: Policy) -> None:
    """Refuse a table in which rows set a variable nearly everywhere, and the study does not say so; or in few rows."""
    if silo.targets is None:
        return
    declared = study.site(silo.name).interventions.intervened
    for name, free in zip(silo.columns, (~silo.targets).sum(axis=0).tolist(), strict=True):
        if free < FEWEST_ROWS and name not in declared:
            raise FeddagError(
                f"Site {silo.name!r}: experiments set {name!r} in all rows but {free}, so that this site says nothing "
                f"of its causes, and the study does not show it. Have the study say sites.{silo.name}.intervened = "
                f'["{name}"].'
            )
        if free < silo.rows:
            policy.check_cell(
                silo.rows - free,
                f"experiments set {name!r} in {_rows(silo.rows - free)}",
                "Leave these rows out of the table, or the column that names their targets out of the study",
            )


def _check_levels(study: Study, silo: Silo, policy: Policy) -> None:
    found, remedies, fewest = [], [], policy.minimum_cell
    counts = count_levels(silo)
    for variable in (each for each in study.variables if each.kind.discrete):
        rare = rare_levels(counts[variable.name], policy.minimum_cell)
        if not rare:
            continue
        levels = " and ".join(f"{level!r} in {_rows(count)}" for level, count in rare.items())
        found.append(f"{variable.name!r} has the level {levels}")
        merge = propose_merge(variable, counts[variable.name], policy.minimum_cell)
        remedies.append(
            f"leaves out {variable.name!r}" if merge is None else f"has {merge_text(merge)} for {variable.name!r}"
        )
        fewest = min(fewest, *rare.values())
    policy.check_cell(fewest, "; ".join(found), f"Agree with all sites on a study that {' and '.join(remedies)}")


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
