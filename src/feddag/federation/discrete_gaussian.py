"""Noise on whole numbers: the discrete Gaussian, drawn exactly from the system's randomness.

Noise that is computed in floating-point numbers has gaps that can give away what it hides (Mironov, CCS 2012). Here
answers are whole numbers and so is the noise: an integer z has a probability in proportion to exp(-z²/2σ²). The method
is that of Canonne, Kamath and Steinke ("The Discrete Gaussian for Differential Privacy", NeurIPS 2020): whole numbers
and comparisons of fractions only, nothing is rounded.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

WholeNoise = Callable[[int, int], Float[np.ndarray, " number"]]
"""Gives so many whole numbers of a discrete Gaussian with this σ, itself a whole number."""

Below = Callable[[int], int]
"""Draws a whole number from 0 to one less than the argument, each as likely as the others."""


def system_noise(count: int, deviation: int) -> Float[np.ndarray, " number"]:
    """Draw from the system's generator for keys, which nobody can foresee or reconstruct."""
    return np.array([draw(deviation, secrets.randbelow) for _ in range(count)], dtype=np.float64)


def simulated_noise(seed: int, position: int) -> WholeNoise:
    """Return noise from a seed, for simulations: whoever knows the seed can subtract it, so that it protects nobody."""
    rng = np.random.default_rng([seed, position])
    return lambda count, deviation: np.rint(deviation * rng.standard_normal(count))


def draw(deviation: int, below: Below) -> int:
    """Draw one number: from a discrete Laplace distribution, kept with the probability that makes it a Gaussian."""
    scale = deviation + 1
    while True:
        candidate = _laplace(scale, below)
        # exp(-(|z| - σ²/t)² / 2σ²) = exp(-(|z| t - σ²)² / 2σ²t²)
        above = (abs(candidate) * scale - deviation**2) ** 2
        if _occurs(above, 2 * deviation**2 * scale**2, below):
            return candidate


def _laplace(scale: int, below: Below) -> int:
    """Draw z with a probability in proportion to exp(-|z|/scale)."""
    while True:
        rest = below(scale)
        if not _occurs_once(rest, scale, below):
            continue
        whole = 0
        while _occurs_once(1, 1, below):
            whole += 1
        magnitude = rest + scale * whole
        negative = below(2) == 1
        if not (negative and magnitude == 0):  # else 0 would be drawn twice as often
            return -magnitude if negative else magnitude


def _occurs(numerator: int, denominator: int, below: Below) -> bool:
    """Return true with probability exp(-numerator/denominator)."""
    while numerator > denominator:
        if not _occurs_once(1, 1, below):
            return False
        numerator -= denominator
    return _occurs_once(numerator, denominator, below)


def _occurs_once(numerator: int, denominator: int, below: Below) -> bool:
    """Return true with probability exp(-numerator/denominator), a fraction of at most 1 (von Neumann's method)."""
    k = 1
    while below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def log_distance_of_sum(deviation: float, shares: int, numbers: int) -> float:
    """Return the logarithm of how far the sum of the sites' shares is from one discrete Gaussian, in total variation.

    The sum of discrete Gaussians is not quite one (Kairouz, Liu and Steinke, "The Distributed Discrete Gaussian
    Mechanism", ICML 2021): the ratio of the two probabilities is at most 1 + 10 Σₖ exp(-2π²σ²k/(k+1)) for each number.
    With σ in the thousands this is 0 for all purposes; the accounting adds it all the same.
    """
    if shares == 1:
        return -math.inf
    return math.log(10 * (shares - 1) * numbers) - math.pi**2 * deviation**2
