"""Which sites follow the mechanism that most sites have: judged by straight lines, from sums over sites.

Sites whose mechanisms differ in a few variables tell directions: in the true one few sites differ, and in the wrong one
a changed cause makes its effect look changed, too. So a family is scored with one common mechanism (a straight line: an
intercept, slopes, and the variance of the noise), which each site follows or not. By each site's choice it follows all
of it, has an intercept of its own, or an intercept and noise of its own, or all of its own.

The common mechanism is a *centre* that sites pull towards their own one, in a few rounds, each with a force that has a
bound (the weights of a Cauchy distribution): a site that differs by much moves it less than one that differs by little.
So sums over all sites suffice: no site is left out of any sum, and no two sums differ by one site.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from feddag.regression.evidence import LEAST_VARIANCE, RIDGES
from feddag.regression.features import LINEAR_WEIGHT

_RIDGE = 1 / LINEAR_WEIGHT**2
"""The prior's precision of an intercept, in units of the noise."""
_RIDGES = tuple(ridge * _RIDGE for ridge in RIDGES)
"""The prior's precisions of slopes, over which evidence is averaged as in the other regressions."""
_FOLLOWS = 0.8
"""The prior probability that a site follows the common mechanism; the three ways to differ share the rest."""
_WEIGHTS = np.array([_FOLLOWS, *[(1 - _FOLLOWS) / 3] * 3])
_SURE_ODDS = 19.0
"""The odds from which on a site surely differs."""
_FAR = 2.0
"""A site this far from the centre, in standard errors of its own mechanism, has half the weight of a near one."""
_FARTHEST = 4.0
"""Values farther from the mean, in deviations of all rows, count as so far: no row moves a line by much."""
PULLS = 4
"""Rounds in which sites pull the centre."""
_RIDGE_OF_STEP = 1e-6
_LEAST_SHARE = 1e-9
"""Directions of so small a share of the largest variance are those that a site's rows do not tell."""
_LEAST_NOISE = 1e-4
"""The least share of noise in a variable's variance."""
_LEAST_SPREAD = 0.1
"""The least variance of squared residuals, in squares of their mean: that of normal ones is 2."""


class Lines(NamedTuple):
    """The mechanisms of families as straight lines; slopes of variables that are no parents are 0."""

    parents: Bool[np.ndarray, "family node"]
    intercepts: Float[np.ndarray, " family"]
    log_variances: Float[np.ndarray, " family"]
    slopes: Float[np.ndarray, "family node"]

    @classmethod
    def of_all(
        cls,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        spread: Float[np.ndarray, "node node"],
    ) -> Lines:
        """Return where centres begin: the lines that the mean covariances within sites tell."""
        slopes = _slopes(children, parents, spread, _RIDGE_OF_STEP)
        left = spread[children, children] - (slopes * spread[children]).sum(axis=1)
        return cls(parents, np.zeros(len(parents)), np.log(np.maximum(left, LEAST_VARIANCE)), slopes)


class Pull(NamedTuple):
    """How a site pulls the centres of families, per row, and with what weight."""

    levels: Float[np.ndarray, "family level"]
    """The weighted differences of intercept and logarithm of the variance."""
    level_weights: Float[np.ndarray, " family"]
    slopes: Float[np.ndarray, "family node"]
    """The weighted gradient of the log-likelihood."""
    slope_weights: Float[np.ndarray, " family"]

    def move(self, lines: Lines, spread: Float[np.ndarray, "node node"]) -> Lines:
        """Move centres by the mean pull of all sites.

        Args:
            lines: The centres.
            spread: The covariances of the variables within sites, all sites' mean.
        """
        levels = self.levels / _at_least(self.level_weights)[:, None]
        members = lines.parents
        slopes, width = lines.slopes.copy(), _width(members, spread)
        pulled = self.slopes * (width / _at_least(self.slope_weights))[:, None]
        for families, chosen in _of_equal_size(members):
            system = spread[chosen[:, :, None], chosen[:, None, :]] + _RIDGE_OF_STEP * np.eye(chosen.shape[1])
            gradient = pulled[families[:, None], chosen]
            slopes[families[:, None], chosen] += np.linalg.solve(system, gradient[..., None])[..., 0]
        return lines._replace(
            intercepts=lines.intercepts + levels[:, 0], log_variances=lines.log_variances + levels[:, 1], slopes=slopes
        )


