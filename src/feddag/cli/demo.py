from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from feddag.cli.fitting import watched, watched_run
from feddag.cli.tables import bare_table, judged_edges, stdout, verdict_table
from feddag.graphs import CausalGraph, compare
from feddag.learners import EvidenceSearch, FedDAG, Learner
from feddag.reports import write_report
from feddag.runs import Run, check_that_folder_is_free
from feddag.silos import CheckedSilos, read_silos, simulate

_RAW, _STANDARDISED = "as drawn", "standardised"


def demo(
    *,
    nodes: Annotated[int, typer.Option(help="The number of variables.")] = 8,
    sites: Annotated[int, typer.Option(help="The number of sites.")] = 10,
    rows: Annotated[int, typer.Option(help="Of each site's table.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the data and of the fits.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A new or empty folder, for the tables (FOLDER/data) and the run of the search (FOLDER/run).",
            show_default="a new temporary one",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Simulates sites that share one causal graph, each with mechanisms of its own. FedDAG with the paper's settings
    (GS-FedDAG) and the search learn the graph, from the columns as they were drawn and from standardised ones: units
    are arbitrary, and a method should not need them. Compares all four graphs with the true one, and writes the report
    of the search. Takes about a minute.

    Example: feddag demo --seed 1
    """
    simulation = simulate(nodes, sites=sites, rows=rows, heterogeneous=True, seed=seed)
    read_silos(simulation)  # refuses impossible options before a folder is made
    folder = Path(tempfile.mkdtemp(prefix="feddag-demo-")) if out is None else out
    check_that_folder_is_free(folder)
    simulation.write(folder / "data")
    sources = [folder / "data" / f"{silo.name}.csv" for silo in simulation.silos]
    tables = {_RAW: read_silos(sources), _STANDARDISED: read_silos(sources, scale="federated")}
    progress = Console(stderr=True, highlight=False, quiet=quiet, soft_wrap=True)
    progress.print(
        f"{sites} sites, each with {rows} rows of {nodes} variables and mechanisms of its own; "
        f"one graph of {len(simulation.truth.edges)} edges behind all of them."
    )
    run = Run.start(folder / "run", EvidenceSearch(seed=seed), tables[_RAW], sources)
    learned: dict[tuple[str, str], Learner] = {}
    for columns, silos in tables.items():
        progress.print(f"The search, columns {columns}:")
        learned["search", columns] = (
            watched_run(run, quiet=quiet) if columns == _RAW else _fit(EvidenceSearch(seed=seed), silos, quiet=quiet)
        )
    for columns, silos in tables.items():
        progress.print(f"FedDAG with the paper's settings, columns {columns}:")
        learned["FedDAG", columns] = _fit(FedDAG(seed=seed), silos, quiet=quiet)
    run.assess()
    console = stdout()
    console.print(verdict_table(judged_edges(run.result().graph_, simulation.truth)))
    console.print()
    console.print(_comparison(learned, simulation.truth))
    console.print(
        "\nSHD counts the pairs that differ from the truth; the strict SHD also counts edges whose direction is left "
        "open. No row left its site.",
        soft_wrap=True,
    )
    console.print(f"Report of the search: {write_report(run.folder)}", markup=False, soft_wrap=True)
    truth = folder / "data" / "truth.csv"
    console.print(f"Next: feddag evaluate {run.folder} --truth {truth}", markup=False, soft_wrap=True)


def _fit(learner: Learner, silos: CheckedSilos, *, quiet: bool) -> Learner:
    return watched(lambda progress: learner.fit(silos, progress=progress), quiet=quiet)


def _comparison(learned: dict[tuple[str, str], Learner], truth: CausalGraph) -> Table:
    table = bare_table("method", "columns")
    for heading in ("SHD", "strict SHD", "edges", "seconds", "bytes sent by a site"):
        table.add_column(heading, justify="right")
    for (method, columns), learner in learned.items():
        metrics = compare(learner.graph_, truth)
        table.add_row(
            method,
            columns,
            str(metrics.shd),
            str(metrics.strict_shd),
            str(learner.graph_.edge_count),
            f"{learner.seconds_:.1f}",
            f"{learner.communication_.sent[learner.sites_[0]]:,}",
        )
    table.add_row("truth", "", "0", "0", str(len(truth.edges)), "", "")
    return table
