from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from feddag.cli.assessing import show_assessment, warn
from feddag.cli.fitting import watched_run
from feddag.cli.learn_options import (
    DEFAULT_METHOD,
    TABLES,
    LearnOptions,
    refuse_options,
    with_parameters,
)
from feddag.cli.options import with_fields
from feddag.cli.tables import show_edges, stdout
from feddag.errors import FeddagError
from feddag.learners.factory import make_learner
from feddag.learners.registry import find_method
from feddag.runs import Run, resume_command
from feddag.silos import Preparation, read_silos
from feddag.silos.reading import site_names
from feddag.study import Study, check_obedience, read_knowledge
from feddag.study.document import without_none


@with_parameters()
@with_fields("learning", LearnOptions)
def learn(
    silos: Annotated[list[str] | None, typer.Argument(metavar="SILO", help=TABLES, show_default=False)] = None,
    *,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Go on with a run that was interrupted.", show_default=False),
    ] = None,
    learning: LearnOptions,
    given: dict[str, Any],
) -> None:
    """Every SILO is a site's. The graph, its scores and the history are written into the folder of the run.
    A run that was interrupted, or killed, is resumed from there and ends as if it had not been.

    Example: feddag learn data/site-*.csv --out run

    Example: feddag learn --study study.toml basel=postgresql://me@db/clinic?table=visits lyon.parquet --out run

    Example: feddag learn --resume run
    """
    if resume is not None:
        beside = learning.given("study", "knowledge", "missing", "scale", "out") | without_none({"SILO": silos or None})
        refuse_options(beside, "--resume takes these from the run")
        _resume(resume, {**learning.given("method", "regime"), **given}, quiet=learning.quiet)
    elif silos and learning.out:
        show_run(learn_anew(silos, learning.out, learning, given), quiet=learning.quiet)
    else:
        raise FeddagError("Give each site's table and --out RUN, or --resume RUN. See: feddag learn --help")


def learn_anew(silos: list[str], out: Path, learning: LearnOptions, given: dict[str, Any]) -> Run:
    """Learn a graph into a new run. `given` holds the parameters of the method."""
    sources = site_names(silos)
    if learning.study is not None:
        beside = learning.given("method", "regime", "knowledge", "missing", "scale")
        refuse_options({**beside, **given}, f"{learning.study} says how to learn from what")
        study = Study.load(learning.study)
        tables = study.silos(sources)
        run = Run.start(out, study.learner(), tables, list(sources.values()), study.method.name, study=study)
        for warning in _not_as_over_a_network(study, sources):
            typer.echo(f"Warning: {warning}", err=True)
    else:
        method = learning.method or DEFAULT_METHOD
        learner = make_learner(method, learning.regime, **given, **_known(learning.knowledge, method, given))
        prepared = learning.given("missing", "scale")
        tables = read_silos(sources, **prepared)
        run = Run.start(out, learner, tables, list(sources.values()), method, preparation=Preparation(**prepared))
    warn(run, quiet=learning.quiet)
    watched_run(run, quiet=learning.quiet)
    return run


def _not_as_over_a_network(study: Study, sources: Iterable[str]) -> list[str]:
    """List what the study says of its sites, and what a fit in one process does not do."""
    found = []
    if lacking := [site.name for site in study.sites if site.name not in sources]:
        found.append(
            f"{study.source} names {len(study.sites)} sites, and {', '.join(map(repr, lacking))} "
            f"{'is' if len(lacking) == 1 else 'are'} not given: the graph will be that of the others."
        )
    if study.privacy.differential is not None:
        found.append(
            f"{study.source} has [privacy.differential], and feddag learn has all rows in one process: no noise is "
            "added, and the result is not private. Over a network it would be: feddag federation run"
        )
    return found


def _known(file: Path | None, method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Read the parameters in a file of knowledge."""
    if file is None:
        return {}
    statements = read_knowledge(file)
    check_obedience(method, statements)
    for name in statements:
        if name in given:
            raise FeddagError(f"{file} has {name}, and so has --{name}. Leave out one of them.")
    return statements


def _resume(folder: Path, given: dict[str, Any], *, quiet: bool) -> None:
    run = Run.open(folder)
    if run.record.get("federated") and not run.finished:
        raise FeddagError(f"{folder}: this run learns over a network. Go on with: {resume_command(folder)}")
    kept = {"method": run.record["method"], "regime": run.record["regime"], **run.record["parameters"]}
    find_method(kept["method"]).check_names([name for name in given if name not in ("method", "regime")])
    for name, value in given.items():
        if (type(value), value) != (type(kept[name]), kept[name]):  # one site is not the share of all
            raise FeddagError(
                f"The run has {name}={kept[name]!r}, and --resume keeps it. Got {value!r} instead: "
                "leave it out, or start a new run."
            )
    if run.finished:
        run.clear()
        typer.echo("The run has finished already.")
    else:
        watched_run(run, quiet=quiet)
    show_run(run, quiet=quiet)


def show_run(run: Run, *, quiet: bool) -> None:
    """Print the graph of a finished run, how far to trust it, and the files that hold it."""
    learned, console = run.result(), stdout()
    for site, account in run.accounts().items():
        if not account.untouched:
            console.print(f"{site}: {account}", markup=False, soft_wrap=True)
    graph = learned.graph_
    edges, variables, sites = graph.edge_count, len(graph.names), len(learned.sites_)
    console.print(f"{edges} edges among {variables} variables, learned from {sites} sites:")
    if learned.learned_alone:
        console.print("(Each site learned alone; scores are means over the sites.)")
    show_edges(console, learned)
    show_assessment(console, run, quiet=quiet)
    console.print(f"Written into {run.folder}:", markup=False, soft_wrap=True)
    console.print("  graph.csv, .edges.csv, .dot, .graphml, .json: the graph")
    console.print("  edge_scores.csv, history.csv: every pair's score, and every round")
    for name in learned.tables():
        console.print(f"  {name}.csv")
    if run.assessment() is not None:
        console.print("  trust.json: how it fares on rows held out, and what to beware of")
    console.print("  result.npz: for feddag.load")
