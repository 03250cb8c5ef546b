from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Annotated, Any

import pandas as pd
import typer
from rich.table import Table
from rich.text import Text

from feddag.cli.fitting import watched
from feddag.cli.learn import learn_anew, show_run
from feddag.cli.learn_options import (
    DEFAULT_METHOD,
    TABLES,
    LearnOptions,
    refuse_options,
    with_parameters,
)
from feddag.cli.options import LocalTables, Option, command, with_fields
from feddag.cli.tables import bare_table, stdout
from feddag.errors import FeddagError
from feddag.learners.registry import find_method
from feddag.runs import Run
from feddag.silos.reading import site_names
from feddag.study.document import without_none
from feddag.trust import EdgeStability
from feddag.trust.stability import check_replicates


@with_parameters(seed=Option("Of the draws and, where the method has one, of its fit."))
@with_fields("learning", LearnOptions)
def stability(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|SILO...",
            help=f"The folder of a finished run; or with --out, to learn the graph first, each site's table. {TABLES}",
            show_default=False,
        ),
    ],
    *,
    bootstraps: Annotated[int, typer.Option(help="How many times every site draws half of its rows.")] = 20,
    jobs: Annotated[int, typer.Option(help="Processes that the replicates are spread over.")] = 2,
    data: LocalTables = None,
    learning: LearnOptions,
    given: dict[str, Any],
) -> None:
    """Learns the run's graph again and again, with its method and parameters: from half of the rows of every site,
    drawn by chance, and without each site in turn. Writes stability.csv, how often each edge and its direction come
    back and which sites it depends on, and mechanisms.csv, how well each variable's causes explain it at each site and
    where sites differ. If it was interrupted, call it again: replicates that are finished are kept in the run's
    folder.

    Given tables instead of a run, it first learns the graph into a new run, with the options of feddag learn.

    Example: feddag stability run --bootstraps 50 --jobs 2

    Example: feddag stability data/site-*.csv --out run --bootstraps 50
    """
    seed = given.pop("seed", None)
    check_replicates(bootstraps, jobs, seed or 0)
    if learning.out is None:
        if len(tables) > 1:
            raise FeddagError(f"{len(tables)} tables are given, and no folder for the run. Name one: --out RUN")
        beside = learning.given("study", "method", "regime", "knowledge", "missing", "scale")
        refuse_options({**beside, **given}, f"{tables[0]} is taken for a run, which says how to learn")
        run = Run.open(tables[0])
        if data:
            run.use_tables(site_names(data))
    else:
        refuse_options(without_none({"data": data or None}), "the tables are given already")
        has_seed = learning.study is None and "seed" in find_method(learning.method or DEFAULT_METHOD).parameters()
        parameters = given | without_none({"seed": seed if has_seed else None})
        run = learn_anew(tables, learning.out, learning, parameters)
        show_run(run, quiet=learning.quiet)
    _show_stability(run, data or [], bootstraps=bootstraps, jobs=jobs, seed=seed or 0, quiet=learning.quiet)


def _show_stability(run: Run, data: Sequence[str], *, bootstraps: int, jobs: int, seed: int, quiet: bool) -> None:
    local = "".join(f" --data {shlex.quote(each)}" for each in data)
    found = watched(
        lambda progress: run.stability(bootstraps=bootstraps, jobs=jobs, seed=seed, progress=progress),
        quiet=quiet,
        resume=command(
            f"feddag stability {shlex.quote(os.fspath(run.folder))}{local}",
            {"bootstraps": bootstraps, "jobs": jobs, "seed": seed},
        ),
    )
    mechanisms, console = run.mechanisms(), stdout()
    console.print(f"Of {bootstraps} graphs learned from half of the rows, with bounds of 95 % confidence:")
    console.print(edge_table(found.edges()))
    _print_mechanisms(mechanisms)
    console.print(f"Written into {run.folder}: stability.csv, mechanisms.csv", markup=False, soft_wrap=True)


def edge_table(edges: Sequence[EdgeStability]) -> Table:
    """Make a table of the learned graph's edges; the file has the others, too."""
    table = bare_table("edge")
    table.add_column("there in")
    table.add_column("of these directed so")
    table.add_column("without a site")
    for edge in edges:
        if edge.learned == "not":
            continue
        arrow = "→" if edge.learned == "directed" else "—"
        fates = zip(edge.driving_site.split("; "), edge.without_it.split("; "), strict=True)
        hangs = "; ".join(f"{fate} without {site}" for site, fate in fates if site)
        table.add_row(
            Text(f"{edge.cause} {arrow} {edge.effect}"),
            _share(edge.frequency, edge.low, edge.high),
            _share(edge.direction_frequency, edge.direction_low, edge.direction_high),
            Text(hangs),
        )
    return table


def _share(value: float, low: float, high: float) -> str:
    return "-" if pd.isna(value) else f"{value:.0%} ({low:.0%} to {high:.0%})"


def _print_mechanisms(mechanisms: pd.DataFrame) -> None:
    of_each = mechanisms.drop_duplicates("effect")
    differing = of_each.loc[of_each["differs"], "effect"].tolist()
    if differing:
        typer.echo(
            f"Sites differ in how these come about: {', '.join(differing)}. A regression of each site's own predicts "
            "them better than one for all."
        )
    else:
        typer.echo("No mechanism is seen to differ between sites.")
