from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from feddag.cli.options import Option, number, with_options
from feddag.files import atomic_write, check_new_folder
from feddag.graphs import read_graph
from feddag.silos.simulation import simulate as simulate_sites
from feddag.study_template import study_with_experiments


def _one_or_several(text: str) -> str | list[str]:
    several = text.split(",")
    return several if len(several) > 1 else text


def _one_or_several_numbers(text: str) -> Any:
    several = [number(each) for each in text.split(",")]
    return several if len(several) > 1 else several[0]


OPTIONS = {
    "nodes": Option("The number of variables; 10 unless the graph is a file."),
    "graph": Option("Erdős-Rényi, scale-free (Barabási-Albert), or a graph of your own.", str, "ER|SF|FILE"),
    "edges_per_node": Option('The 2 of "ER2".', number, "NUMBER"),
    "edge_probability": Option("Of an Erdős-Rényi edge: as the paper's data were drawn, or as it is printed."),
    "orientation": Option("Of a scale-free edge: along a random order, or from old to new."),
    "mechanism": Option(
        "linear, gp, gp-add, mlp or mim; with --heterogeneous several, separated by commas. "
        "gp unless given, or all where sites are heterogeneous.",
        _one_or_several,
        "NAME[,...]",
    ),
    "heterogeneous": Option("Let each site draw a model of its own."),
    "sites": Option("The number of sites."),
    "rows": Option("Per site: one number for all, or one for each.", _one_or_several_numbers, "NUMBER[,...]"),
    "uneven": Option("Let each site have 20, 40, 60 or 80 % of the rows."),
    "noise": Option("gaussian, laplace, uniform, exponential or gumbel."),
    "noise_variance": Option("Of every node; the paper's unless given."),
    "noise_deviation_range": Option("Draw each node's standard deviation between these two instead."),
    "standardised": Option("Bring each variable to mean 0 and variance 1 before its children see it."),
    "shared_draws": Option("Seed heterogeneous sites alike, as the paper's data were. For comparison only."),
    "shifted": Option("Let each site have so many mechanisms of its own."),
    "shift": Option("What differs in these: the whole mechanism, or the mean alone."),
    "interventions": Option("Let an experiment set so many variables at each site, in turn.", number, "NUMBER"),
    "varying": Option("Let so many sites have one further edge."),
    "hidden": Option("Let so many further variables, which no table has, act on two or three of the others each."),
    "seed": Option("Equal options give equal data."),
}


@with_options(
    {"simulate": inspect.signature(simulate_sites, eval_str=True).parameters}, OPTIONS, lambda takers: "What to draw"
)
def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new or empty folder.", show_default=False)],
    *,
    given: dict[str, Any],
) -> None:
    """Writes a table for each site, the true graph (truth.csv) and what was drawn (simulation.json).

    Example: feddag simulate data --nodes 10 --heterogeneous --seed 1
    """
    check_new_folder(out)
    if given.get("graph", "ER") not in ("ER", "SF"):
        given["graph"] = read_graph(given["graph"])
    with Console(stderr=True).status("Drawing the sites' tables"):
        simulation = simulate_sites(**given)
    simulation.write(out)
    console = Console(highlight=False, soft_wrap=True)
    first, last = simulation.silos[0], simulation.silos[-1]
    tables = f"{first.name}.csv" if first is last else f"{first.name}.csv to {last.name}.csv"
    rows = sum(silo.rows for silo in simulation.silos)
    edges = len(simulation.truth.edges)
    console.print(f"Wrote into {out}:", markup=False)
    console.print(f"  {tables}: {len(first.columns)} variables, {rows} rows in all")
    console.print(f"  truth.csv: the graph behind them, with {edges} edges")
    if simulation.hidden:
        pairs = len(simulation.admg.bidirected_edges)
        console.print(f"  truth.admg.csv: the same, with an edge <-> for each pair that hidden variables join: {pairs}")
        console.print("  truth.pag.csv: what data can show of it")
    console.print("  simulation.json: what was drawn")
    study, latent = "", " --latent allow" if simulation.hidden else ""
    if any(silo.is_target.any() for silo in simulation.silos):
        with atomic_write(out / "study.toml") as file:
            file.write(study_with_experiments("simulation", simulation.silos))
        console.print("  study.toml: which variables experiments set at which site")
        study = f" --study {out}/study.toml"
    console.print(f"Learn it back with: feddag learn{study} {out}/site-*.csv{latent} --out RUN", markup=False)
