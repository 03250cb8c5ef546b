"""Data whose causal graph is known: one random graph, and at each site rows that follow it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from feddag.files import as_text, check_new_folder, naming
from feddag.graphs import CausalGraph, write_graph
from feddag.silos.silo import Silo
from feddag.silos.simulation.hidden_causes import HiddenCauses
from feddag.silos.simulation.mechanisms import MECHANISMS
from feddag.silos.simulation.own_mechanisms import Differences, SiteChanges
from feddag.silos.simulation.parameters import DEFAULT_NODES, MINIMUM_ROWS, check_parameters
from feddag.silos.simulation.random_graphs import erdos_renyi, scale_free
from feddag.silos.simulation.streams import Stream, generator
from feddag.silos.simulation.structural_model import StructuralModel

NONLINEAR_SITE_DEVIATIONS = (0.8, 1.0)
"""The paper's text calls them variances; its data were drawn with them as standard deviations."""
UNEVEN_SHARES = (0.2, 0.4, 0.6, 0.8)
SIMULATOR_VERSION = 1
"""Rises when the same arguments give other data: experiments then run their cells again."""


ONLY_WHERE_SITES_DIFFER = ("shifted", "shift", "interventions", "varying")
"""Parameters that the record of a simulation leaves out where they change nothing; so it does with `hidden`."""


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """The sites' tables, the graph they follow, and what was drawn on the way, in the types that JSON has.

    `drawn["parameters"]` are the arguments of `simulate`, `drawn["sites"]` each site's mechanism, noise
    variances by node, number of rows and, where it is linear, its weights. Where sites differ (`shifted`,
    `interventions`, `varying`), also the variables that a site makes in its own way (`own`) and its `graph`.

    With hidden variables, `truth` is the graph of causes among the observed ones, `admg` has besides an edge <-> for
    each pair that a hidden variable joins, and `pag` is what data without end would show of it.
    """

    silos: tuple[Silo, ...]
    truth: CausalGraph
    drawn: dict[str, Any]
    hidden: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each hidden variable, the observed ones that it acts on."""

    @property
    def admg(self) -> CausalGraph:
        """The true graph with an edge <-> for each pair that a hidden variable joins."""
        joined = np.zeros(self.truth.adjacency.shape, dtype=np.int8)
        for effects in self.hidden.values():
            for one, other in permutations([self.truth.names.index(name) for name in effects], 2):
                joined[one, other] = 1
        return CausalGraph.admg(self.truth.adjacency, joined, self.truth.names)

    @property
    def pag(self) -> CausalGraph:
        """The marks that observational data can show, whoever may be hidden."""
        return self.admg.to_pag()

    def __repr__(self) -> str:
        return f"Simulation({len(self.silos)} sites, {self.truth!r})"

    def write(self, folder: str | Path) -> None:
        """Write `<site>.csv` for every site, `truth.csv` and `simulation.json` into a new or empty folder.

        With hidden variables, also the true ADMG and PAG, `truth.admg.csv` and `truth.pag.csv`.

        The folder appears complete or not at all. Each number has the digits that give the same bits again.
        """
        folder = Path(folder)
        check_new_folder(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with naming(folder), TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as aside:
            complete = Path(aside) / folder.name
            complete.mkdir()
            for silo in self.silos:
                silo.to_frame().rename(columns=as_text).to_csv(complete / f"{silo.name}.csv", index=False)
            write_graph(self.truth, complete / "truth.csv")
            if self.hidden:
                write_graph(self.admg, complete / "truth.admg.csv")
                write_graph(self.pag, complete / "truth.pag.csv")
            (complete / "simulation.json").write_text(json.dumps(self.drawn, indent=2) + "\n", encoding="utf-8")
            if folder.exists():
                folder.rmdir()
            complete.rename(folder)


def simulate(
    nodes: int | None = None,
    *,
    graph: Literal["ER", "SF"] | CausalGraph | ArrayLike = "ER",
    edges_per_node: float = 2,
    edge_probability: Literal["published", "exact"] = "published",
    orientation: Literal["random", "arrival"] = "random",
    mechanism: str | Sequence[str] | None = None,
    heterogeneous: bool = False,
    sites: int = 10,
    rows: int | Sequence[int] = 600,
    uneven: bool = False,
    noise: str = "gaussian",
    noise_variance: float | None = None,
    noise_deviation_range: tuple[float, float] | None = None,
    standardised: bool = False,
    shared_draws: bool = False,
    shifted: int = 0,
    shift: Literal["mechanism", "mean"] = "mechanism",
    interventions: Mapping[str, Sequence[str]] | int | None = None,
    varying: int = 0,
    hidden: int = 0,
    seed: int = 0,
) -> Simulation:
    """Simulate sites that share one causal graph; by default as in section 5.1 of the FedDAG paper.

    Args:
        nodes: The number of variables, 10 unless given. A graph of your own brings its own number.
        graph: `"ER"` (Erdős-Rényi), `"SF"` (scale-free, Barabási-Albert), or a graph of your own: a
            `CausalGraph` or an adjacency matrix, whose entry [i, j] is 1 for the edge i → j.
        edges_per_node: The 2 of "ER2": the wanted number of edges is this times `nodes`.
        edge_probability: The probability of an Erdős-Rényi edge, for s wanted edges among d nodes. `"published"`,
            2s/d², is what the paper's data were drawn with (about 18 edges for ER2 with 10 nodes); `"exact"`,
            2s/(d² − d), is what it prints, and gives s edges on average.
        orientation: How a scale-free graph is directed. `"random"`: along a random order, as the paper's data were
            drawn. `"arrival"`: from the older node to the newcomer.
        mechanism: How a node follows from its parents. `"linear"`; `"gp"`, a Gaussian process over all
            parents; `"gp-add"`, a sum of one for each parent; `"mlp"`; `"mim"`, a sum of three index
            functions. With `heterogeneous=True` also several candidates. None stands for `"gp"`, or for all
            five candidates.
        heterogeneous: False: one model for all sites, whose rows are drawn jointly and dealt out. True: each
            site draws a model of its own, linear with probability 1/2, else any nonlinear candidate with
            equal probability. (Candidates that are all linear, or all not, leave the first choice out.)
        sites: The number of sites.
        rows: Per site: one number for all, or one for each.
        uneven: Let each site have 20, 40, 60 or 80 % of `rows`, drawn with equal probability.
        noise: Its law, always of mean 0: `"gaussian"`, `"laplace"`, `"uniform"`, `"exponential"` or
            `"gumbel"`.
        noise_variance: The variance for every node at every site. None is the paper's: 1, except that with
            `heterogeneous=True` a nonlinear site draws the standard deviation 0.8 or 1 for all its nodes.
        noise_deviation_range: Draw instead each node's standard deviation uniformly between these two.
        standardised: Bring each variable to mean 0 and variance 1 before its children see it: over all sites
            where they share a model, else within each site.
        shared_draws: With `heterogeneous=True`, let all sites use the same random numbers for their noise and
            their nonlinear functions, so that nonlinear sites of one kind and variance have equal rows. The
            published generator does so, as it seeds every site alike. For comparison with it only.
        shifted: Let each site have so many mechanisms of its own, and all others in common.
        shift: What differs in these: the whole `"mechanism"` (function, mean, noise level), or the `"mean"` alone.
        interventions: What experiments set, by site, such as `{"site-01": ["x3"]}`; or a number of targets at each
            site, in turn over all variables. A variable that is set has a law of its own, whatever its causes. The
            tables know their targets, so that `fit` does.
        varying: Let each of the first so many sites have one further edge, with a mechanism of its own for the effect.
        hidden: Let so many further variables act on two or three of the observed ones each, which have no edge to each
            other. No table has them; `Simulation.admg` and `pag` are the true graphs with and without them.
        seed: Equal arguments give equal data. The graph, each site's model and its noise have streams of
            their own: more rows keep the graph, and another site keeps the heterogeneous sites before it.

    Examples:
        >>> import feddag
        >>> simulation = feddag.simulate(5, sites=3, rows=100, seed=1)
        >>> simulation
        Simulation(3 sites, CausalGraph(5 nodes, 9 edges))
        >>> simulation.silos[0]
        Silo('site-01', 100 rows, 5 columns)
    """
    parameters = dict(locals())
    check_parameters(parameters)
    truth = _draw_truth(SimpleNamespace(**parameters))
    counts = _row_counts(rows, sites, uneven, seed)
    hidden_causes = HiddenCauses.draw(hidden, truth.adjacency, seed)
    whole_graph = hidden_causes.joined_to(truth.adjacency)
    observed = len(truth.names)

    def draw_model(site: int) -> StructuralModel:
        rng = generator(seed, Stream.SITE, site)
        kind = _draw_kind(_candidates(mechanism, heterogeneous), rng)
        # The published generator seeds the sites alike only after it has drawn all their linear weights.
        source = 0 if shared_draws and kind != "linear" else site
        if noise_deviation_range is not None:
            deviations = rng.uniform(*noise_deviation_range, size=len(whole_graph))
        elif noise_variance is None and heterogeneous and kind != "linear":
            deviations = np.full(len(whole_graph), rng.choice(NONLINEAR_SITE_DEVIATIONS))
        else:
            deviations = np.full(len(whole_graph), np.sqrt(noise_variance or 1.0))
        functions = partial(generator, seed, Stream.MECHANISM, source)
        return StructuralModel.draw(whole_graph, kind, noise, deviations, functions)

    def draw_rows(model: StructuralModel, site: int, count: int) -> Float[np.ndarray, "row node"]:
        source = 0 if shared_draws else site
        return model.sample(count, partial(generator, seed, Stream.NOISE, source), standardised=standardised)

    width = max(2, len(str(sites)))
    names = [f"site-{number:0{width}}" for number in range(1, sites + 1)]
    differences = Differences(shifted, shift, interventions, varying, truth.names)
    changes: SiteChanges | None = None
    if differences.any:
        models = [draw_model(0)] * sites
        changes = differences.draw(names, counts, models[0], seed)
        noise_of = partial(generator, seed, Stream.NOISE, 0)
        values = models[0].sample(sum(counts), noise_of, standardised=standardised, change=changes.apply)
        tables = np.split(values, np.cumsum(counts)[:-1])
    elif heterogeneous:
        models = [draw_model(site) for site in range(sites)]
        tables = [draw_rows(*each) for each in zip(models, range(sites), counts, strict=True)]
    else:
        models = [draw_model(0)] * sites
        tables = np.split(draw_rows(models[0], 0, sum(counts)), np.cumsum(counts)[:-1])

    masks = [None] * sites if changes is None or not interventions else changes.masks()
    silos = tuple(
        Silo(name, truth.names, table[:, :observed], targets=mask)
        for name, table, mask in zip(names, tables, masks, strict=True)
    )
    records = [_record(silo, model) for silo, model in zip(silos, models, strict=True)]
    if changes is not None:
        records = [record | changes.record(site, truth) for site, record in enumerate(records)]
    unused = ([] if changes else [*ONLY_WHERE_SITES_DIFFER]) + ([] if hidden else ["hidden"])
    given = {name: _plain(value) for name, value in parameters.items() if name not in unused}
    named = hidden_causes.named(truth.names)
    drawn = {"parameters": given, "sites": records} | ({"hidden": _plain(named)} if named else {})
    return Simulation(silos, truth, drawn, named)


def _draw_truth(given: SimpleNamespace) -> CausalGraph:
    """Return the graph of the observed variables, by the parameters of `simulate`."""
    if isinstance(given.graph, CausalGraph):
        return given.graph
    if not isinstance(given.graph, str):
        return _named(given.graph)
    nodes, rng = given.nodes or DEFAULT_NODES, generator(given.seed, Stream.GRAPH)
    if given.graph == "ER":
        return _named(erdos_renyi(nodes, given.edges_per_node, given.edge_probability, rng))
    return _named(scale_free(nodes, int(given.edges_per_node), given.orientation, rng))


def _named(adjacency: ArrayLike) -> CausalGraph:
    nodes = len(np.asarray(adjacency))
    width = len(str(nodes - 1))  # padded, so that the names sort as the nodes do
    return CausalGraph(adjacency, tuple(f"x{node:0{width}}" for node in range(nodes)))


def _row_counts(rows: int | Sequence[int], sites: int, uneven: bool, seed: int) -> list[int]:
    if isinstance(rows, Sequence | np.ndarray):
        return [int(count) for count in rows]
    if not uneven:
        return [int(rows)] * sites
    shares = [generator(seed, Stream.ROWS, site).choice(UNEVEN_SHARES) for site in range(sites)]
    return [max(MINIMUM_ROWS, round(share * rows)) for share in shares]


def _candidates(mechanism: str | Sequence[str] | None, heterogeneous: bool) -> Sequence[str]:
    if mechanism is None:
        return tuple(MECHANISMS) if heterogeneous else ("gp",)
    return (mechanism,) if isinstance(mechanism, str) else mechanism


def _draw_kind(candidates: Sequence[str], rng: np.random.Generator) -> str:
    """Linear or not with equal probability, then any nonlinear candidate with equal probability.

    The paper says "linear or non-linear", not how often; its data were drawn with 1/2.
    """
    nonlinear = [kind for kind in candidates if kind != "linear"]
    if not nonlinear or ("linear" in candidates and rng.random() < 1 / 2):
        return "linear"
    return nonlinear[rng.integers(len(nonlinear))]


def _record(silo: Silo, model: StructuralModel) -> dict[str, Any]:
    """`weights` act on the parents as the node's equation sees them: standardised ones, if they are.

    Rows and columns beyond the table's are those of hidden variables.
    """
    weights = model.weights()
    return {
        "name": silo.name,
        "rows": silo.rows,
        "mechanism": model.mechanism,
        "noise_variances": (model.noise_deviations**2).tolist(),
        "weights": None if weights is None else weights.tolist(),
    }


def _plain(value: Any) -> Any:
    """Convert a value to the types of JSON."""
    if isinstance(value, CausalGraph):
        return value.adjacency.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return value
