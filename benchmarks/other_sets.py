"""The sets that `other_data` learns from: simulated ones, tables of levels, and public data.

The public sets are read from `../shared/data` beside the repository, and never copied. The networks of the bnlearn
repository come with the package pgmpy.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

import other_generators as generators
from feddag import CausalGraph, simulate
from feddag.extras import imported
from feddag.silos.preparation import Missing

Part = Literal["simulated", "further", "discrete", "public"]
Draw = Callable[[int, int], tuple[list[pd.DataFrame], CausalGraph]]
"""From a seed and the rows of each site, the sites' tables and the true graph."""

DATA = Path(__file__).parents[2] / "shared" / "data"
NODES, EDGES, SITES = 10, 15, 5
FIVE = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Group:
    """Data of one kind."""

    title: str
    part: Part
    draw: Draw
    rows: tuple[int, ...] = (400,)
    """Of each site, unless others are asked for; a set that is as it is has one entry."""
    missing: Missing = "error"
    class_only: bool = False
    """Whether the data tell the equivalence class alone."""
    as_assumed: bool = False
    """Whether the data are as the search assumes them."""
    sets: tuple[int, ...] | None = None
    """The numbers of its sets, if there are only some; seeds do not matter then."""
    weights: Mapping[int, float] = field(default_factory=dict)
    """By set, of pairs of variables: the direction is judged, and guessed if need be."""


def simulated(generator: generators.Generator, nodes: int = NODES, edges: int = EDGES, sites: int = SITES) -> Draw:
    """Make frames of a generator's tables."""

    def draw(seed: int, rows: int) -> tuple[list[pd.DataFrame], CausalGraph]:
        tables, truth = generator(np.random.default_rng(seed), nodes, edges, rows, sites)
        graph = CausalGraph(truth, [f"x{node}" for node in range(nodes)])
        return [pd.DataFrame(table, columns=list(graph.names)) for table in tables], graph

    return draw


def tables_of_levels(generator: generators.Generator, nodes: int = NODES, edges: int = EDGES) -> Draw:
    """Make frames of a generator's tables, whose numbers are levels."""
    numbers = simulated(generator, nodes, edges)

    def draw(seed: int, rows: int) -> tuple[list[pd.DataFrame], CausalGraph]:
        tables, graph = numbers(seed, rows)
        return [table.map(lambda level: f"level {level:.0f}") for table in tables], graph

    return draw


def own_simulator(mechanism: str) -> Draw:
    """Draw with feddag's simulator, on a graph with as many edges as all others have."""

    def draw(seed: int, rows: int) -> tuple[list[pd.DataFrame], CausalGraph]:
        graph = generators.random_graph(np.random.default_rng(seed), NODES, EDGES)
        drawn = simulate(graph=graph, mechanism=mechanism, sites=SITES, rows=rows, seed=seed)
        return [silo.to_frame() for silo in drawn.silos], drawn.truth

    return draw


def network(name: str) -> Draw:
    """Sample from a network of the bnlearn repository."""

    def draw(seed: int, rows: int) -> tuple[list[pd.DataFrame], CausalGraph]:
        graph, tables, levels = read_network(name)
        order = generators.causal_order(graph.adjacency)
        values = generators.sample_tables(np.random.default_rng(seed), tables, order, rows * SITES).astype(int)
        columns = {column: np.array(levels[column])[values[:, k]] for k, column in enumerate(graph.names)}
        frame = pd.DataFrame(columns)
        return [frame.iloc[rows * site : rows * (site + 1)] for site in range(SITES)], graph

    return draw


def package(module: str) -> Any:
    """Import a module of another package, or say how to install it."""
    return imported(module, "peers", "This peer, or these data, need a package")


@cache
def read_network(name: str) -> tuple[CausalGraph, dict[int, tuple[np.ndarray, np.ndarray]], dict[str, list[str]]]:
    """Read a network that pgmpy brings: its graph, its tables of probabilities, and the levels by variable."""
    folder = Path(package("pgmpy").__file__).parent / "utils" / "example_models"
    text = gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode()
    model = package("pgmpy.readwrite").BIFReader(string=text).get_model()
    names = sorted(model.nodes())
    adjacency = np.zeros((len(names), len(names)), dtype=np.int8)
    tables, levels = {}, {}
    for table in model.get_cpds():
        variable, *parents = table.variables
        node, causes = names.index(variable), [names.index(parent) for parent in parents]
        adjacency[causes, node] = 1
        tables[node] = (np.array(causes, dtype=int), np.moveaxis(table.values, 0, -1))
        levels[variable] = table.state_names[variable]
    return CausalGraph(adjacency, names), tables, levels


def arrays(folder: str, name: str) -> Draw:
    """Read a set of numbers with its true graph, as one site."""

    def draw(seed: int, rows: int) -> tuple[list[pd.DataFrame], CausalGraph]:
        del rows
        read = np.load(DATA / folder / f"{name}{seed}.npz")
        graph = CausalGraph(read["truth"])
        return [pd.DataFrame(read["X"], columns=list(graph.names))], graph

    return draw


SACHS_EDGES = (
    "pkc>pka pkc>raf pka>raf pkc>mek pka>mek raf>mek mek>erk pka>erk erk>akt pka>akt pkc>p38 pka>p38 pkc>jnk pka>jnk "
    "plc>pip3 plc>pip2 pip3>pip2"
)
"""The 17 edges that Sachs et al. (2005) report, which most papers compare with; `truth_edges.csv` has 20."""


def sachs(seed: int, rows: int) -> tuple[list[pd.DataFrame], CausalGraph]:
    """Read the 853 cells of the condition that perturbs no protein."""
    del seed, rows
    table = pd.read_csv(DATA / "sachs" / "1_cd3cd28.csv")
    truth = pd.DataFrame(0, table.columns, table.columns)
    for edge in SACHS_EDGES.split():
        truth.loc[tuple(edge.split(">"))] = 1
    return [table], CausalGraph(truth.to_numpy(), list(table.columns))