class Agreement(NamedTuple):
    """By how much common lines make a site's rows likelier than lines of its own, as logarithm."""

    some: Float[np.ndarray, " family"]
    """If the site may follow them or not."""
    every: Float[np.ndarray, " family"]
    """If it must, as all others must."""


class _Residuals(NamedTuple):
    """Sums over rows of what slopes leave: of it and of its square."""

    first: Float[np.ndarray, " family"]
    second: Float[np.ndarray, " family"]


def caution(values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, " node"]:
    """Return for each variable how much less its rows tell about a variance than normal ones: more with long tails."""
    spread = np.maximum(np.var(values, axis=0), LEAST_VARIANCE)
    kurtosis = ((values - values.mean(axis=0)) ** 4).mean(axis=0) / spread**2
    return np.maximum(1.0, (kurtosis - 1) / 2)


class SiteLines:
    """The straight lines of one site, from sums of products of its columns in the common frame."""

    def __init__(self, values: Float[np.ndarray, "row node"]) -> None:
        values = np.clip(values, -_FARTHEST, _FARTHEST)
        self._columns = np.column_stack([np.ones(len(values)), values])
        self._products = self._columns.T @ self._columns
        self.covariances = np.cov(values.T, bias=True).reshape(values.shape[1], -1)
        """The covariances of the columns."""
        self.rows = len(values)
        self._caution = caution(values)

    def levels(self) -> Float[np.ndarray, " node"]:
        """Return the negative log-evidence per row of each variable by itself, beyond that of variance 1 and mean 0.

        It brings scores of standardised columns to the common frame, with the price of a mean and a variance.
        """
        sums = _Residuals(self._products[0, 1:], self._products.diagonal()[1:])
        return -self._own_levels(sums) / self.rows - 0.5 * (np.log(2 * np.pi) + 1)

    def pull(self, children: Int[np.ndarray, " family"], centre: Lines) -> Pull:
        """Pull the centres of families towards this site's own lines."""
        parents = centre.parents
        own = _slopes(children, parents, self.covariances, _RIDGE / self.rows)
        sums, at_best = self._residuals(children, centre.slopes), self._residuals(children, own)
        variance, least = self._variance(sums), self._variance(at_best)
        intercepts, log_variances = sums.first / self.rows, np.log(variance)
        excess = self.rows * (variance / least - 1)
        slope_weights = _weights(excess, np.maximum(parents.sum(axis=1), 1)) / least
        of_parents = _width(parents, self.covariances)  # where parents hardly vary, rows hardly tell a slope
        gap = 2 * (self._log_likelihood(sums, intercepts, log_variances) - self._follow(sums, centre))
        level_weights = _weights(gap, np.full(len(children), 2))
        differences = np.column_stack([intercepts - centre.intercepts, log_variances - centre.log_variances])
        return Pull(
            level_weights[:, None] * differences,
            level_weights,
            (slope_weights / self.rows)[:, None] * self._gradients(children, parents, centre.slopes),
            slope_weights * of_parents,
        )

    def _gradients(
        self,
        children: Int[np.ndarray, " family"],
        parents: Bool[np.ndarray, "family node"],
        slopes: Float[np.ndarray, "family node"],
    ) -> Float[np.ndarray, "family node"]:
        """Return the products of each parent with what slopes leave of the child, whatever the intercept."""
        return self.rows * np.where(parents, self.covariances[children] - slopes @ self.covariances, 0.0)

    def agreement(self, children: Int[np.ndarray, " family"], centre: Lines) -> Agreement:
        """Measure how well this site follows common lines."""
        ways = self._ways(children, centre)
        return Agreement(np.asarray(logsumexp(ways, axis=0, b=_WEIGHTS[:, None])), ways[0])

    def differs(self, children: Int[np.ndarray, " family"], centre: Lines) -> Bool[np.ndarray, " family"]:
        """Say in which families this site surely does not follow common lines."""
        ways = self._ways(children, centre)
        others = logsumexp(ways[1:], axis=0, b=_WEIGHTS[1:, None])
        return np.asarray(others - ways[0] - np.log(_FOLLOWS) > np.log(_SURE_ODDS))

    def distance(self, child: int, centre: Lines) -> float:
        """Return how far this site's own line is from a common one: by chance the number of its parameters.

        The variances of its parameters are those of any noise (White's), so that a mechanism that is no straight line,
        or noise of any shape, is no distance. Nor is anything where there is hardly any noise: of a column that others
        tell, rounding is left.
        """
        parents = np.flatnonzero(centre.parents)
        columns = self._columns[:, [0, *(1 + parents)]]
        weights = np.linalg.inv(columns.T @ columns + _RIDGE_OF_STEP * np.eye(columns.shape[1])) @ columns.T
        line = weights @ self._columns[:, 1 + child]
        residuals = self._columns[:, 1 + child] - columns @ line
        gap = line - np.array([centre.intercepts, *centre.slopes[parents]])
        covariances = (weights * residuals**2) @ weights.T
        variance = float(np.mean(residuals**2))
        if variance <= _LEAST_NOISE * float(np.var(self._columns[:, 1 + child])):
            return 0.0
        of_variance = max(float(np.mean(residuals**4)) / variance**2 - 1, _LEAST_SPREAD) / self.rows
        of_line = gap @ np.linalg.pinv(covariances, rcond=_LEAST_SHARE, hermitian=True) @ gap
        of_noise = (np.log(variance) - centre.log_variances) ** 2 / of_variance
        return float(of_line + of_noise) * max(1 - columns.shape[1] / self.rows, 0.0)

    def _ways(self, children: Int[np.ndarray, " family"], centre: Lines) -> Float[np.ndarray, "way family"]:
        """Return the evidence of following a line, and of the three ways to differ, over that of a line of its own."""
        sums = self._residuals(children, centre.slopes)
        variances, rows = np.exp(centre.log_variances), self.rows
        own = self.evidence(children, centre.parents)
        own_intercept = (
            -0.5 * rows * np.log(2 * np.pi * variances)
            - 0.5 * np.log1p(rows / _RIDGE)
            - (sums.second - sums.first**2 / (rows + _RIDGE)) / (2 * variances)
        )
        follow = self._follow(sums, centre)
        return (np.stack([follow, own_intercept, self._own_levels(sums), own]) - own) / self._caution[children]

    def evidence(
        self, children: Int[np.ndarray, " family"], parents: Bool[np.ndarray, "family node"]
    ) -> Float[np.ndarray, " family"]:
        """Return the log-evidence of this site's own lines."""
        evidence = np.empty((len(_RIDGES), len(children)))
        for families, members in _of_equal_size(parents):
            columns = np.column_stack([np.zeros(len(families), dtype=int), 1 + members])
            child = 1 + children[families]
            products = self._products[columns[:, :, None], columns[:, None, :]]
            cross, total = self._products[columns, child[:, None]], self._products[child, child]
            for k, ridge in enumerate(_RIDGES):
                prior = np.array([_RIDGE, *[ridge] * members.shape[1]])
                system = products + np.diag(prior)
                left = total - (cross * np.linalg.solve(system, cross[..., None])[..., 0]).sum(axis=1)
                volume = np.linalg.slogdet(system)[1] - np.log(prior).sum()
                evidence[k, families] = self._marginal(volume, left)
        return logsumexp(evidence, axis=0) - np.log(len(_RIDGES))

    def _residuals(self, children: Int[np.ndarray, " family"], slopes: Float[np.ndarray, "family node"]) -> _Residuals:
        weights = np.column_stack([np.zeros(len(children)), -slopes])
        weights[np.arange(len(children)), 1 + children] = 1.0
        return _Residuals(weights @ self._products[0], ((weights @ self._products) * weights).sum(axis=1))

    def _variance(self, sums: _Residuals) -> Float[np.ndarray, " family"]:
        return np.maximum(sums.second / self.rows - (sums.first / self.rows) ** 2, LEAST_VARIANCE)

    def _follow(self, sums: _Residuals, centre: Lines) -> Float[np.ndarray, " family"]:
        return self._log_likelihood(sums, centre.intercepts, centre.log_variances)

    def _log_likelihood(
        self, sums: _Residuals, intercepts: Float[np.ndarray, " family"], log_variances: Float[np.ndarray, " family"]
    ) -> Float[np.ndarray, " family"]:
        squares = sums.second - 2 * intercepts * sums.first + self.rows * intercepts**2
        return -0.5 * self.rows * (np.log(2 * np.pi) + log_variances) - 0.5 * squares * np.exp(-log_variances)

    def _own_levels(self, sums: _Residuals) -> Float[np.ndarray, " family"]:
        """Return the log-evidence of an intercept and a variance of this site's own, given slopes."""
        left = sums.second - sums.first**2 / (self.rows + _RIDGE)
        return self._marginal(np.full(len(left), np.log1p(self.rows / _RIDGE)), left)

    def _marginal(
        self, volume: Float[np.ndarray, " family"], left: Float[np.ndarray, " family"]
    ) -> Float[np.ndarray, " family"]:
        """Return the log-evidence of normal noise of any variance: at its best value, with the price of finding it."""
        variance = np.maximum(left / self.rows, LEAST_VARIANCE)
        return -0.5 * (self.rows * (np.log(2 * np.pi * variance) + 1) + volume + np.log(self.rows))


