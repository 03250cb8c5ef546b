"""How sure a difference of scores is: what a site answers, and the standard error that the server finds from sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from feddag.federation.protocol import Arrays
from feddag.federation.tasks import Output

SPREAD = {
    "row_first": Output("for each comparison the mean difference per row", ("comparison",)),
    "row_second": Output("for each comparison the mean square of the difference per row", ("comparison",)),
    "site_first": Output("for each comparison the site's difference times its rows", ("comparison",)),
    "site_second": Output("for each comparison the square of the site's difference times its rows", ("comparison",)),
    "site_rows": Output("the number of rows"),
}
"""The declaration of what `spread` returns."""


def row_losses(
    residuals: Float[np.ndarray, "row family"], variances: Float[np.ndarray, " family"]
) -> Float[np.ndarray, "row family"]:
    """Return the negative log-likelihood of every row, per family. It never leaves a site: see `spread`."""
    return 0.5 * (np.log(variances) + residuals**2 / variances)


def spread(
    site: Float[np.ndarray, " comparison"], rows: Float[np.ndarray, "row comparison"], count: int
) -> dict[str, np.ndarray]:
    """Return what a server needs of one site, in sums over sites, for `standard_error`.

    Args:
        site: The site's own differences.
        rows: The differences in each row, or in some of many.
        count: The number of the site's rows.
    """
    return {
        "row_first": rows.mean(axis=0),
        "row_second": (rows**2).mean(axis=0),
        **spread_of_site(site, count),
    }


def spread_of_site(site: Float[np.ndarray, " comparison"], count: int) -> dict[str, np.ndarray]:
    """Return what a server needs of one site's differences for the standard error over sites alone."""
    return {
        "site_first": count * site,
        "site_second": count * site**2,
        "site_rows": np.array(float(count)),
    }


class StandardErrors(NamedTuple):
    """The standard errors of differences."""

    over_rows: Float[np.ndarray, " comparison"]
    """If these sites had drawn other rows."""
    over_sites: Float[np.ndarray, " comparison"]
    """If there were other sites of the same kind."""


def errors_of_differences(
    answer: Arrays, mean: Float[np.ndarray, " comparison"], rows: float, sites: int
) -> StandardErrors:
    """Return the standard errors of differences.

    Args:
        answer: The weighted mean over sites of what `spread` returns.
        mean: The differences around which sites vary.
        rows: The number of rows of all sites.
        sites: The number of sites.
    """
    over_rows = (answer["row_second"] - answer["row_first"] ** 2) / rows
    return StandardErrors(np.sqrt(np.maximum(over_rows, 0.0)), error_over_sites(answer, rows, sites, mean))


def error_over_sites(
    answer: Arrays, rows: float, sites: int, mean: Float[np.ndarray, " comparison"] | None = None
) -> Float[np.ndarray, " comparison"]:
    """Return the standard errors of differences if there were other sites of the same kind.

    Sites vary around their own mean unless another is given. Sites whose experiments set or changed a variable of the
    comparison differ by design, and are left out.
    """
    site_rows = answer.get("alike_rows", answer["site_rows"])
    if mean is None or "alike_rows" in answer:
        mean = answer["site_first"] / np.maximum(site_rows, 1e-9)
    answer = {**answer, "site_rows": site_rows}
    # Σ wₖ² (Δₖ − Δ)², where wₖ is a site's share of the rows, and Δ the mean
    between = (answer["site_second"] - 2 * mean * answer["site_first"] + mean**2 * answer["site_rows"]) / rows
    return np.sqrt(np.maximum(between * sites / max(sites - 1, 1), 0.0))
