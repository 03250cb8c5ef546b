"""The list of commands. They are imported when they are called, and report a mistake in one line."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from feddag.errors import FeddagError
from feddag.files import NO_ROOM

SUMMARIES = {
    "demo": "Watch ten sites find the graph behind their data by two methods, without showing each other a row.",
    "simulate": "Simulate the tables of several sites, and the causal graph behind them.",
    "learn": "Learn one causal graph from the tables of several sites.",
    "watch": "Follow a run that is under way, in the terminal or in the browser.",
    "report": "Write the report of a run: the graph, how far to trust it, and how it was learned.",
    "evaluate": "Compare a learned graph with the true one.",
    "stability": "Show how sure each edge of a run is, and which sites it depends on.",
    "effects": "Show by how much one variable changes another, at each site.",
    "tune": "Choose a method's parameters for tables whose graph nobody knows.",
    "methods": "List the methods that learn a graph: what each assumes, and what leaves a site.",
    "experiment": "Run the tables and figures of the paper, and compare with what it published.",
    "experiment list": "List the experiments: where each stands in the paper, and how much of it is there.",
    "experiment run": "Run what is lacking of an experiment.",
    "experiment show": "Show an experiment's results beside the published ones.",
    "experiment plot": "Draw an experiment's results.",
    "experiment tune": "Choose a method's parameters on the seeds that nothing is reported on.",
    "experiment report": "Write the page of all results.",
    "study": "Write and check a study: the file that all sites agree on before anything is learned.",
    "study init": "Write the template of a study, to be filled in.",
    "study anew": "Let a study begin anew whose server has lost its journal.",
    "study check": "Check a study and, at a site, whether its table keeps to it.",
    "federation": "Run a study on a network: kits for all, the run itself, and how it stands.",
    "federation demo": "Watch a server and sites on this machine learn a graph over a real network.",
    "federation provision": "Make the kits by which sites, server and analyst know each other.",
    "federation stability": "Measure how stable the graph of a finished network run is.",
    "federation mechanisms": "Find out whether the sites of a finished network run differ in how causes act.",
    "federation effects": "Estimate by how much one variable changes another, after a network run.",
    "federation add": "Sign the kits of sites that join later; all other kits stay as they are.",
    "federation renew": "Sign new certificates for all participants, before the old ones expire.",
    "federation revoke": "Revoke the keys of a participant; all other kits stay as they are.",
    "federation run": "Have the sites learn the study's graph together, and bring it.",
    "federation stop": "End the study that runs; what was done is kept.",
    "federation status": "Show which sites are connected, and what runs.",
    "kit": "Keep a participant's keys and kit: ask for a kit, install it, and see whom it knows.",
    "kit request": "Make this participant's keys, and a request for a kit.",
    "kit install": "Install a signed kit beside the keys that it was asked for with.",
    "kit accept": "Agree to a further study on the same kit.",
    "kit revoke": "Install a list of revoked keys.",
    "kit identities": "Show the identities by which this site knows the others.",
    "disclosure": "Show what a study will release about a site's table, or has released.",
    "server": "Run the server of a study.",
    "site": "Take part in a study with this site's own table.",
    "audit": "Check a site's audit log, and print in plain words what left the site.",
}
"""By name. One of two words is a function of the first word's file; the first word alone is their group."""
_NEEDS_NO_ARGUMENTS = ("demo", "methods", "experiment list", "experiment report", "federation demo")


def overview(app: typer.Typer, group: str = "") -> None:
    """Register every command by its summary alone: `feddag --help` needs no numerical library."""
    for path, summary in SUMMARIES.items():
        parent, _, name = path.rpartition(" ")
        if parent != group:
            continue
        members = [other for other in SUMMARIES if other.startswith(f"{path} ")]
        if members:
            inner = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="rich")
            overview(inner, path)
            app.add_typer(inner, name=name, help=summary, epilog=f"Example: feddag {members[0]} --help")
        else:
            app.command(name, help=summary)(lambda: None)


def loaded(path: str) -> Any:
    """Import a command: the function of its name in the file of its first word."""
    module, name = (path.replace("-", "_").split() * 2)[:2]
    function = getattr(import_module(f"feddag.cli.{module}"), name)
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    text, bare = f"{SUMMARIES[path]}\n\n{function.__doc__}", path in _NEEDS_NO_ARGUMENTS
    app.command(path.rpartition(" ")[2], help=text, no_args_is_help=not bare)(function)
    return typer.main.get_command(app)


class Commands(TyperGroup):
    """The commands of the command line, or of a group in it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find a command, and import it only now."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or isinstance(command, Commands):
            return name, command, rest
        return name, loaded(name if ctx.parent is None else f"{ctx.info_name} {name}"), rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and print a user's mistake without a traceback."""
        try:
            return super().invoke(ctx)
        except FeddagError as error:
            message = str(error)
        except MemoryError as error:
            message = f"This needs more memory than there is. {error}".strip()
        except BrokenPipeError:  # the reader of our output has seen enough
            raise
        except OSError as error:
            message = f"{error.filename}: {error.strerror}." if error.filename else str(error)
            if error.errno in NO_ROOM:
                message = f"{error.filename or 'The output'}: {error.strerror}. Make room there, and try again."
        typer.echo(f"Error: {' '.join(message.splitlines())}", err=True)
        raise typer.Exit(2)
