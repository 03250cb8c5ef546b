"""Generate tables that are not as the search assumes them, and some that are.

Each generator is a function (rng, nodes, edges, rows, sites) -> (one table per site, true adjacency). The graph has
exactly `edges` edges, drawn evenly among the pairs of a random order. All sites follow one structural model: the rows
are drawn together and dealt out. The graph and the coefficients come from one stream and the noise from another, so
more rows keep the model. Coefficients are drawn so that no column blows up:

- Linear models have weights of either sign, uniform between 0.5 and 2 in size, and noise of variance 1, as usual.
- All other models see each cause in units of its own bulk (median 0, quartiles at ±0.67), whatever its tails, and their
  functions have variance 1 before the noise.

Missing cells are NaN. Tables of levels have the numbers 0, 1, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations

import numpy as np
from jaxtyping import Float, Int8

Tables = list[Float[np.ndarray, "row node"]]
Truth = Int8[np.ndarray, "node node"]
Generator = Callable[[np.random.Generator, int, int, int, int], tuple[Tables, Truth]]
Node = Callable[[np.random.Generator, np.random.Generator, Float[np.ndarray, "row parent"]], Float[np.ndarray, "row"]]
"""Draw a variable from its causes: the first stream is for coefficients, the second for noise."""
Law = Callable[[np.random.Generator, int], Float[np.ndarray, "row"]]

SMALLEST_WEIGHT, LARGEST_WEIGHT = 0.5, 2.0
WAVES = 200
"""So many random waves make a smooth function, nearly a draw from a Gaussian process."""
HEAVY_TAILS = 2.1
"""Degrees of freedom; the variance is finite, and hardly so."""
FAR_OUT, FAR_OUT_SHARE = 15.0, 0.01
COPY_CORRELATION = 0.999
MISSING_SHARE = 0.1

LAWS: dict[str, Law] = {
    "normal": np.random.Generator.standard_normal,
    "uniform": lambda rng, rows: rng.uniform(-np.sqrt(3), np.sqrt(3), rows),
    "Laplace": lambda rng, rows: rng.laplace(scale=np.sqrt(0.5), size=rows),
    "exponential": lambda rng, rows: rng.exponential(size=rows) - 1,
    "heavy-tailed": lambda rng, rows: rng.standard_t(HEAVY_TAILS, rows),
}
"""Mean 0 and variance 1; the heavy-tailed one has quartiles near ±0.8."""


def random_graph(rng: np.random.Generator, nodes: int, edges: int) -> Truth:
    """Draw a DAG with exactly so many edges, Erdős-Rényi, in an order that the numbers of the nodes do not tell."""
    earlier, later = np.triu_indices(nodes, k=1)
    chosen = rng.choice(len(earlier), size=edges, replace=False)
    order = rng.permutation(nodes)
    adjacency = np.zeros((nodes, nodes), dtype=np.int8)
    adjacency[order[earlier[chosen]], order[later[chosen]]] = 1
    return adjacency


def causal_order(adjacency: Truth) -> list[int]:
    """List the nodes, causes first."""
    order: list[int] = []
    while len(order) < len(adjacency):
        rest = [node for node in range(len(adjacency)) if node not in order]
        order += [node for node in rest if not adjacency[rest, node].any()]
    return order


def draw_weights(rng: np.random.Generator, count: int) -> Float[np.ndarray, "parent"]:
    """Draw weights of either sign that are neither negligible nor huge."""
    return rng.uniform(SMALLEST_WEIGHT, LARGEST_WEIGHT, count) * rng.choice([-1, 1], count)


def in_units_of_bulk(values: Float[np.ndarray, "row ..."]) -> Float[np.ndarray, "row ..."]:
    """Bring columns to median 0 and to the quartiles of a standard normal variable."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    return (values - middle) / ((high - low) / 1.349)


def smooth_function(rng: np.random.Generator, causes: Float[np.ndarray, "row parent"]) -> Float[np.ndarray, "row"]:
    """Draw a smooth function of all causes together, and return its values, of mean 0 and variance 1.

    It is nearly a draw from a Gaussian process whose length-scale is the root of the number of causes: a function of
    many causes varies as fast as one of few.
    """
    parents = causes.shape[1]
    frequencies = rng.standard_normal((parents, WAVES)) / np.sqrt(parents)
    phases = rng.uniform(0, 2 * np.pi, WAVES)
    sizes = rng.standard_normal(WAVES)
    values = np.cos(in_units_of_bulk(causes) @ frequencies + phases) @ sizes
    return (values - values.mean()) / values.std()


