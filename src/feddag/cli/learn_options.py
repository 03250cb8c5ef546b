"""The options of every command that learns a graph from tables: how to read them, and the parameters of all methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from feddag.cli.options import Option, Takers, counts, edges, names, number, ranges, tiers, value, with_options
from feddag.errors import FeddagError
from feddag.learners.registry import METHODS, Regime, installed_methods
from feddag.silos.preparation import Missing, Scale
from feddag.study.document import without_none

DEFAULT_METHOD = "search"
"""What `learn`, `stability` and `study init` use unless a method is named."""

OPTIONS = {
    "sharing": Option("What sites have in common: the graph, all (mechanisms, too), or none: each learns alone."),
    "model": Option("Masked neural networks, linear equations, or the networks of NOTEARS-MLP or DAG-GNN."),
    "constraint": Option("Of admg: one edge for each pair, or besides none <-> between a variable and its ancestor."),
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
    "patience": Option("The run ends once so many sub-problems have left the graph as it was."),
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
    "keep_doubtful": Option("Keep edges in the graph that are not surely there."),
    "latent": Option("Hidden common causes: mark edges that one may explain, or allow them (the graph is a PAG)."),
    "groups": Option("With 2, sites may fall into two groups with different graphs; then each gets one."),
    "epsilon": Option("What all that leaves the sites may reveal of one person, together with delta."),
    "delta": Option("The probability that more is revealed; far below one over the number of people."),
    "ranges": Option(
        "The smallest and largest plausible value of each number, without a look at the data: age=0:120,bmi=12:50; or "
        "one for all, 0:120 (write --ranges=-3:3 if it begins with a minus).",
        ranges,
        "RANGES",
    ),
    "levels": Option("How many levels each discrete variable has: sex=2,stage=4.", counts, "COUNTS"),
    "rows_per_person": Option("The most rows that one person has."),
    "expected_rows": Option("About how many rows all sites have together; decides how many functions are released."),
    "mechanisms": Option("Release functions of one and two causes, or straight lines, with the least noise."),
    "quorum": Option("How many sites must enter the release; all unless given."),
    "noise_seed": Option("For simulations only: noise that can be repeated, and so protects nobody."),
    "alpha": Option("The level of the tests."),
    "basis_functions": Option("Of each spline."),
    "neighbours": Option("How many possible parents of a variable enter the search, at most."),
    "sort_by": Option("What the variables are sorted by."),
    "edges_per_node": Option("How many edges to expect, divided by the number of variables."),
}


TABLES = "Each site's table: .csv, .tsv, .parquet, .feather, a table of a database file (north.db?table=visits; \
.sqlite, .duckdb) or of any other database (postgresql://user@host/db?table=visits). SITE=SILO gives the site a name."


@dataclass(frozen=True)
class LearnOptions:
    """The options of `learn` and `stability`."""

    study: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Variables, method and all else as agreed in a study.", show_default=False),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="How to learn; see feddag methods.", show_default=DEFAULT_METHOD),
    ] = None
    regime: Annotated[
        Regime | None,
        typer.Option(
            help="Let sites learn together or, for comparison: pool all rows (which moves them: for research), let "
            "each site learn alone, or let the sites' graphs vote. The method's own unless given.",
            show_default=False,
        ),
    ] = None
    knowledge: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is known of the graph: a TOML file with required, forbidden, tiers, exogenous.",
            show_default=False,
        ),
    ] = None
    missing: Annotated[
        Missing | None,
        typer.Option(
            help="Refuse missing values, drop rows that have any, or impute values of the site's own by the rest.",
            show_default="error",
        ),
    ] = None
    scale: Annotated[
        Scale | None,
        typer.Option(
            help="Leave columns as they are, or bring them to mean 0 and deviation 1: by each site's own moments, or "
            "by those of all sites together.",
            show_default="none",
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A new or empty folder for the run.", show_default=False),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False

    def given(self, *names: str) -> dict[str, Any]:
        """Return those of these options that were given."""
        return without_none({name: getattr(self, name) for name in names})


def refuse_options(given: dict[str, Any], reason: str) -> None:
    """Refuse options that stand beside something which says the same."""
    if given:
        names = [name if name.isupper() else f"--{name.replace('_', '-')}" for name in given]
        raise FeddagError(f"{reason}. Leave out {' and '.join(names)}.")


def _takers() -> Takers:
    """Return the parameters of each method; methods that share a learner and its defaults stand together."""
    together: dict[tuple[str, str], list[str]] = {}
    for name, method in installed_methods().items():
        together.setdefault((method.estimator, repr(method.defaults)), []).append(name)
    return {", ".join(names): METHODS[names[0]].parameters() for names in together.values()}


def _panel(takers: Sequence[str]) -> str:
    names = ", ".join(takers)
    learners = {METHODS[name].estimator for name in names.split(", ")}
    return f"Parameters of {names if len(learners) == 1 else 'several methods'}"


def with_parameters(**options: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the parameters of all methods as options; `options` are worded otherwise than for `learn`.

    Parameters of a method of another package need no wording: numbers and words are taken as they are.
    """
    takers = _takers()
    unworded = {name: Option("", value, "VALUE") for parameters in takers.values() for name in parameters}
    return with_options(takers, {**unworded, **OPTIONS, **options}, _panel)
