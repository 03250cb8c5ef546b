from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from feddag.cli.assessing import show_assessment, warn
from feddag.cli.fitting import watched_run
from feddag.cli.grids import value as any_value
from feddag.cli.options import Option, Takers, edges, names, number, tiers, with_options
from feddag.cli.tables import edges_of, show_edges, stdout
from feddag.errors import FeddagError
from feddag.learners.factory import make_learner
from feddag.learners.registry import METHODS, Regime, find_method
from feddag.runs import Run
from feddag.silos import Preparation, read_silos
from feddag.silos.preparation import Missing, Scale
from feddag.silos.reading import site_names
from feddag.study import Study, check_obedience, read_knowledge

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
    "workers": Option("Threads that sites are spread over; one per core, if they gain by it, unless given."),
    "noise": Option("Every variable has its own noise variance (units do not matter), or all of a site have one."),
    "restarts": Option("Further searches, from the best order with a part of it shuffled."),
    "time_budget": Option("No further search is begun after so many seconds."),
    "start": Option("The order to begin with, causes first: A,B,C.", names, "NAMES"),
    "required": Option("Edges that must be there: A->B,B->C.", edges, "EDGES"),
    "forbidden": Option("Edges that cannot be there: A->B,B->C.", edges, "EDGES"),
    "tiers": Option("What comes later is no parent of what comes earlier: A,B;C,D.", tiers, "TIERS"),
    "exogenous": Option("Variables that nothing causes: A,B.", names, "NAMES"),
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


def with_parameters(**options: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the parameters of all methods as options; `options` are worded otherwise than for `learn`.

    Those of a method of another package need no wording: numbers and words are taken as they are.
    """
    takers = _takers()
    unworded = {name: Option("", any_value, "VALUE") for parameters in takers.values() for name in parameters}
    return with_options(takers, {**unworded, **OPTIONS, **options}, _panel)


TABLES = "Each site's table: .csv, .tsv, .parquet, .feather, a table of a database file (north.db?table=visits; \
.sqlite, .duckdb) or of any other database (postgresql://user@host/db?table=visits). SITE=SILO gives the site a name."
StudyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Variables, method and all else as agreed in a study.", show_default=False),
]
MethodName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="How to learn; see feddag methods.", show_default=DEFAULT_METHOD),
]
OwnRegime = Annotated[
    Regime | None,
    typer.Option(
        help="Let sites learn together or, for comparison: pool all rows (which moves them: for research), let "
        "each site learn alone, or let the sites' graphs vote. The method's own unless given.",
        show_default=False,
    ),
]
KnowledgeFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What is known of the graph: a TOML file with required, forbidden, tiers, exogenous.",
        show_default=False,
    ),
]
MissingValues = Annotated[
    Missing | None,
    typer.Option(
        help="Refuse missing values, drop rows that have any, or impute the site's median (or commonest level).",
        show_default="error",
    ),
]
CommonScale = Annotated[
    Scale | None,
    typer.Option(
        help="Leave columns as they are, or bring them to mean 0 and deviation 1: by each site's own moments, or "
        "by those of all sites together.",
        show_default="none",
    ),
]
NewRun = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="A new or empty folder for the run.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")]


@with_parameters()
def learn(
    silos: Annotated[list[str] | None, typer.Argument(metavar="SILO", help=TABLES, show_default=False)] = None,
    *,
    study: StudyFile = None,
    method: MethodName = None,
    regime: OwnRegime = None,
    knowledge: KnowledgeFile = None,
    missing: MissingValues = None,
    scale: CommonScale = None,
    out: NewRun = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Go on with a run that was interrupted.", show_default=False),
    ] = None,
    quiet: Quiet = False,
    given: dict[str, Any],
) -> None:
    """Every SILO is a site's. The graph, its scores and the history are written into the folder of the run.
    A run that was interrupted, or killed, is resumed from there and ends as if it had not been.

    Example: feddag learn data/site-*.csv --out run --seed 1

    Example: feddag learn --study study.toml basel=postgresql://me@db/clinic?table=visits lyon.parquet --out run

    Example: feddag learn --resume run
    """
    chosen = told({"method": method, "regime": regime})
    prepared = told({"missing": missing, "scale": scale})
    files = told({"study": study, "knowledge": knowledge})
    if resume is not None:
        refuse({**files, **prepared, **told({"out": out, "SILO": silos or None})}, "--resume takes these from the run")
        _resume(resume, chosen, given, quiet=quiet)
        return
    if not (silos and out):
        raise FeddagError("Give each site's table and --out RUN, or --resume RUN. See: feddag learn --help")
    learn_anew(silos, out, {**files, **chosen, **prepared}, given, quiet=quiet)


def learn_anew(silos: list[str], out: Path, chosen: dict[str, Any], given: dict[str, Any], *, quiet: bool) -> None:
    """Learn a graph into a new run, and show it. `chosen` holds those of the options above that were given."""
    sources, options = site_names(silos), dict(chosen)
    study = options.pop("study", None)
    if study is not None:
        refuse({**options, **given}, f"{study} says how to learn from what")
        run = _by_study(Study.load(study), sources, out)
    else:
        method, regime = options.pop("method", DEFAULT_METHOD), options.pop("regime", None)
        known = _known(options.pop("knowledge", None), method, given)
        learner = make_learner(method, regime, **given, **known)
        tables = read_silos(sources, **options)
        run = Run.start(out, learner, tables, list(sources.values()), method, preparation=Preparation(**options))
    warn(run, quiet=quiet)
    watched_run(run, quiet=quiet)
    _show(run, quiet=quiet)


def told(options: dict[str, Any]) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in options.items() if value is not None}


def refuse(beside: dict[str, Any], reason: str) -> None:
    """Options beside something that says the same."""
    if beside:
        names = [name if name.isupper() else f"--{name.replace('_', '-')}" for name in beside]
        raise FeddagError(f"{reason}. Leave out {' and '.join(names)}.")


def _by_study(study: Study, sources: dict[str, str], out: Path) -> Run:
    tables = study.silos(sources)
    return Run.start(out, study.learner(), tables, list(sources.values()), study.method.name, study=study)


def _known(file: Path | None, method: str, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a file of knowledge stands for."""
    if file is None:
        return {}
    statements = read_knowledge(file)
    check_obedience(method, statements)
    for name in statements:
        if name in given:
            raise FeddagError(f"{file} has {name}, and so has --{name}. Leave out one of them.")
    return statements


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
    else:
        watched_run(run, quiet=quiet)
    _show(run, quiet=quiet)


def _show(run: Run, *, quiet: bool) -> None:
    learned, console = run.result(), stdout()
    for site, account in run.accounts().items():
        if not account.untouched:
            console.print(f"{site}: {account}", markup=False, soft_wrap=True)
    graph = learned.graph_
    edges, variables, sites = len(edges_of(graph)), len(graph.names), len(learned.sites_)
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
    console.print("  trust.json: how it fares on rows held out, and what to beware of")
    console.print("  result.npz: for feddag.load")