def price(centre: Lines, rows: float) -> Float[np.ndarray, " family"]:
    """Return the negative log-evidence that a common mechanism costs, whoever follows it.

    A parent costs the logarithm of the number of variables besides: there are so many that might be one.
    """
    counts, precision = centre.parents.sum(axis=1), np.exp(-centre.log_variances)
    squares = (centre.slopes**2).sum(axis=1) * precision
    of_slopes = [0.5 * (counts * np.log1p(rows / ridge) + ridge * squares) for ridge in _RIDGES]
    of_levels = 0.5 * (np.log1p(rows / _RIDGE) + np.log(rows) + _RIDGE * centre.intercepts**2 * precision)
    of_choice = counts * np.log(centre.parents.shape[1])
    return of_levels + of_choice - logsumexp(-np.array(of_slopes), axis=0) + np.log(len(_RIDGES))


def _slopes(
    children: Int[np.ndarray, " family"],
    parents: Bool[np.ndarray, "family node"],
    covariances: Float[np.ndarray, "node node"],
    ridge: float,
) -> Float[np.ndarray, "family node"]:
    """Return the slopes of families' straight lines, from covariances."""
    slopes = np.zeros(parents.shape)
    for families, chosen in _of_equal_size(parents):
        system = covariances[chosen[:, :, None], chosen[:, None, :]] + ridge * np.eye(chosen.shape[1])
        cross = covariances[chosen, children[families, None]]
        slopes[families[:, None], chosen] = np.linalg.solve(system, cross[..., None])[..., 0]
    return slopes


