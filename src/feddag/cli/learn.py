from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from feddag.cli.fitting import watched_run
from feddag.cli.options import Option, Takers, edges, names, number, tiers, with_options
from feddag.cli.tables import edge_table, edges_of, stdout
from feddag.errors import FeddagError
from feddag.learners import Learner
from feddag.learners.registry import METHODS, Regime, find_method, make_learner
from feddag.runs import Run, load

DEFAULT_METHOD = "feddag"

OPTIONS = {
    "sharing": Option("What sites have in common: the graph, all (mechanisms, too), or none: each learns alone."),
    "model": Option("Masked neural networks, linear equations, or the networks of NOTEARS-MLP or DAG-GNN."),
    "acyclicity": Option("The constraint: the paper's, DAGMA's, or DAG-GNN's."),
    "participation": Option("How many sites (3), or which share of them (0.3), enter each average.", number, "NUMBER"),
    "weighting": Option("Sites count equally in an average, or by their rows."),
    "alpha_init": Option("The first α."),
    "rho_init": Option("The first ρ; by the number of variables unless given."),
    "rho_max": Option("The run ends when ρ exceeds this."),
    "beta": Option("The factor by which ρ is raised; by the number of variables unless given."),
    "gamma": Option("ρ is raised unless h has fallen to this share of itself."),
    "h_tol": Option("The run ends when h, the distance from a DAG, has fallen to this."),
    "it_max": Option("The run ends after so many updates of α."),
    "it_inner": Option("Local steps in a sub-problem."),
    "it_fl": Option("Local steps between two aggregations."),
    "rho_update": Option("Raise ρ until a sub-problem makes progress, or once for each."),
    "l1": Option("The weight λ of the sparsity term."),
    "learning_rate": Option("Of Adam."),
    "temperature": Option("The τ of the Gumbel-sigmoid mask."),
    "hidden_layers": Option("Of each variable's masked network."),
    "hidden_units": Option("In each hidden layer; 16 for mlp, 10 for notears-mlp, 64 for dag-gnn unless given."),
    "threshold": Option("Edges score above this; 0.5 for mlp and 0.3 for the other models unless given."),
    "seed": Option("Equal data, options and seed give an equal graph."),
    "workers": Option("Threads that sites are spread over; one per core unless given."),
    "noise": Option("Every variable has its own noise variance (units do not matter), or all of a site have one."),
    "restarts": Option("Further searches, from the best order with a part of it shuffled."),
    "time_budget": Option("No further search is begun after so many seconds."),
    "start": Option("The order to begin with, causes first: A,B,C.", names, "NAMES"),
    "required": Option("Edges that must be there: A->B,B->C.", edges, "EDGES"),
    "forbidden": Option("Edges that cannot be there: A->B,B->C.", edges, "EDGES"),
    "tiers": Option("What comes later causes nothing that comes earlier: A,B;C,D.", tiers, "TIERS"),
    "confidence": Option("Directions less sure than this are left open."),
    "alpha": Option("The level of the tests."),
    "basis_functions": Option("Of each spline."),
    "neighbours": Option("How many possible parents of a variable enter the search, at most."),
    "sort_by": Option("What the variables are sorted by."),
    "edges_per_node": Option("How many edges to expect, divided by the number of variables."),
}


def _takers() -> Takers:
    """The methods by name; those that share a learner and its defaults stand together."""
    together: dict[tuple[str, str], list[str]] = {}
    for name, method in METHODS.items():
        together.setdefault((method.estimator, repr(method.defaults)), []).append(name)
    return {", ".join(names): METHODS[names[0]].parameters() for names in together.values()}


def _panel(takers: Sequence[str]) -> str:
    names = ", ".join(takers)
    learners = {METHODS[name].estimator for name in names.split(", ")}
    return f"Parameters of {names if len(learners) == 1 else 'several methods'}"


@with_options(_takers(), OPTIONS, _panel)
def learn(
    silos: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SILO", help="Each site's table: .csv, .tsv or .parquet.", show_default=False),
    ] = None,
    *,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How to learn; see feddag methods.", show_default=DEFAULT_METHOD),
    ] = None,
    regime: Annotated[
        Regime | None,
        typer.Option(
            help="Let sites learn together or, for comparison: pool all rows (which moves them: for research), let "
            "each site learn alone, or let the sites' graphs vote. The method's own unless given.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A new or empty folder for the run.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Go on with a run that was interrupted.", show_default=False),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
    given: dict[str, Any],
) -> None:
    """Every file is a site. The graph, its scores and the history are written into the folder of the run.
    A run that was interrupted, or killed, is resumed from there and ends as if it had not been.

    Example: feddag learn data/site-*.csv --out run --seed 1

    Example: feddag learn --resume run
    """
    if resume is not None:
        if silos or out:
            raise FeddagError("--resume takes the sites and the folder from the run. Leave out SILO and --out.")
        chosen = {"method": method, "regime": regime}
        _resume(resume, {name: value for name, value in chosen.items() if value is not None}, given, quiet=quiet)
    elif silos and out:
        method = method or DEFAULT_METHOD
        _start(silos, out, method, make_learner(method, regime, **given), quiet=quiet)
    else:
        raise FeddagError("Give each site's file and --out RUN, or --resume RUN. See: feddag learn --help")


def _start(silos: list[Path], out: Path, method: str, estimator: Learner, *, quiet: bool) -> None:
    tables = estimator.check(silos)
    run = Run.start(out, estimator, tables, silos, method)
    _show(watched_run(run, tables, quiet=quiet), out)


def _resume(folder: Path, chosen: dict[str, str], given: dict[str, Any], *, quiet: bool) -> None:
    run = Run.open(folder)
    kept = {"method": run.record["method"], "regime": run.record["regime"], **run.record["parameters"]}
    find_method(kept["method"]).check_names(given)
    for name, value in {**chosen, **given}.items():
        if (type(value), value) != (type(kept[name]), kept[name]):  # one site is not the share of all
            raise FeddagError(
                f"The run has {name}={kept[name]!r}, and --resume keeps it. Got {value!r} instead: "
                "leave it out, or start a new run."
            )
    if run.finished:
        run.clear()
        typer.echo("The run has finished already.")
        _show(load(folder), folder)
    else:
        _show(watched_run(run, run.silos(), quiet=quiet), folder)


def _show(learned: Learner, folder: Path) -> None:
    console = stdout()
    graph = learned.graph_
    edges, variables, sites = len(edges_of(graph)), len(graph.names), len(learned.sites_)
    console.print(f"{edges} edges among {variables} variables, learned from {sites} sites:")
    if learned.learned_alone:
        console.print("(Each site learned alone; scores are means over the sites.)")
    console.print(edge_table(graph))
    console.print(f"Written into {folder}:", markup=False, soft_wrap=True)
    console.print("  graph.csv, .edges.csv, .dot, .graphml, .json: the graph")
    console.print("  edge_scores.csv, history.csv: every pair's score, and every round")
    for name in learned.tables():
        console.print(f"  {name}.csv")
    console.print("  result.npz: for feddag.load")