def generate(
    node: Node, rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int
) -> tuple[Tables, Truth]:
    """Draw a graph, and each variable from its causes."""
    structure, noise = rng.spawn(2)
    truth = random_graph(structure, nodes, edges)
    values = np.empty((rows * sites, nodes))
    for each, (coefficients, chance) in zip(
        causal_order(truth), zip(structure.spawn(nodes), noise.spawn(nodes), strict=True), strict=True
    ):
        values[:, each] = node(coefficients, chance, values[:, truth[:, each] == 1])
    return np.split(values, sites), truth


def linear_node(
    law: str, coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray
) -> np.ndarray:
    """Add the weighted causes and noise of variance 1."""
    return causes @ draw_weights(coefficients, causes.shape[1]) + LAWS[law](chance, len(causes))


def heteroscedastic_node(
    coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray
) -> np.ndarray:
    """Add the weighted causes and normal noise whose size is a smooth ramp of another sum of the causes.

    The ramp's argument has weights of 0.25 to 1 in size, over the root of the number of causes.
    """
    noise = LAWS["normal"](chance, len(causes))
    if not causes.shape[1]:
        return noise
    causes = in_units_of_bulk(causes)
    ramp = causes @ draw_weights(coefficients, causes.shape[1]) / (2 * np.sqrt(causes.shape[1]))
    return causes @ draw_weights(coefficients, causes.shape[1]) + np.logaddexp(0, ramp) * noise


def location_scale_node(
    coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray
) -> np.ndarray:
    """Add a smooth function of the causes and normal noise whose log-size is another smooth function of them."""
    noise = LAWS["normal"](chance, len(causes))
    if not causes.shape[1]:
        return noise
    size = coefficients.uniform(0.3, 0.7) * np.exp(0.7 * smooth_function(coefficients, causes))
    return smooth_function(coefficients, causes) + size * noise


DISTORTIONS: Sequence[Callable[[np.ndarray], np.ndarray]] = (
    np.tanh,
    lambda values: np.exp(0.7 * values),
    lambda values: values + 0.3 * values**3,
)


def post_nonlinear_node(
    coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray
) -> np.ndarray:
    """Bend, by a monotone function, the sum of a smooth function of the causes and normal noise."""
    bend = DISTORTIONS[int(coefficients.integers(len(DISTORTIONS)))]
    return bend(_smooth_sum("normal", coefficients, chance, causes))


def multiplicative_node(
    coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray
) -> np.ndarray:
    """Multiply a weighted sum of the causes, all positive, by log-normal noise."""
    factor = np.exp(0.5 * LAWS["normal"](chance, len(causes)))
    if not causes.shape[1]:
        return factor
    return causes / np.median(causes, axis=0) @ np.abs(draw_weights(coefficients, causes.shape[1])) * factor


def smooth_node(
    law: str, coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray
) -> np.ndarray:
    """Add a smooth function of the causes and independent noise."""
    return _smooth_sum(law, coefficients, chance, causes)


def _smooth_sum(
    law: str, coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray
) -> np.ndarray:
    noise = LAWS[law](chance, len(causes))
    if not causes.shape[1]:
        return noise
    return smooth_function(coefficients, causes) + coefficients.uniform(0.4, 0.8) * noise


def weak_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Add a fourth of the usual weights of the causes and normal noise whose deviation is between 0.4 and 2."""
    weights = draw_weights(coefficients, causes.shape[1]) / 4
    return in_units_of_bulk(causes) @ weights + coefficients.uniform(0.4, 2) * LAWS["normal"](chance, len(causes))


def products_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Add the causes, all products of two of them, and normal noise."""
    del coefficients
    causes = in_units_of_bulk(causes)
    total = causes.sum(axis=1)
    return total + (total**2 - (causes**2).sum(axis=1)) / 2 + 0.7 * LAWS["normal"](chance, len(causes))


def steps_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Add a step at each cause, somewhere in its bulk, and normal noise."""
    at = 0.5 * coefficients.standard_normal(causes.shape[1])
    return 1.5 * (in_units_of_bulk(causes) > at).sum(axis=1) + 0.6 * LAWS["normal"](chance, len(causes))


def counts_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Count events, at a rate whose logarithm is a weighted sum of the logarithms of the causes."""
    logs = np.log1p(causes) - 1
    rate = 1.2 + logs @ draw_weights(coefficients, causes.shape[1]) / 4
    return chance.poisson(np.exp(np.clip(rate, -2, 3.5))).astype(float)