def _of_equal_size(
    parents: Bool[np.ndarray, "family node"],
) -> Iterator[tuple[Int[np.ndarray, " chosen"], Int[np.ndarray, "chosen parent"]]]:
    """Take families with as many parents together, with the positions of these."""
    sizes = parents.sum(axis=1)
    for size in np.unique(sizes).tolist():
        families = np.flatnonzero(sizes == size)
        yield families, np.nonzero(parents[families])[1].reshape(len(families), size)


def _width(
    parents: Bool[np.ndarray, "family node"], spread: Float[np.ndarray, "node node"]
) -> Float[np.ndarray, " family"]:
    """Return the mean variance of each family's parents; 1 without any."""
    counts = parents.sum(axis=1)
    return np.where(counts > 0, (parents @ spread.diagonal()) / np.maximum(counts, 1), 1.0)


def _at_least(weights: Float[np.ndarray, " family"]) -> Float[np.ndarray, " family"]:
    """Keep weights from 0: where no site pulls, a centre stays."""
    return np.maximum(weights, 1e-12)


def _weights(
    gaps: Float[np.ndarray, " family"], parameters: Int[np.ndarray, " family"]
) -> Float[np.ndarray, " family"]:
    """Weigh a site's pull so that it has a bound, from twice the log-likelihood that following would cost."""
    return 1 / (1 + np.maximum(gaps, 0.0) / (parameters * _FAR**2))
