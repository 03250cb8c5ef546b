from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from feddag.cli.fitting import watched, watched_run
from feddag.cli.progress import clock
from feddag.cli.tables import judged_edges, stdout, verdict_table
from feddag.graphs import compare
from feddag.learners import FedDAG, Learner
from feddag.runs import Run, check_that_folder_is_free
from feddag.silos import Simulation, read_silos, simulate


def demo(
    *,
    nodes: Annotated[int, typer.Option(help="The number of variables.")] = 10,
    sites: Annotated[int, typer.Option(help="The number of sites.")] = 10,
    rows: Annotated[int, typer.Option(help="Of each site's table.")] = 600,
    seed: Annotated[int, typer.Option(help="Of the data and of the run.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep the tables (FOLDER/data) and the run (FOLDER/run).",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Simulates sites that share one causal graph, but each with mechanisms of its own; learns the graph with
    GS-FedDAG; and compares it with the true one. Takes a minute or two.

    Example: feddag demo --seed 1
    """
    simulation = simulate(nodes, sites=sites, rows=rows, heterogeneous=True, seed=seed)
    estimator = FedDAG(seed=seed)
    estimator.check(simulation)
    Console(stderr=True, highlight=False).print(
        f"{sites} sites, each with {rows} rows of {nodes} variables and mechanisms of its own: "
        f"one graph of {len(simulation.truth.edges)} edges stands behind all of them."
    )
    if out is None:
        learned = watched(lambda progress: estimator.fit(simulation, progress=progress), quiet=quiet)
    else:
        learned = _learn_in_folder(simulation, estimator, out, quiet=quiet)
    _show(learned, simulation, out)


def _learn_in_folder(simulation: Simulation, estimator: Learner, out: Path, *, quiet: bool) -> Learner:
    """As a user would: from files, so that the run can be resumed and evaluated."""
    check_that_folder_is_free(out)
    simulation.write(out / "data")
    sources = [out / "data" / f"{silo.name}.csv" for silo in simulation.silos]
    silos = read_silos(sources)
    return watched_run(Run.start(out / "run", estimator, silos, sources), quiet=quiet)


def _show(learned: Learner, simulation: Simulation, out: Path | None) -> None:
    console = stdout()
    metrics = compare(learned.graph_, simulation.truth)
    edges = len(simulation.truth.edges)
    found = edges - metrics.missing - metrics.reversed
    sent = learned.communication_.sent[learned.sites_[0]]
    received = learned.communication_.received[learned.sites_[0]]
    console.print(verdict_table(judged_edges(learned.graph_, simulation.truth)))
    console.print(f"\nSHD {metrics.shd}   TPR {metrics.tpr:.2f}   time {clock(learned.seconds_)}")
    console.print(
        f"{found} of {edges} edges were found, and no row left its site: each sent {sent:,} bytes "
        f"and received {received:,}, all of them parameters of the graph.\n"
    )
    if out is None:
        console.print("Next: feddag simulate data --heterogeneous, then feddag learn data/site-*.csv --out run")
    else:
        console.print(f"Next: feddag evaluate {out}/run --truth {out}/data/truth.csv", markup=False, soft_wrap=True)
