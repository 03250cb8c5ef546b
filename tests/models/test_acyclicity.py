"""Two functions that are zero exactly on DAGs, and precise at any distance from them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from feddag.models import ACYCLICITY, log_determinant, polynomial, trace_exponential

functions = pytest.mark.parametrize("acyclicity", ACYCLICITY.values(), ids=ACYCLICITY)
sizes = pytest.mark.parametrize("nodes", [2, 10, 40])
densities = pytest.mark.parametrize("density", [0.1, 1.0])


compiled = {each: jax.jit(jax.value_and_grad(each)) for each in ACYCLICITY.values()}


def value_and_gradient(acyclicity, A):
    value, gradient = compiled[acyclicity](jnp.asarray(A, jnp.float32))
    return float(value), np.asarray(gradient, np.float64)


def random_matrix(nodes: int, density: float, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Squared masks: entries near 0 or near 1, none on the diagonal. Exact in float32."""
    rng = np.random.default_rng(seed)
    entries = rng.uniform(0.9, 1.0, (nodes, nodes)) * (rng.random((nodes, nodes)) < density)
    np.fill_diagonal(entries, 0)
    return (scale * entries).astype(np.float32).astype(np.float64)


def random_dag(nodes: int, seed: int, scale: float = 1.0) -> np.ndarray:
    order = np.random.default_rng(seed).permutation(nodes)
    upper = scale * np.triu(np.random.default_rng(seed + 1).random((nodes, nodes)), k=1)
    return upper[np.ix_(order, order)].astype(np.float32).astype(np.float64)


def exact_trace_exponential(A: np.ndarray) -> tuple[float, np.ndarray]:
    exponential = scipy.linalg.expm(A)
    return np.trace(exponential) - len(A), exponential.T


def exact_log_determinant(A: np.ndarray) -> tuple[float, np.ndarray]:
    s = scale_of(A)
    _, log_det = np.linalg.slogdet(s * np.eye(len(A)) - A)
    return len(A) * math.log(s) - log_det, np.linalg.inv(s * np.eye(len(A)) - A).T


def scale_of(A: np.ndarray) -> float:
    """The documented domain: s = d, or twice the largest column sum where that is more."""
    return max(len(A), 2 * A.sum(axis=0).max())


@sizes
@densities
def test_trace_exponential_is_the_trace_of_scipys_matrix_exponential(nodes, density):
    A = random_matrix(nodes, density)
    value, gradient = value_and_gradient(trace_exponential, A)
    exact, exact_gradient = exact_trace_exponential(A)
    assert value == pytest.approx(exact, rel=2e-5, abs=1e-12 * np.abs(exact_gradient).max())
    np.testing.assert_allclose(gradient, exact_gradient, rtol=2e-5)


@sizes
@densities
def test_log_determinant_is_numpys(nodes, density):
    A = random_matrix(nodes, density)
    value, gradient = value_and_gradient(log_determinant, A)
    exact, exact_gradient = exact_log_determinant(A)
    assert value == pytest.approx(exact, rel=1e-5, abs=1e-12)
    np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-5, atol=1e-12)


@sizes
@densities
def test_polynomial_is_that_of_numpys_power(nodes, density):
    A = random_matrix(nodes, density)
    value, gradient = value_and_gradient(polynomial, A)
    step = np.eye(nodes) + A / nodes
    exact_gradient = np.linalg.matrix_power(step, nodes - 1).T
    assert value == pytest.approx(np.trace(np.linalg.matrix_power(step, nodes)) - nodes, rel=1e-5, abs=1e-11)
    np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("scale", [3.0, 30.0])
def test_weights_above_one_stay_in_the_domain(scale):
    A = random_matrix(10, 0.5, scale=scale)
    value, gradient = value_and_gradient(log_determinant, A)
    exact, exact_gradient = exact_log_determinant(A)
    assert math.isfinite(value)
    assert value == pytest.approx(exact, rel=1e-5)
    np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-5)