def thresholds_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Add the weighted causes, each once more for every other that is above a threshold, and normal noise."""
    causes, noise = in_units_of_bulk(causes), 0.7 * LAWS["normal"](chance, len(causes))
    total = causes @ draw_weights(coefficients, causes.shape[1]) / 1.5
    for one, other in permutations(range(causes.shape[1]), 2):
        above = causes[:, one] > 0.5 * coefficients.standard_normal()
        total = total + coefficients.choice([-1, 1]) * above * causes[:, other]
    return total + noise


def regimes_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Add the causes by one of two sets of weights, which nobody sees row by row, and normal noise."""
    causes, noise = in_units_of_bulk(causes), 0.6 * LAWS["normal"](chance, len(causes))
    first, second = (draw_weights(coefficients, causes.shape[1]) for _ in range(2))
    is_first = chance.random(len(causes)) < coefficients.uniform(0.3, 0.7)
    return np.where(is_first, causes @ first, causes @ second) / np.sqrt(max(causes.shape[1], 1)) + noise


def saturated_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Let a weighted sum of the causes, with normal noise before and after it, saturate at both ends."""
    before, after = (LAWS["normal"](chance, len(causes)) for _ in range(2))
    if not causes.shape[1]:
        return before
    total = in_units_of_bulk(causes) @ draw_weights(coefficients, causes.shape[1])
    return np.tanh(1.5 * total / np.sqrt(causes.shape[1]) + 0.3 * before) + 0.2 * after


def many_zeros_node(coefficients: np.random.Generator, chance: np.random.Generator, causes: np.ndarray) -> np.ndarray:
    """Count events whose rate varies by more than the causes say, and put 0 into 10 to 40 % of the rows."""
    logs = np.log1p(causes) - 1
    rate = np.exp(np.clip(1.5 + logs @ draw_weights(coefficients, causes.shape[1]) / 3, -2, 4))
    counted = chance.poisson(rate * chance.gamma(2, 0.5, len(causes)))
    return np.where(chance.random(len(causes)) < coefficients.uniform(0.1, 0.4), 0, counted).astype(float)


linear_normal: Generator = partial(generate, partial(linear_node, "normal"))
linear_uniform: Generator = partial(generate, partial(linear_node, "uniform"))
linear_laplace: Generator = partial(generate, partial(linear_node, "Laplace"))
linear_exponential: Generator = partial(generate, partial(linear_node, "exponential"))
heteroscedastic: Generator = partial(generate, heteroscedastic_node)
location_scale: Generator = partial(generate, location_scale_node)
post_nonlinear: Generator = partial(generate, post_nonlinear_node)
multiplicative: Generator = partial(generate, multiplicative_node)
smooth: Generator = partial(generate, partial(smooth_node, "normal"))
heavy_tailed: Generator = partial(generate, partial(smooth_node, "heavy-tailed"))


weak_lines: Generator = partial(generate, weak_node)
products: Generator = partial(generate, products_node)
steps: Generator = partial(generate, steps_node)
counts: Generator = partial(generate, counts_node)
thresholds: Generator = partial(generate, thresholds_node)
regimes: Generator = partial(generate, regimes_node)
saturated: Generator = partial(generate, saturated_node)
many_zeros: Generator = partial(generate, many_zeros_node)


def exponentials(rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int) -> tuple[Tables, Truth]:
    """Draw weak straight lines with normal noise, and show the exponentials of all columns."""
    tables, truth = weak_lines(rng, nodes, edges, rows, sites)
    return [np.exp(0.7 * table) for table in tables], truth


def imprecise(
    of: Generator, error: float, rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int
) -> tuple[Tables, Truth]:
    """Draw data of a kind, and add errors of measurement: a share of each column's variance."""
    model, errors = rng.spawn(2)
    tables, truth = of(model, nodes, edges, rows, sites)
    deviation = np.sqrt(error)
    return [table + deviation * table.std(axis=0) * errors.standard_normal(table.shape) for table in tables], truth


