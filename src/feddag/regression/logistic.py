"""How well a set of parents explains a discrete variable: the evidence of a multinomial logistic regression.

The logarithms of the levels' probabilities are, up to a constant in each row,

    K a + D Wᵀφ,    a ~ N(0, INTERCEPT_VARIANCE),    W ~ N(0, v),

where φ holds functions of the parents. The columns of K are orthonormal contrasts of all levels, and so are those of D
where the variable is categorical: then the order of the levels does not matter. Where it is ordinal, D is their one
linear trend (the adjacent-categories logit); a binary variable is both. A family's score is the negative log-evidence
per row by Laplace's approximation, averaged over a few v and over how many of the functions are used. It is that of a
probability, where a continuous variable's is that of a density: each child's score is compared with its own only, and
sums of both are compared between graphs over the same variables.

Levels that a site has never seen are none to it, and a variable that is constant there tells nothing of its causes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve

from feddag.regression.evidence import average_evidence
from feddag.regression.features import contrasts
from feddag.silos.variable_types import Kind

VARIANCES = (0.1, 1.0, 10.0)
"""The v."""
INTERCEPT_VARIANCE = 10.0
MOST_JOINT_FUNCTIONS = 40
"""The largest number: a level says less than a number, and each number of functions is a regression of its own."""

_ITERATIONS = 100
_DECREMENT = 1e-10
"""Newton's method ends where the next step promises to raise the log-posterior by less than half of it."""


class Levels(NamedTuple):
    """A discrete variable at one site."""

    codes: Int[np.ndarray, " row"]
    """The number of each row's level among those that occur."""
    shifts: Float[np.ndarray, "level shift"]
    """K."""
    directions: Float[np.ndarray, "level direction"]
    """D."""

    @classmethod
    def of(cls, values: Float[np.ndarray, " row"], kind: Kind) -> Levels:
        """Read the levels that occur in a column."""
        present, codes = np.unique(values, return_inverse=True)
        shifts = contrasts(len(present))
        if kind.name != "ordinal" or len(present) < 2:
            return cls(codes, shifts, shifts)
        trend = present - present.mean()
        return cls(codes, shifts, (trend / np.linalg.norm(trend))[:, None])

    @property
    def constant(self) -> bool:
        """Say whether there is one level alone."""
        return len(self.shifts) == 1

    def indicators(self) -> Float[np.ndarray, "row level"]:
        """Return an indicator of each level."""
        return np.eye(len(self.shifts))[self.codes]


class LogisticRegression(NamedTuple):
    """A regression of the levels on the parents' functions, at the most likely parameters."""

    log_evidence: float
    parameters: Float[np.ndarray, " parameter"]
    """a, then W by functions."""
    row_log_likelihoods: Float[np.ndarray, " row"]


class LevelsFit(NamedTuple):
    """The score of a discrete variable given its parents."""

    score: float
    row_log_likelihoods: Float[np.ndarray, " row"]
    """By the best regression. They never leave a site."""


def fit_levels(features: Float[np.ndarray, "row feature"], levels: Levels, ends: list[int]) -> LevelsFit:
    """Average the evidence over all v and over all of `ends`, where the layers of features end."""
    rows = len(levels.codes)
    if levels.constant:
        return LevelsFit(0.0, np.zeros(rows))
    found: list[LogisticRegression] = []
    start = np.zeros(levels.shifts.shape[1])
    for end in dict.fromkeys(ends):
        for variance in VARIANCES if end else VARIANCES[:1]:
            found.append(fit_regression(features[:, :end], levels, variance, start))
            start = found[-1].parameters
    scores = np.array([-each.log_evidence / rows for each in found])
    return LevelsFit(float(average_evidence(scores, rows)), found[int(scores.argmin())].row_log_likelihoods)


def fit_regression(
    features: Float[np.ndarray, "row feature"],
    levels: Levels,
    variance: float,
    start: Float[np.ndarray, " fewer"] | None = None,
) -> LogisticRegression:
    """Fit a regression: climb to the highest log-posterior, from `start`."""
    precision = precisions(levels, features.shape[1], variance)
    theta = np.zeros(len(precision))
    if start is not None:
        theta[: len(start)] = start
    theta, evidence = climb(lambda theta: LogLikelihood.at(theta, features, levels), precision, theta)
    logs = log_probabilities(features, levels, theta)
    return LogisticRegression(evidence, theta, logs[np.arange(len(features)), levels.codes])


