"""How a node follows from its parents: the functions of the FedDAG paper's appendix "SEM simulation".

They are those of NOTEARS-MLP (Zheng et al., "Learning Sparse Nonparametric DAGs", 2020). A new one is a class
with `draw` and `__call__`, and its row in `MECHANISMS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from feddag.silos.simulation.gaussian_process import sample_gaussian_process

Parents = Float[np.ndarray, "row parent"]
Signal = Float[np.ndarray, " row"]


@runtime_checkable
class Mechanism(Protocol):
    """One random function of one node's parents."""

    @classmethod
    def draw(cls, parents: int, rng: np.random.Generator) -> Mechanism:
        """Draw a random mechanism for so many parents."""
        ...

    def __call__(self, X: Parents, /) -> Signal:
        """Compute the child's noiseless values."""
        ...


def signed_uniform(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Draw uniformly from [−2, −0.5] ∪ [0.5, 2]: no weight so small that its edge could not be seen."""
    return rng.choice((-1.0, 1.0), size=shape) * rng.uniform(0.5, 2.0, size=shape)


@dataclass(frozen=True, eq=False)
class Linear:
    """A weighted sum of the parents."""

    weights: Float[np.ndarray, " parent"]

    @classmethod
    def draw(cls, parents: int, rng: np.random.Generator) -> Linear:
        """Draw one weight per parent."""
        return cls(signed_uniform(rng, parents))

    def __call__(self, X: Parents, /) -> Signal:
        """Return the weighted sum."""
        return X @ self.weights


@dataclass(frozen=True, eq=False)
class Mlp:
    """One hidden layer of 100 sigmoid units."""

    hidden: Float[np.ndarray, "parent unit"]
    output: Float[np.ndarray, " unit"]

    @classmethod
    def draw(cls, parents: int, rng: np.random.Generator) -> Mlp:
        """Draw the weights of both layers."""
        return cls(signed_uniform(rng, parents, 100), signed_uniform(rng, 100))

    def __call__(self, X: Parents, /) -> Signal:
        """Evaluate the network."""
        return expit(X @ self.hidden) @ self.output


@dataclass(frozen=True, eq=False)
class MultipleIndex:
    """tanh, cosine and sine of three linear indices (additive index model, Yuan 2011)."""

    theta: Float[np.ndarray, "parent 3"]

    @classmethod
    def draw(cls, parents: int, rng: np.random.Generator) -> MultipleIndex:
        """Draw three weights per parent, one for each index."""
        return cls(signed_uniform(rng, parents, 3))

    def __call__(self, X: Parents, /) -> Signal:
        """Add tanh, cosine and sine of the three indices."""
        first, second, third = (X @ self.theta).T
        return np.tanh(first) + np.cos(second) + np.sin(third)


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """One draw over all parents jointly.

    Such a function is known only where it was asked for: call it once, with all rows that are to share it.
    """

    rng: np.random.Generator

    @classmethod
    def draw(cls, parents: int, rng: np.random.Generator) -> GaussianProcess:
        """Keep the generator; each call draws a function."""
        return cls(rng)

    def __call__(self, X: Parents, /) -> Signal:
        """Draw a function's values at these rows."""
        return sample_gaussian_process(X, self.rng)


class AdditiveGaussianProcess(GaussianProcess):
    """A sum of one-dimensional draws, one for each parent."""

    def __call__(self, X: Parents, /) -> Signal:
        """Draw one function per parent, and add their values."""
        return sum((sample_gaussian_process(x[:, None], self.rng) for x in X.T), start=np.zeros(len(X)))


MECHANISMS: dict[str, type[Mechanism]] = {
    "linear": Linear,
    "gp": GaussianProcess,
    "gp-add": AdditiveGaussianProcess,
    "mlp": Mlp,
    "mim": MultipleIndex,
}
