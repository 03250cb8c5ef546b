from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from feddag.cli.assessing import show_assessment
from feddag.cli.fitting import watched
from feddag.cli.tables import show_edges, stdout
from feddag.deployment.demo import run_demo
from feddag.deployment.engine import ANALYST, SERVER, AnalystKit
from feddag.deployment.engines import engine
from feddag.graphs import compare
from feddag.learners import Learner, Progress
from feddag.runs import Run
from feddag.study import Study

DEFAULT_PORT = 8002

KIT = typer.Option(metavar="KIT", help="The analyst's kit.", show_default=False)


def provision(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study that all sites agree on.")],
    *,
    out: Annotated[Path, typer.Option(metavar="KITS", help="A new or empty folder.", show_default=False)],
    host: Annotated[str, typer.Option(help="The server's name or address, as the sites reach it.")] = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The server's port; no other is used.")] = DEFAULT_PORT,
    server_at: Annotated[
        str | None,
        typer.Option(
            metavar="SITE",
            help="Let a site host the server and the analyst, so that no third party sees the graph.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Makes one kit for each site, one for the server and one for the analyst: certificates, keys and addresses. Bring
    each to its owner by a safe way; who has a kit's key is that participant. Nobody but the server accepts connections.

    Example: feddag federation provision study.toml --out kits --host feddag.example.org
    """
    kits = engine().provision(study, out, host, port, server_at)
    table = Table("kit", "for", "starts with")
    for name, folder in kits.items():
        role = name if name in (SERVER, ANALYST) else "site"
        command = {
            "server": f"feddag server --kit {folder}",
            "analyst": f"feddag federation run {study} --kit {folder} --out run",
            "site": f"feddag site --kit {folder} --data {name}.csv",
        }[role]
        table.add_row(str(folder), role, command)
    stdout().print(table)
    typer.echo(f"Study {Study.load(study).digest[:12]}…, server at {host}:{port}.")


def run(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study, as the sites have it.")],
    *,
    kit: Annotated[Path, KIT],
    out: Annotated[Path, typer.Option(metavar="RUN", help="A new folder, or that of this study.", show_default=False)],
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Has the server run the study, shows how it goes, and brings the result. Sites that are lost are waited for, or
    done without, as the study says. Interrupted, or after any mishap, the same command goes on where the study stood.

    Example: feddag federation run study.toml --kit kits/analyst --out run
    """
    agreed, opened = Study.load(study), engine().open_analyst(kit)
    folder = Run.start_federated(out, agreed)
    learned = _learn(agreed, opened, folder, quiet=quiet)
    console = stdout()
    show_edges(console, learned)
    show_assessment(console, folder, quiet=True)
    typer.echo(f"Written into {out}. See: feddag report {out}")


def _learn(study: Study, kit: AnalystKit, folder: Run, *, quiet: bool) -> Learner:
    console = Console(stderr=True, highlight=False)
    with kit.connect(study, lambda message: None if quiet else console.print(message)) as connected:

        def fit(progress: Progress) -> Learner:
            learned = connected.run(progress)
            folder.record |= connected.record
            if connected.assessment is not None:
                folder.keep_assessment(connected.assessment)
            return learned

        def learn(progress: Progress) -> Learner:
            return folder.learn_by(fit, progress)

        command = f"feddag federation run {study.source} --kit {kit.folder} --out {folder.folder}"
        return watched(learn, quiet=quiet, resume=command)


def status(*, kit: Annotated[Path, KIT]) -> None:
    """Tells whether the server is up, which sites are connected, and what runs.

    Example: feddag federation status --kit kits/analyst
    """
    opened = engine().open_analyst(kit)
    study = opened.study()
    with opened.connect(study, lambda message: None) as connected:
        found = connected.status()
    if found is None:
        typer.echo("The server is out of reach.")
        raise typer.Exit(1)
    table = Table("site", "connected")
    for site in study.sites:
        table.add_row(site.name, "yes" if site.name in found.sites else "no")
    stdout().print(table)
    typer.echo(f"Server: {found.server}. Jobs that run: {', '.join(found.jobs) or 'none'}.")


def demo(
    *,
    sites: Annotated[int, typer.Option(min=3, help="The number of sites.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the data and of the run.")] = 1,
) -> None:
    """Starts a server and sites on this machine, each a process of its own with made data, has them learn a graph
    together over certificates and protected sums, prints it beside the true one, and cleans up.

    Example: feddag federation demo
    """
    console = Console(stderr=True, highlight=False)
    learned, truth = watched(lambda progress: run_demo(engine(), sites, seed, progress, console.print), quiet=False)
    show_edges(stdout(), learned)
    typer.echo(f"Errors compared with the true graph (SHD): {compare(learned.graph_, truth).shd}")