class LogLikelihood(NamedTuple):
    """The log-likelihood of some parameters and its derivatives: sums over rows."""

    value: float
    gradient: Float[np.ndarray, " parameter"]
    curvature: Float[np.ndarray, "parameter parameter"]
    """Minus its second derivatives."""

    @classmethod
    def at(
        cls, theta: Float[np.ndarray, " parameter"], features: Float[np.ndarray, "row feature"], levels: Levels
    ) -> LogLikelihood:
        """Evaluate at some parameters."""
        logs, shifts = log_probabilities(features, levels, theta), levels.shifts.shape[1]
        probabilities = np.exp(logs)
        both = np.concatenate([levels.shifts, levels.directions], axis=1)
        slopes = (levels.indicators() - probabilities) @ both
        return cls(
            float(logs[np.arange(len(logs)), levels.codes].sum()),
            np.concatenate([slopes[:, :shifts].sum(axis=0), (features.T @ slopes[:, shifts:]).ravel()]),
            _curvature(features, probabilities, both, shifts),
        )


def climb(
    likelihood: Callable[[np.ndarray], LogLikelihood],
    precision: Float[np.ndarray, " parameter"],
    theta: Float[np.ndarray, " parameter"],
) -> tuple[Float[np.ndarray, " parameter"], float]:
    """Climb to the highest log-posterior by Newton's method; return it with the log-evidence by Laplace's formula."""

    def posterior(theta: np.ndarray) -> tuple[float, LogLikelihood]:
        found = likelihood(theta)
        return float(found.value - precision @ theta**2 / 2), found

    def factored(found: LogLikelihood) -> tuple[np.ndarray, bool]:
        return cho_factor(found.curvature + np.diag(precision), check_finite=False)

    value, found = posterior(theta)
    factor = factored(found)
    for _ in range(_ITERATIONS):
        gradient = found.gradient - precision * theta
        step = cho_solve(factor, gradient, check_finite=False)
        if gradient @ step < _DECREMENT:
            break
        size = 1.0
        while True:  # the log-posterior is concave: some part of the step raises it, but for rounding
            higher, found = posterior(theta + size * step)
            if higher >= value or size < _DECREMENT:
                break
            size /= 2
        theta, value, factor = theta + size * step, higher, factored(found)
    volume = np.log(precision).sum() / 2 - np.log(factor[0].diagonal()).sum()
    return theta, value + float(volume)


def precisions(levels: Levels, width: int, variance: float) -> Float[np.ndarray, " parameter"]:
    """Return the precisions of the parameters' priors."""
    count = levels.shifts.shape[1], width * levels.directions.shape[1]
    return np.repeat([1 / INTERCEPT_VARIANCE, 1 / variance], count)


def log_probabilities(
    features: Float[np.ndarray, "row feature"], levels: Levels, theta: Float[np.ndarray, " parameter"]
) -> Float[np.ndarray, "row level"]:
    """Return the logarithm of each level's probability in each row."""
    shifts = levels.shifts.shape[1]
    effects = features @ theta[shifts:].reshape(features.shape[1], levels.directions.shape[1])
    found = levels.shifts @ theta[:shifts] + effects @ levels.directions.T
    found -= found.max(axis=1, keepdims=True)
    return found - np.log(np.exp(found).sum(axis=1, keepdims=True))


def _curvature(
    features: Float[np.ndarray, "row feature"],
    probabilities: Float[np.ndarray, "row level"],
    both: Float[np.ndarray, "level column"],
    shifts: int,
) -> Float[np.ndarray, "parameter parameter"]:
    """Return minus the second derivatives of the log-likelihood."""
    width, directions = features.shape[1], both.shape[1] - shifts
    rows, columns = len(features), both.shape[1]
    means = probabilities @ both
    products = (both[:, :, None] * both[:, None, :]).reshape(-1, columns**2)
    # of each row, the covariance of the columns of K and D under its probabilities
    spread = (probabilities @ products).reshape(rows, columns, columns) - means[:, :, None] * means[:, None, :]
    found = np.empty((shifts + width * directions,) * 2)
    found[:shifts, :shifts] = spread[:, :shifts, :shifts].sum(axis=0)
    for shift in range(shifts):
        found[shift, shifts:] = (features.T @ spread[:, shift, shifts:]).ravel()
    found[shifts:, :shifts] = found[:shifts, shifts:].T
    for one in range(directions):
        for other in range(one, directions):
            block = features.T @ (features * spread[:, shifts + one, shifts + other, None])
            found[shifts + one :: directions, shifts + other :: directions] = block
            found[shifts + other :: directions, shifts + one :: directions] = block
    return found
