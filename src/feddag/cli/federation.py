from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from feddag.cli.assessing import show_assessment
from feddag.cli.effects import show_effect
from feddag.cli.fitting import watched
from feddag.cli.options import OutputFormat
from feddag.cli.progress import clock
from feddag.cli.proxies import ProxyOption
from feddag.cli.stability import edge_table
from feddag.cli.tables import bare_table, show_edges, stdout
from feddag.cli.terms import show_terms
from feddag.deployment.demo import run_demo
from feddag.deployment.engine import ANALYST, AUTHORITY, SERVER, AnalystKit, Standing
from feddag.deployment.engines import engine
from feddag.deployment.proxy import Proxy
from feddag.errors import FeddagError
from feddag.graphs import compare
from feddag.learners import Learner, Progress
from feddag.runs import Run
from feddag.study import Study
from feddag.trust.graph_checks import GraphChecks

DEFAULT_PORT = 8002
_UNREACHABLE, _SITES_LACKING = 1, 3
"""Exit codes of the status, for monitors."""

KIT = typer.Option(metavar="KIT", help="The analyst's kit.", show_default=False)
STUDY = typer.Argument(metavar="STUDY", help="The study that all sites agree on.")
OUT = typer.Option(metavar="KITS", help="A new or empty folder.", show_default=False)
AUTHORITY_FOLDER = typer.Option(
    metavar="FOLDER", help="The authority's folder, which provision has made.", show_default=False
)


def provision(
    study: Annotated[Path, STUDY],
    *,
    out: Annotated[Path, OUT],
    requests: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The requests that participants have sent (feddag kit request): they keep their keys to themselves.",
            show_default=False,
        ),
    ] = None,
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
    """Makes an authority (KITS/authority, which stays with you), and signs a kit for each request. Server and analyst
    get a kit with keys unless they ask for one themselves. Without --requests all keys are made here, for a first try
    on one machine. Nobody but the server accepts connections.

    Example: feddag federation provision study.toml --requests requests --out kits --host feddag.example.org
    """
    kits = engine().provision(study, out, host, port, server_at, requests)
    _show_kits(kits, study, out / AUTHORITY)
    whole = [name for name, kit in kits.items() if kit.is_dir()]
    if whole:
        typer.echo(
            f"Warning: the private keys of {', '.join(whole)} were made here, so that you could pass for them. To let "
            "participants make their own: feddag kit request",
            err=True,
        )
    agreed = Study.load(study)
    show_terms(stdout(), agreed)
    lacking = [site.name for site in agreed.sites if site.name not in kits]
    if lacking:
        typer.echo(f"No request came from {', '.join(lacking)}. Later: feddag federation add", err=True)
    typer.echo(
        f"Study {agreed.digest[:12]}…, server at {host}:{port}. Keep {out / AUTHORITY}: it signs for later sites "
        "(feddag federation add) and renews certificates (feddag federation renew)."
    )


def add(
    study: Annotated[Path, STUDY],
    *,
    authority: Annotated[Path, AUTHORITY_FOLDER],
    requests: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The requests of those who join.", show_default=False)
    ],
    out: Annotated[Path, OUT],
) -> None:
    """Signs a kit for each request. All others keep their kits: they know the new sites by the same authority. If the
    study has changed, everyone puts the new file into its kit, as KIT/study.toml.

    Example: feddag federation add study.toml --authority kits/authority --requests late --out late-kits
    """
    _show_kits(engine().add(study, authority, requests, out), study, authority)


def renew(
    *,
    authority: Annotated[Path, AUTHORITY_FOLDER],
    out: Annotated[Path, OUT],
) -> None:
    """Signs new certificates for the same keys, one file for each participant. Old certificates hold until they expire,
    so that each can install its own when it likes: feddag kit install.

    Example: feddag federation renew --authority kits/authority --out renewed
    """
    _show_kits(engine().renew(authority, out), None, authority)


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The participant whose keys are lost or stolen.")],
    *,
    authority: Annotated[Path, AUTHORITY_FOLDER],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The list to send to all.", show_default=False)],
) -> None:
    """Writes a signed list of all revoked keys. Send it to everybody, the server first: with feddag kit revoke, it lets
    nobody in with these keys, and sites sum with nobody who has them. All other kits stay as they are. A participant
    that is to come back sends a new request.

    Example: feddag federation revoke lyon --authority kits/authority --out revoked.json
    """
    engine().revoke(name, authority, out)
    typer.echo(
        f"The keys of {name!r} are revoked. All install {out}, the server first: feddag kit revoke {out} --kit KIT"
    )


