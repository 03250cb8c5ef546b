"""How far a weighted graph is from having no cycle: functions that are zero exactly on DAGs.

All act on a non-negative matrix `A` (the squared mask or weights). In float32 the textbook forms subtract numbers
near one and see nothing below about 1e-6·d. Here every intermediate is a sum of non-negative terms, so value and
gradient keep their *relative* precision down to the smallest cycle and a tolerance of 1e-10 means something.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Acyclicity = Callable[[Float[Array, "d d"]], Float[Array, ""]]

_TAYLOR_DEGREE = 8  # with ‖A‖ scaled below 1/2 the remainder is under 1e-8 of the sum


def _norm(A: Float[Array, "d d"]) -> Float[Array, ""]:
    """Return the largest column sum, a bound on the spectral radius of `A ≥ 0`."""
    return A.sum(axis=0).max()


def _expm1_matrix(A: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Compute `e^A − I` for `A ≥ 0` by scaling and squaring, never adding the identity.

    With `E = e^B − I`, squaring reads `e^{2B} − I = 2E + E²`. A sparse mask needs few squarings.
    """
    _, exponent = jnp.frexp(_norm(A))  # norm < 2**exponent
    squarings = jnp.maximum(exponent + 1, 0)
    B = jnp.ldexp(A, -squarings)
    E = B / _TAYLOR_DEGREE
    for k in range(_TAYLOR_DEGREE - 1, 0, -1):  # Horner: B/1·(I + B/2·(I + …))
        E = (B + B @ E) / k
    return jax.lax.fori_loop(0, squarings, lambda _, E: 2 * E + E @ E, E)


@jax.custom_vjp
def trace_exponential(A: Float[Array, "d d"]) -> Float[Array, ""]:
    """Compute `tr(e^A) − d`, the constraint of NOTEARS and FedDAG (eq. 4); its gradient is `(e^A)ᵀ`."""
    return jnp.trace(_expm1_matrix(A))


def _trace_exponential_forward(A: Float[Array, "d d"]):
    E = _expm1_matrix(A)
    return jnp.trace(E), E


def _trace_exponential_backward(E: Float[Array, "d d"], g: Float[Array, ""]):
    return (g * (E.T + jnp.eye(E.shape[0], dtype=E.dtype)),)


trace_exponential.defvjp(_trace_exponential_forward, _trace_exponential_backward)


def _closure(B: Float[Array, "d d"]) -> tuple[Float[Array, ""], Float[Array, "d d"]]:
    """Compute `−log det(I − B)` and `(I − B)⁻¹ − I` for `B ≥ 0` of spectral radius below 1.

    Kleene's elimination: after step k, `N[i, j]` weighs the walks i → j whose inner nodes are among 0…k. The pivot
    of Gaussian elimination at k is `1 − N[k, k]`, and nothing is ever subtracted from `N`.
    """

    def eliminate(k, carry):
        value, N = carry
        loops = N[k, k]
        return value - jnp.log1p(-loops), N + jnp.outer(N[:, k], N[k, :]) / (1 - loops)

    return jax.lax.fori_loop(0, B.shape[0], eliminate, (jnp.zeros((), B.dtype), B))


@jax.custom_vjp
def log_determinant(A: Float[Array, "d d"]) -> Float[Array, ""]:
    """Compute `−log det(sI − A) + d·log s` (DAGMA, Bello et al. 2022); its gradient is `(sI − A)⁻ᵀ`.

    DAGMA's fixed `s` needs a line search to keep `A` inside the domain, where the spectral radius is below `s`. Here
    `s = d`, which holds every mask with entries in [0, 1], and more for larger weights.
    """
    return _log_determinant_forward(A)[0]


def _log_determinant_forward(A: Float[Array, "d d"]):
    s = jnp.maximum(A.shape[0], 2 * _norm(A))
    value, N = _closure(A / s)
    return value, (N, s)


def _log_determinant_backward(residuals: tuple[Float[Array, "d d"], Float[Array, ""]], g: Float[Array, ""]):
    N, s = residuals
    return (g * (N.T + jnp.eye(N.shape[0], dtype=N.dtype)) / s,)


log_determinant.defvjp(_log_determinant_forward, _log_determinant_backward)


def polynomial(A: Float[Array, "d d"]) -> Float[Array, ""]:
    """Compute `tr((I + A/d)^d) − d`, the constraint of DAG-GNN (Yu et al. 2019).

    With `E = B − I` and `F = C − I`, a product reads `BC − I = E + F + EF`.
    """
    nodes = A.shape[0]
    power, square = jnp.zeros_like(A), A / nodes
    for bit in bin(nodes)[:1:-1]:  # the lowest first
        if bit == "1":
            power = power + square + power @ square
        square = 2 * square + square @ square
    return jnp.trace(power)


ACYCLICITY: dict[str, Acyclicity] = {
    "trace-exponential": trace_exponential,
    "log-det": log_determinant,
    "polynomial": polynomial,
}
