"""Whether all that a study would sum over a site's rows is over rows enough: the site's rule `minimum_cell`."""

from __future__ import annotations

from feddag.federation.policy import Policy
from feddag.silos import Silo
from feddag.silos.cells import count_levels, merge_text, propose_merge, rare_levels, unlike_the_others
from feddag.study import Study
from feddag.trust.sites import held_out_rows


def check_cells(study: Study, silo: Silo, policy: Policy) -> None:
    """Refuse a table in which a number that leaves would rest on fewer rows than the policy allows.

    Levels are counted here. Combinations of levels need no refusal: no task counts them, and a search at this site does
    not tell apart those with too few rows (`Silo.minimum_cell`). The counts are in the error, which is for the site's
    operator alone.
    """
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