def tuebingen(seed: int, rows: int) -> tuple[list[pd.DataFrame], CausalGraph]:
    """Read a cause and its effect."""
    del rows
    with np.load(DATA / "tuebingen" / "pairs_odd.npz") as pairs:
        table = pd.DataFrame(pairs[f"pair{seed:04}"], columns=["x", "y"])
    forwards = tuebingen_truth().truth[seed] == "x->y"
    return [table], CausalGraph([[0, 1], [0, 0]] if forwards else [[0, 0], [1, 0]], ["x", "y"])


@cache
def tuebingen_truth() -> pd.DataFrame:
    """Read the true direction and the weight of each pair; without the data, there are none."""
    path = DATA / "tuebingen" / "truth_odd.csv"
    return pd.read_csv(path, index_col="pair") if path.exists() else pd.DataFrame({"truth": [], "weight": []})


GROUPS: dict[str, Group] = {
    "linear-normal": Group(
        "linear, normal noise",
        "simulated",
        simulated(generators.linear_normal),
        (400, 1600),
        class_only=True,
        as_assumed=True,
    ),
    "gp": Group("Gaussian process, normal noise", "simulated", own_simulator("gp"), as_assumed=True),
    "mim": Group("index functions, normal noise", "simulated", own_simulator("mim"), as_assumed=True),
    "linear-uniform": Group("linear, uniform noise", "simulated", simulated(generators.linear_uniform), (400, 1600)),
    "linear-laplace": Group("linear, Laplace noise", "simulated", simulated(generators.linear_laplace), (400, 1600)),
    "linear-exponential": Group(
        "linear, exponential noise", "simulated", simulated(generators.linear_exponential), (400, 1600)
    ),
    "heteroscedastic": Group(
        "linear, noise by the causes", "simulated", simulated(generators.heteroscedastic), (400, 1600)
    ),
    "lsnm": Group("location-scale", "simulated", simulated(generators.location_scale)),
    "post-nonlinear": Group("post-nonlinear", "simulated", simulated(generators.post_nonlinear)),
    "multiplicative": Group("multiplicative", "simulated", simulated(generators.multiplicative)),
    "heavy-tails": Group("smooth, t(2.1) noise", "simulated", simulated(generators.heavy_tailed)),
    "far-out": Group("smooth, 1 % of cells far out", "simulated", simulated(generators.far_out)),
    "near-copy": Group("smooth, near copy of a column", "simulated", simulated(generators.near_copy)),
    "complete": Group("smooth, complete", "simulated", simulated(generators.without_gaps), as_assumed=True),
    "missing-drop": Group(
        "the same, 10 % missing, rows dropped", "simulated", simulated(generators.missing_at_random), missing="drop"
    ),
    "missing-impute": Group(
        "the same, 10 % missing, imputed", "simulated", simulated(generators.missing_at_random), missing="impute"
    ),
    "weak-lines": Group("weak lines, normal noise", "further", simulated(generators.weak_lines), as_assumed=True),
    "exponentials": Group("exponentials of weak lines", "further", simulated(generators.exponentials)),
    "products": Group("products of causes", "further", simulated(generators.products)),
    "steps": Group("steps", "further", simulated(generators.steps)),
    "counts": Group("counts", "further", simulated(generators.counts)),
    "imprecise": Group("linear, exponential noise, 4 % errors", "further", simulated(generators.imprecise_exponential)),
    "imprecise-laplace": Group("linear, Laplace noise, 6 % errors", "further", simulated(generators.imprecise_laplace)),
    "imprecise-smooth": Group("smooth, 6 % errors", "further", simulated(generators.imprecise_smooth)),
    "compressed-products": Group(
        "products of causes, compressed", "further", simulated(generators.compressed_products)
    ),
    "thresholds": Group("thresholds that interact", "further", simulated(generators.thresholds)),
    "regimes": Group("two regimes", "further", simulated(generators.regimes)),
    "saturated": Group("saturation at both ends", "further", simulated(generators.saturated)),
    "many-zeros": Group("counts with many zeros", "further", simulated(generators.many_zeros)),
    "three-levels": Group(
        "3 variables of 3 levels, all joined",
        "discrete",
        tables_of_levels(generators.complete_tables, nodes=3, edges=3),
        (500,),
        class_only=True,
    ),
    "levels": Group(
        "2 to 4 levels, any tables",
        "discrete",
        tables_of_levels(generators.random_tables),
        (500,),
        class_only=True,
    ),
    **{
        f"bnlearn-{name}": Group(f"bnlearn's {name}", "discrete", network(name), (500,), class_only=True)
        for name in ("sachs", "child", "insurance", "alarm")
    },
    "syntren": Group("SynTReN, 20 genes", "public", arrays("syntren", "set"), (500,), sets=FIVE),
    "public-pnl-gp": Group(
        "GraN-DAG's post-nonlinear", "public", arrays("post_nonlinear", "pnl_gp_"), (1000,), sets=FIVE
    ),
    "public-pnl-mult": Group(
        "GraN-DAG's multiplicative", "public", arrays("post_nonlinear", "pnl_mult_"), (1000,), sets=FIVE
    ),
    "sachs": Group("Sachs, observational", "public", sachs, (853,), sets=(1,)),
    "tuebingen": Group(
        "Tübingen pairs",
        "public",
        tuebingen,
        (2000,),
        sets=tuple(tuebingen_truth().index),
        weights=dict(zip(tuebingen_truth().index, tuebingen_truth().weight, strict=True)),
    ),
}
