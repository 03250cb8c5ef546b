from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from feddag.cli.options import OutputFormat
from feddag.cli.tables import Verdict, judged_edges, stdout, verdict_table
from feddag.graphs import CausalGraph, MarkMetrics, compare, compare_marks, read_graph
from feddag.runs import load


def evaluate(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="The folder of a run, or a graph's file.", show_default=False),
    ],
    truth: Annotated[Path, typer.Option(metavar="FILE", help="The true graph's file.", show_default=False)],
    format: OutputFormat = "text",  # noqa: A002 - the word every reader expects here
) -> None:
    """Prints SHD, TPR and FDR by the rules of the paper, which count a true edge as found where its direction is left
    open; the strict SHD, which counts it as an error; and the verdict on each edge. Where sites learned alone
    (--sharing none, --regime separate or voting), also the mean over the sites' own graphs. Where a graph allows hidden
    common causes, also how many adjacencies, arrow heads and edges <-> are right.

    Example: feddag evaluate run --truth data/truth.csv
    """
    estimate, true, site_graphs = _read(run, truth)
    metrics = compare(estimate, true)
    judged = judged_edges(estimate, true)
    sites = {site: compare(graph, true).as_dict() for site, graph in site_graphs.items()}
    mean = {name: fmean(each[name] for each in sites.values()) for name in metrics.as_dict() if sites}
    marks = compare_marks(estimate, true) if estimate.allows_hidden_causes or true.allows_hidden_causes else None
    if format == "json":
        edges: dict[str, list[tuple[str, str]]] = {
            verdict: [edges[0][:2] for edges, its in judged if its == verdict] for verdict in get_args(Verdict)
        }
        report: dict[str, Any] = {"metrics": metrics.as_dict(), "edges": edges}
        if marks:
            report["marks"] = marks.as_dict()
        if sites:
            report |= {"sites": sites, "mean_over_sites": mean}
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
        return
    console = stdout()
    console.print(verdict_table(judged))
    console.print()
    _print_metrics(console, metrics.as_dict())
    if marks:
        _print_marks(console, marks)
    if sites:
        console.print()
        console.print(f"Mean over the {len(sites)} sites, each by itself:")
        _print_metrics(console, mean)


def _read(run: Path, truth: Path) -> tuple[CausalGraph, CausalGraph, dict[str, CausalGraph]]:
    """Return the estimate, the truth, and each site's graph if it learned alone.

    An edge list leaves out variables that have no edge: the other graph names them.
    """
    if not run.is_dir():
        true = read_graph(truth)
        return read_graph(run, names=true.names), true, {}
    learned = load(run)
    true = read_graph(truth, names=learned.graph_.names)
    return learned.graph_, true, learned.site_graphs_ if learned.learned_alone else {}


def _print_metrics(console: Console, metrics: dict[str, Any]) -> None:
    console.print("  ".join(f"{name.upper()} {metrics[name]:.4g}" for name in ("shd", "tpr", "fdr", "nnz")))
    console.print("  ".join(f"{name} {metrics[name]:.4g}" for name in ("precision", "recall", "f1")))
    console.print("  ".join(f"{name} {metrics[name]:.4g}" for name in ("missing", "extra", "reversed")))
    console.print(f"strict SHD {metrics['strict_shd']:.4g}: {metrics['left_open']:.4g} open directions are errors here")


def _print_marks(console: Console, marks: MarkMetrics) -> None:
    named = {
        "adjacencies": marks.adjacency,
        "arrow heads": marks.arrowhead,
        "tails": marks.tail,
        "edges <->": marks.bidirected,
    }
    for name, rates in named.items():
        console.print(f"{name}: precision {rates.precision:.4g}  recall {rates.recall:.4g}  f1 {rates.f1:.4g}")
    console.print(f"edges that differ {marks.shd}; edges and ends of edges to change {marks.mark_shd}")