imprecise_exponential: Generator = partial(imprecise, linear_exponential, 0.04)
imprecise_laplace: Generator = partial(imprecise, linear_laplace, 0.06)
imprecise_smooth: Generator = partial(imprecise, smooth, 0.06)


def compressed_products(
    rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int
) -> tuple[Tables, Truth]:
    """Draw sums of causes and of their products, and show nearly the logarithms of all columns."""
    tables, truth = products(rng, nodes, edges, rows, sites)
    return [np.arcsinh(table) for table in tables], truth


def far_out(rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int) -> tuple[Tables, Truth]:
    """Draw smooth functions with normal noise, then put 1 % of the cells 5 to 15 deviations off, to either side.

    They are slips of recording: the effects follow the value before the slip.
    """
    model, slips = rng.spawn(2)
    tables, truth = smooth(model, nodes, edges, rows, sites)
    return [table + _slips(slips, table.shape) * table.std(axis=0) for table in tables], truth


def _slips(rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "row node"]:
    hit = rng.random(shape) < FAR_OUT_SHARE
    return hit * rng.uniform(FAR_OUT / 3, FAR_OUT, shape) * rng.choice([-1, 1], shape)


def near_copy(rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int) -> tuple[Tables, Truth]:
    """Draw smooth functions with normal noise, the last variable being one of the others and hardly any noise.

    The copy counts as an effect of what it copies.
    """
    model, copying = rng.spawn(2)
    tables, others = smooth(model, nodes - 1, edges - 1, rows, sites)
    copied = copying.integers(nodes - 1)
    deviation = np.concatenate(tables)[:, copied].std() * np.sqrt(COPY_CORRELATION**-2 - 1)
    truth = np.zeros((nodes, nodes), dtype=np.int8)
    truth[:-1, :-1] = others
    truth[copied, -1] = 1
    return [
        np.column_stack([table, table[:, copied] + deviation * copying.standard_normal(rows)]) for table in tables
    ], truth


def missing_at_random(rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int) -> tuple[Tables, Truth]:
    """Draw smooth functions with normal noise, and leave out 10 % of the cells, whatever their values."""
    model, gaps = rng.spawn(2)
    tables, truth = smooth(model, nodes, edges, rows, sites)
    return [np.where(gaps.random(table.shape) < MISSING_SHARE, np.nan, table) for table in tables], truth


def without_gaps(rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int) -> tuple[Tables, Truth]:
    """Draw what `missing_at_random` draws, before cells are left out."""
    model, _ = rng.spawn(2)
    return smooth(model, nodes, edges, rows, sites)


def levels(
    counts: Sequence[int], rng: np.random.Generator, nodes: int, edges: int, rows: int, sites: int
) -> tuple[Tables, Truth]:
    """Draw variables of some levels, with a table of probabilities for each combination of the causes' levels.

    Args:
        counts: The numbers of levels that a variable may have, each as likely.
        rng, nodes, edges, rows, sites: As of every generator. Each row of a table of probabilities is even over all
            possible ones (Dirichlet).
    """
    structure, noise = rng.spawn(2)
    truth = random_graph(structure, nodes, edges)
    sizes = structure.choice(counts, nodes)
    tables = {}
    for node in range(nodes):
        parents = np.flatnonzero(truth[:, node])
        tables[node] = (parents, structure.dirichlet(np.ones(sizes[node]), size=tuple(sizes[parents])))
    return np.split(sample_tables(noise, tables, causal_order(truth), rows * sites), sites), truth


def sample_tables(
    rng: np.random.Generator,
    tables: dict[int, tuple[np.ndarray, np.ndarray]],
    order: Sequence[int],
    rows: int,
) -> Float[np.ndarray, "row node"]:
    """Sample rows from the tables of probabilities of a network.

    Args:
        rng: The stream.
        tables: For each node its parents, and the probabilities of its levels (last axis) by their levels.
        order: The nodes, causes first.
        rows: How many.
    """
    values = np.zeros((rows, len(tables)), dtype=int)
    for node in order:
        parents, probabilities = tables[node]
        steps = np.cumsum(probabilities[tuple(values[:, parents].T)], axis=-1)
        if not len(parents):
            steps = np.broadcast_to(steps, (rows, steps.shape[-1]))
        values[:, node] = (rng.random((rows, 1)) > steps[:, :-1]).sum(axis=1)
    return values.astype(float)


complete_tables: Generator = partial(levels, (3,))
random_tables: Generator = partial(levels, (2, 3, 4))