def _show_kits(kits: dict[str, Path], study: Path | None, authority: Path) -> None:
    """Print what to do with each kit, and the fingerprints by which all can check that it is the right one."""
    table = Table("kit", "for", "next")
    for name, place in kits.items():
        role = name if name in (SERVER, ANALYST) else "site"
        command = {
            "server": f"feddag server --kit {place}",
            "analyst": f"feddag federation run {study} --kit {place} --out run",
            "site": f"feddag site --kit {place} --data {name}.csv",
        }[role]
        table.add_row(str(place), role, command if place.is_dir() else f"feddag kit install {place.name} --kit KIT")
    console = stdout()
    console.print(table)
    fingerprints = bare_table("who", "fingerprint, to compare by telephone")
    for name, fingerprint in engine().fingerprints(authority).items():
        if name == AUTHORITY or name in kits:
            fingerprints.add_row(name, fingerprint)
    console.print(fingerprints)


def run(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study, as the sites have it.")],
    *,
    kit: Annotated[Path, KIT],
    out: Annotated[Path, typer.Option(metavar="RUN", help="A new folder, or that of this study.", show_default=False)],
    proxy: ProxyOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Has the server run the study, shows how it goes, and brings the result. Sites that are lost are waited for, or
    done without, as the study says. Interrupted, or after any mishap, the same command goes on where the study stood.

    Example: feddag federation run study.toml --kit kits/analyst --out run
    """
    agreed, opened = Study.load(study), engine().open_analyst(kit)
    folder = Run.start_federated(out, agreed)
    if folder.finished and not quiet:
        typer.echo(f"{out} has this study's result already, of {folder.record['finished']}. Another --out asks anew.")
    learned = _learn(agreed, opened, folder, proxy, quiet=quiet)
    console = stdout()
    show_edges(console, learned)
    show_assessment(console, folder, quiet=True)
    typer.echo(f"Written into {out}. See: feddag report {out}")


def _learn(study: Study, kit: AnalystKit, folder: Run, proxy: Proxy | None, *, quiet: bool) -> Learner:
    console = Console(stderr=True, highlight=False)
    with kit.connect(study, lambda message: None if quiet else console.print(message), proxy) as connected:

        def fit(progress: Progress) -> Learner:
            learned = connected.run(progress)
            folder.record |= connected.record
            folder.keep_checks(connected.checks)
            return learned

        def learn(progress: Progress) -> Learner:
            return folder.learn_by(fit, progress)

        command = f"feddag federation run {study.source} --kit {kit.folder} --out {folder.folder}"
        stopping = f"feddag federation stop --kit {kit.folder}"
        resume = f"{command} (a study that has begun goes on at the sites; to stop it: {stopping})"
        return watched(learn, quiet=quiet, resume=resume, at_once=True)


RUN = typer.Argument(metavar="RUN", help="The folder of a finished network run.", show_default=False)


def stability(
    run: Annotated[Path, RUN],
    *,
    kit: Annotated[Path, KIT],
    bootstraps: Annotated[int, typer.Option(min=1, help="How many times sites draw half of their rows.")] = 50,
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out", help="Learn without each site, too, where the study and all policies allow such sums."
        ),
    ] = False,
    proxy: ProxyOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Has the sites draw half of their rows, each its own, and learn from these, all draws side by side. It is a
    further study on the same kits: each site takes part if its policy says so, or once it has accepted it (feddag kit
    accept). The fit runs again first; numbers that have left a site before are not counted twice.

    Example: feddag federation stability run --kit kits/analyst --bootstraps 50
    """
    terms = {"bootstraps": bootstraps, "leave_one_out": leave_one_out}
    checks = _further(run, kit, terms, f"stability {run}", proxy=proxy, quiet=quiet)
    if checks.stability is None:
        raise typer.Exit(1)
    stdout().print(edge_table(checks.stability.edges()))


def mechanisms(
    run: Annotated[Path, RUN],
    *,
    kit: Annotated[Path, KIT],
    proxy: ProxyOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Compares each site's mechanisms with common ones: how many sites differ, never which. Each site sees its own in
    its terminal, and in mechanisms.csv in its kit. It is a further study, as of feddag federation stability.

    Example: feddag federation mechanisms run --kit kits/analyst
    """
    found = _further(run, kit, {"mechanisms": True}, f"mechanisms {run}", proxy=proxy, quiet=quiet).mechanisms
    if found is None:
        raise typer.Exit(1)
    table = bare_table("effect", "causes", "explained", "own gain", "± error", "sites that differ")
    for row in found.to_dict("records"):
        count = row["sites_differing"]
        sites = "some, too few to say how many" if pd.isna(count) else f"{count:.0f}"
        numbers = (f"{row[name]:.3g}" for name in ("r2", "mean_own_gain", "error"))
        table.add_row(row["effect"], row["causes"], *numbers, sites)
    stdout().print(table)


def effects(
    run: Annotated[Path, RUN],
    *,
    kit: Annotated[Path, KIT],
    cause: Annotated[str, typer.Option(metavar="NAME", help="The variable that is set.", show_default=False)],
    effect: Annotated[str, typer.Option(metavar="NAME", help="The variable that changes.", show_default=False)],
    proxy: ProxyOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Estimates a total effect from sums: weighted by rows, and as a mean over sites that may differ, with the variance
    between them. It is a further study, as of feddag federation stability.

    Example: feddag federation effects run --kit kits/analyst --cause X1 --effect X3
    """
    again = f"effects {run} --cause {cause} --effect {effect}"
    checks = _further(run, kit, {"effects": [[cause, effect]]}, again, proxy=proxy, quiet=quiet)
    if not checks.effects:
        raise typer.Exit(1)
    show_effect(checks.effects[0], "text")


def _further(
    run: Path, kit: Path, terms: dict[str, Any], again: str, *, proxy: Proxy | None, quiet: bool
) -> GraphChecks:
    """Run a study that only finds out more about a run's graph, and keep what it finds in the run's folder."""
    opened = Run.open(run)
    study = opened.study
    if study is None or not opened.record.get("federated"):
        raise FeddagError(f"{run} has its tables here. Use the same command without 'federation'.")
    content = {**study.document(), "trust": terms, "follows": study.digest}
    further = Study.of(content, f"{run}: a further study")
    console = Console(stderr=True, highlight=False)
    analyst = engine().open_analyst(kit)

    def report(message: str) -> None:
        if not quiet:
            console.print(message, markup=False)

    with analyst.connect(further, report, proxy) as connected:
        learned = watched(connected.run, quiet=quiet, resume=f"feddag federation {again} --kit {kit}")
    if learned.graph_ != opened.result().graph_:
        raise FeddagError(f"{run}: the sites' tables have changed since, and give another graph. Run the study anew.")
    opened.keep_checks(connected.checks)
    return connected.checks


def stop(*, kit: Annotated[Path, KIT], proxy: ProxyOption = None) -> None:
    """Has the server end the study that runs there, and lets feddag federation run end wherever this kit follows it.
    Server and sites stay connected, and what was done is kept: feddag federation run goes on with it.

    Example: feddag federation stop --kit kits/analyst
    """
    opened = engine().open_analyst(kit)
    with opened.connect(opened.study(), lambda message: None, proxy) as connected:
        stopped = connected.stop()
    typer.echo("Stopped. What was done is kept." if stopped else "Nothing runs.")


def status(
    *,
    kit: Annotated[Path, KIT],
    proxy: ProxyOption = None,
    format: OutputFormat = "text",  # noqa: A002 - the option's name
) -> None:
    """Tells whether the server is up, which sites are connected, and what each is doing for how long. The exit code is
    0 if all sites are connected, 3 if some are not, and 1 if the server is out of reach.

    Example: feddag federation status --kit kits/analyst
    """
    opened = engine().open_analyst(kit)
    study = opened.study()
    with opened.connect(study, lambda message: None, proxy) as connected:
        found = connected.status()
    if format == "json":
        typer.echo(json.dumps(_standing(study, found), indent=2))
    elif found is None:
        typer.echo("The server is out of reach.")
    else:
        _show_standing(study, found)
    raise typer.Exit(_UNREACHABLE if found is None else _SITES_LACKING if _lacking(study, found) else 0)


def _lacking(study: Study, found: Standing) -> list[str]:
    return [site.name for site in study.sites if site.name not in found.sites]


def _doing(found: Standing, site: str) -> str:
    if site not in found.sites:
        return "not connected"
    if site in found.at_work:
        return "working"
    return "waiting" if found.jobs else "idle"


def _standing(study: Study, found: Standing | None) -> dict[str, Any]:
    if found is None:
        return {"server": "unreachable", "study": study.digest}
    sites = {
        site.name: {
            "connected": site.name in found.sites,
            "doing": _doing(found, site.name),
            "seconds": found.at_work.get(site.name),
            "seconds_since_contact": found.sites.get(site.name),
        }
        for site in study.sites
    }
    return {
        "server": found.server,
        "study": study.digest,
        "quorum": study.federation.quorum,
        "sites": sites,
        "jobs": found.jobs,
        "figures": dict(found.figures),
    }


def _show_standing(study: Study, found: Standing) -> None:
    table = Table("site", "connected", "doing", "for")
    for site in study.sites:
        seconds = found.at_work.get(site.name)
        connected = "yes" if site.name in found.sites else "no"
        table.add_row(site.name, connected, _doing(found, site.name), "" if seconds is None else clock(seconds))
    stdout().print(table)
    if found.jobs:
        figures = ", ".join(f"{name} {value}" for name, value in found.figures.items())
        typer.echo(f"The server runs the study{f' ({figures})' if figures else ''}.")
    else:
        typer.echo("The server is idle: no study runs. Begin, or go on, with: feddag federation run")


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
    metrics = compare(learned.graph_, truth)
    typer.echo(f"Errors compared with the true graph (SHD): {metrics.shd}, {metrics.strict_shd} with open directions")
