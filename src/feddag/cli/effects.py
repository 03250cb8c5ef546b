from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from feddag.cli.options import LocalTables, OutputFormat
from feddag.cli.tables import bare_table, stdout
from feddag.errors import FeddagError
from feddag.learners import Learner
from feddag.runs import Run
from feddag.silos.reading import site_names
from feddag.trust import TotalEffect, write_dowhy


def effects(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.", show_default=False)],
    *,
    cause: Annotated[str | None, typer.Option(metavar="NAME", help="The variable that is set.")] = None,
    effect: Annotated[str | None, typer.Option(metavar="NAME", help="The variable that changes.")] = None,
    dowhy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the graph for DoWhy, as .gml.", show_default=False)
    ] = None,
    data: LocalTables = None,
    format: OutputFormat = "text",  # noqa: A002 - the word every reader expects here
) -> None:
    """Shows by how much the effect changes for a unit of the cause, at each site and over all: a linear regression that
    adjusts for the cause's parents in the learned graph. It is right if the graph is. Where edges at the cause are
    undirected, there is an effect for each set of parents that it may have. Where hidden common causes are possible, it
    adjusts for observed variables that make up for them, or says which pair stands in the way.

    Example: feddag effects run --cause X1 --effect X3

    Example: feddag effects run --dowhy graph.gml

    Example, at a site of a network run: feddag effects run --data basel=basel.csv --cause X1 --effect X3
    """
    if (cause is None) != (effect is None) or (cause is None and dowhy is None):
        raise FeddagError("Give --cause and --effect, or --dowhy FILE. See: feddag effects --help")
    opened = Run.open(run)
    if data:
        opened.use_tables(site_names(data))
    learned = opened.result()
    if dowhy is not None:
        write_dowhy(learned.graph_ if learned.graph_.allows_hidden_causes else learned.guessed_graph, dowhy)
        typer.echo(f"Wrote {dowhy}: {_direction_note(learned)}", err=True)
    if cause is not None and effect is not None:
        show_effect(opened.effects(cause, effect), format)
        for note in _hidden_causes(learned, cause, effect):
            typer.echo(note, err=True)


def _hidden_causes(learned: Learner, cause: str, effect: str) -> list[str]:
    """Say with which variables on the way to its effect the cause may have a hidden common cause."""
    if learned.graph_.allows_hidden_causes:
        return []  # then the effect is identified whatever is hidden
    dag = learned.guessed_graph
    between = {effect, *dag.ancestors(effect)} & {*dag.descendants(cause)}
    notes = []
    for state, edges in learned.confounded_edges.items():
        others = [other for one, other in edges if one == cause and other in between]
        if others:
            pair = f"{cause} and {', '.join(others)}"
            notes.append(f"A hidden common cause of {pair} is {state}: the effect may be due to it.")
    return notes


def _direction_note(learned: Learner) -> str:
    count = len(learned.graph_.undirected_edges)
    guessed = f" It takes DAGs alone: {count} open edges were given a direction." if count else ""
    hidden = len(learned.graph_.bidirected_edges)
    named = f" {hidden} hidden common causes are nodes of their own." if hidden else ""
    return f"for CausalModel(graph=...) of DoWhy.{guessed}{named}"


def show_effect(found: TotalEffect, format: str) -> None:  # noqa: A002 - as above
    """Print an effect, as text or as JSON."""
    if format == "json":
        typer.echo(json.dumps(found.as_dict(), indent=2, ensure_ascii=False))
        return
    console = stdout()
    console.print(f"Change of {found.effect} for a unit of {found.cause}:", markup=False)
    console.print(_table(found))
    for each in found.estimates:
        if each.tau2 is not None:
            console.print(
                f"If these sites stand for others, adjusted for {each.adjusted_for or 'nothing'}: {each.pooled:.3g}, "
                f"with 95 % confidence between {each.low:.3g} and {each.high:.3g}; sites differ by "
                f"{each.tau2**0.5:.2g} (standard deviation) beyond chance.",
                markup=False,
                soft_wrap=True,
            )
    low, high = found.bounds
    if low != high:
        console.print(f"The parents of {found.cause} are not certain: between {low:.3g} and {high:.3g}.", markup=False)
    if not found.reachable:
        typer.echo(
            f"The graph has no path from {found.cause} to {found.effect}: an effect other than 0 speaks against it."
        )


def _table(found: TotalEffect) -> Table:
    table = bare_table("site", "adjusted for")
    table.add_column("effect", justify="right")
    if any(each.by_mechanisms is not None for each in found.estimates):
        table.add_column("by mechanisms", justify="right")
    for each in found.estimates:
        shown = [f"{each.slope:.3g} ± {each.error:.2g}"]
        if each.by_mechanisms is not None:
            shown.append(f"{each.by_mechanisms:.3g}")
        table.add_row(Text(each.site), Text(each.adjusted_for or "-"), *shown)
    return table
