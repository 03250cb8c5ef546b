"""The list of commands, and what they have in common: they load late, and tell a mistake in one line."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from feddag.errors import FeddagError

SUMMARIES = {
    "demo": "Watch ten sites find the graph behind their data, without showing each other a row.",
    "simulate": "Simulate the tables of several sites, and the causal graph behind them.",
    "learn": "Learn one causal graph from the tables of several sites.",
    "evaluate": "Compare a learned graph with the true one.",
    "methods": "List the methods that learn a graph: what each assumes, and what leaves a site.",
}
_NEEDS_NO_ARGUMENTS = ("demo", "methods")


def overview(app: typer.Typer) -> None:
    """Register every command by its summary alone: `feddag --help` needs no numerical library."""
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(lambda: None)


def _loaded(name: str) -> Any:
    """The command itself: the function of the module's name, its docstring below the summary."""
    function = getattr(import_module(f"feddag.cli.{name}"), name)
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    text, bare = f"{SUMMARIES[name]}\n\n{function.__doc__}", name in _NEEDS_NO_ARGUMENTS
    app.command(name, help=text, no_args_is_help=not bare)(function)
    return typer.main.get_command(app)


class Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(SUMMARIES)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _loaded(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FeddagError as error:
            message = str(error)
        except BrokenPipeError:  # the reader of our output has seen enough
            raise
        except OSError as error:
            message = f"{error.filename}: {error.strerror}." if error.filename else str(error)
        typer.echo(f"Error: {' '.join(message.splitlines())}", err=True)
        raise typer.Exit(2)