@functions
@pytest.mark.parametrize("nodes", [2, 10])
@pytest.mark.parametrize("scale", [1.0, 5.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_dags_are_exactly_zero(acyclicity, nodes, scale, seed):
    assert value_and_gradient(acyclicity, random_dag(nodes, seed, scale))[0] == 0.0


@functions
@settings(max_examples=30)
@given(st.integers(0, 2**16), st.sampled_from([1e-10, 1e-5, 1e-2, 1.0]))
def test_every_cycle_is_seen(acyclicity, seed, weight):
    A = random_dag(10, seed) + 0.01 * (random_dag(10, seed) > 0)
    source, target = np.argwhere(A)[0]
    A[target, source] = weight
    assert value_and_gradient(acyclicity, A)[0] > 0


@pytest.mark.parametrize("closing", [1e-12, 1e-10, 1e-8, 1e-6, 1e-4])
class TestNearADag:
    """A cycle through one tiny edge, where the textbook forms in float32 see nothing or noise."""

    @staticmethod
    def two_cycle(closing: float) -> tuple[np.ndarray, float]:
        """Nodes 1 and 3 of four on a cycle, whose edges have the given product."""
        A = np.zeros((4, 4))
        A[0, 1], A[0, 2], A[1, 2] = 0.9, 0.7, 0.4
        A[1, 3], A[3, 1] = 0.5, closing / 0.5
        return A, closing

    def test_trace_exponential_of_a_two_cycle(self, closing):
        A, product = self.two_cycle(closing)
        exact = 4 * math.sinh(math.sqrt(product) / 2) ** 2  # 2 (cosh √p − 1)
        value, gradient = value_and_gradient(trace_exponential, A)
        assert value == pytest.approx(exact, rel=1e-5)
        np.testing.assert_allclose(gradient, scipy.linalg.expm(A).T, rtol=1e-5)

    def test_log_determinant_of_a_two_cycle(self, closing):
        A, product = self.two_cycle(closing)
        value, gradient = value_and_gradient(log_determinant, A)
        assert value == pytest.approx(-math.log1p(-product / scale_of(A) ** 2), rel=1e-5)
        np.testing.assert_allclose(gradient, exact_log_determinant(A)[1], rtol=1e-5)

    def test_trace_exponential_of_a_long_cycle(self, closing):
        """A ring of k edges with product p: every closed walk goes round n times, k Σ pⁿ / (kn)!."""
        k = 6
        A = np.roll(np.eye(k), 1, axis=1)
        A[k - 1, 0] = closing
        exact = k * sum(closing**n / math.factorial(k * n) for n in (1, 2, 3))
        assert value_and_gradient(trace_exponential, A)[0] == pytest.approx(exact, rel=1e-5)

    def test_log_determinant_of_a_long_cycle(self, closing):
        k = 6
        A = np.roll(np.eye(k), 1, axis=1)
        A[k - 1, 0] = closing
        exact = -math.log1p(-closing / scale_of(A) ** k)
        assert value_and_gradient(log_determinant, A)[0] == pytest.approx(exact, rel=1e-5)


@functions
def test_the_gradient_is_that_of_central_differences(acyclicity):
    """In double precision; s is 4 throughout, so that log-det's guard does not move."""
    with jax.enable_x64(True):
        A = jnp.asarray(random_matrix(4, 0.6, scale=0.5))
        check_grads(jax.jit(acyclicity), (A,), order=1, modes=["rev"], rtol=1e-6)


@functions
def test_both_work_on_many_matrices_at_once(acyclicity):
    stack = np.stack([random_matrix(10, 0.5, seed=seed, scale=1 + seed) for seed in range(3)])
    together = jax.jit(jax.vmap(acyclicity))(jnp.asarray(stack, jnp.float32))
    alone = [value_and_gradient(acyclicity, A)[0] for A in stack]
    np.testing.assert_allclose(together, alone, rtol=1e-6)


def test_trace_exponential_of_a_full_mask_fits_single_precision_up_to_89_nodes():
    nodes = 89
    A = np.ones((nodes, nodes)) - np.eye(nodes)
    value, gradient = value_and_gradient(trace_exponential, A)
    # the eigenvalues of the complete graph are d − 1, and −1 otherwise
    assert value == pytest.approx(math.exp(nodes - 1) + (nodes - 1) * math.exp(-1) - nodes, rel=1e-4)
    assert np.isfinite(gradient).all()


def test_trace_exponential_beyond_single_precision_is_infinite_not_wrong():
    A = np.ones((100, 100)) - np.eye(100)
    assert value_and_gradient(trace_exponential, A)[0] == math.inf


def test_trace_exponential_of_a_random_mask_fits_single_precision_up_to_160_nodes():
    """Where a run starts: U = 0, so the noise alone decides, and squared entries are 0.45 on average."""
    nodes = 160
    logits = np.random.default_rng(0).logistic(size=(nodes, nodes)) / 0.2
    with np.errstate(over="ignore"):
        mask = 1 / (1 + np.exp(-logits))
    np.fill_diagonal(mask, 0)
    value, gradient = value_and_gradient(trace_exponential, mask**2)
    assert value == pytest.approx(exact_trace_exponential(mask**2)[0], rel=1e-3)
    assert np.isfinite(gradient).all()


def test_log_determinant_of_a_full_mask_is_finite_where_the_exponential_is_not():
    nodes = 100
    A = np.ones((nodes, nodes)) - np.eye(nodes)
    value, gradient = value_and_gradient(log_determinant, A)
    # −log(1 − (d−1)/s) − (d−1) log(1 + 1/s), s = 2 (d − 1)
    s = scale_of(A)
    assert value == pytest.approx(-math.log1p(-(nodes - 1) / s) - (nodes - 1) * math.log1p(1 / s), rel=1e-4)
    assert np.isfinite(gradient).all()
