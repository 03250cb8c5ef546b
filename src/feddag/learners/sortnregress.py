"""Sort the variables, and regress each on those before it: what a benchmark gives away to those who look at its scales.

By variance (Reisach et al., "Beware of the simulated DAG!", NeurIPS 2021), or by R², how well all other variables
explain it (Reisach et al., "A scale-invariant sorting criterion to find a causal order in additive noise models",
NeurIPS 2023). The regression is the authors': an adaptive lasso whose penalty the BIC chooses.

A sanity check, no method of discovery: data on which it does well say little about methods that do as well. Do not
read causes into its graph.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from sklearn.linear_model import lars_path_gram

from feddag import constraints
from feddag.graphs import CausalGraph
from feddag.learners.moments import FromMoments
from feddag.learners.single_pass import Note, check_covariance, check_rank
from feddag.regression.moments import Moments
from feddag.silos import CheckedSilos


class SortnRegress(FromMoments):
    """Sort the variables by a criterion, and regress each on its predecessors.

    Args:
        sort_by: `"variance"`, or `"r2"`, which does not depend on the units of the columns.

    Attributes:
        edge_scores_: Each edge's |coefficient|.
    """

    parameter_constraints: ClassVar = {"sort_by": constraints.one_of(("variance", "r2"))}

    def __init__(self, sort_by: Literal["variance", "r2"] = "variance") -> None:
        self.sort_by = sort_by

    def check(self, silos: Any) -> CheckedSilos:
        """Check the tables, and that no column is a linear function of others."""
        silos = super().check(silos)
        check_rank(silos)
        return silos

    def learn_moments(self, moments: Moments, note: Note) -> CausalGraph:
        """Sort the variables, and regress each on those before it."""
        covariance = moments.covariance
        check_covariance(covariance, moments.rows, moments.columns, "All sites together")
        order = np.argsort(covariance.diagonal() if self.sort_by == "variance" else r2(covariance))
        scores = np.zeros(covariance.shape)
        for k in range(1, len(order)):
            before, node = order[:k], order[k]
            scores[before, node] = np.abs(_regression(covariance, before, node, moments.rows))
        return CausalGraph(scores > 0, moments.columns, scores)


def r2(covariance: Float[np.ndarray, "node node"]) -> Float[np.ndarray, " node"]:
    """Return the share of each variable's variance that a regression on all others explains."""
    return 1 - 1 / (covariance.diagonal() * np.linalg.inv(covariance).diagonal())


def _regression(
    covariance: Float[np.ndarray, "node node"], before: np.ndarray, node: int, rows: int
) -> Float[np.ndarray, " before"]:
    """Fit an adaptive lasso, as scikit-learn's `LassoLarsIC(criterion="bic")` does from rows."""
    products = covariance[np.ix_(before, before)] * rows
    with_node = covariance[before, node] * rows
    own = covariance[node, node] * rows
    unpenalised = np.linalg.solve(products, with_node)
    variance = (own - with_node @ unpenalised) / (rows - len(before) - 1)
    scale = np.abs(unpenalised)
    products, with_node = scale[:, None] * products * scale, scale * with_node
    # it ends the path at a tolerance that knows no units; a power of two costs no digit
    unit = 2.0 ** np.round(np.log2(own / rows))
    _, _, path = lars_path_gram(with_node / unit, products / unit, n_samples=rows, method="lasso", alpha_min=0)
    path[np.abs(path) <= np.finfo(float).eps] = 0
    squares = own - 2 * with_node @ path + np.sum(path * (products @ path), axis=0)
    bic = squares / variance + np.log(rows) * np.count_nonzero(path, axis=0)
    return path[:, np.argmin(bic)] * scale
