from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import joblib
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from feddag.cli.options import OutputFormat
from feddag.cli.tables import stdout
from feddag.deployment.engines import engine
from feddag.deployment.site import check_site, released_before
from feddag.disclosure import Disclosure, Figure, check_budget, disclose, disclose_log, disclosed, figures
from feddag.disclosure.disclose import Progress as Advance
from feddag.disclosure.kept import keep
from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.files import atomic_write, check_target
from feddag.silos.sources import source_of
from feddag.study import Study


def disclosure(
    study: Annotated[
        Path | None,
        typer.Argument(metavar="STUDY", help="The study; the kit's own with --kit.", show_default=False),
    ] = None,
    *,
    data: Annotated[
        str | None,
        typer.Option(metavar="SILO", help="This site's table, as feddag learn takes it.", show_default=False),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The site that this is.", show_default="the table's name"),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option(
            metavar="KIT",
            help="This site's kit, in place of STUDY and --site; feddag site then shows the figures, too.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="The site's audit log: what a study has released.", show_default=False),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What may leave the site, as TOML; strict unless given.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="The made-up tables are a function of it.", min=0)] = 1,
    jobs: Annotated[
        int | None, typer.Option(help="Processes to compute in.", min=1, show_default="one for each core")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the figures as JSON, too; as disclosure.json in a run's folder, its report shows them.",
            show_default=False,
        ),
    ] = None,
    format: OutputFormat = "text",  # noqa: A002 - the word every reader expects here
) -> None:
    """Before a site agrees to a study: how many numbers leave for each value of its table, how few sites and rows any
    of them is about, whether they tell who is in the table or what a hidden value is, and what a lying server could
    add. For this the study runs here, on made-up tables that are like the site's own, and the sums are attacked. This
    takes up to a minute; nothing is sent anywhere. With --log: what a study has released, from the site's own log.

    Example: feddag disclosure study.toml --data basel.csv --site basel

    Example: feddag disclosure --log audit.jsonl
    """
    if out is not None:
        check_target(out, *(each for each in (study, log) if each))
    if log is None:
        found = _before(study, data, site, kit, policy, seed, jobs)
    else:
        found = _after(log, study, data, site, seed, jobs)
    if out is not None:
        with atomic_write(out) as stream:
            stream.write(found.to_json())
    if format == "json":
        typer.echo(found.to_json(), nl=False)
    else:
        console = stdout()
        console.print(Text(_heading(found)))
        show_figures(console, figures(found))


def show_figures(console: Console, shown: list[Figure]) -> None:
    """Print figures, and the sentence of each."""
    for number, figure in enumerate(shown, start=1):
        console.print(Text.assemble((f"\n{number}. {figure.name}: ", "bold"), (figure.value, "bold cyan")))
        console.print(Text(f"   {figure.sentence}"))


def _heading(found: Disclosure) -> str:
    verb = "has released" if found.took_place else "will release"
    return f"What the study {found.study[:12]}… {verb} about the table of site {found.site!r}:"


def _before(
    file: Path | None,
    data: str | None,
    site: str | None,
    kit: Path | None,
    policy: Path | None,
    seed: int,
    jobs: int | None,
) -> Disclosure:
    if (file is None) == (kit is None):
        raise FeddagError("Give a study, a --kit, or the --log of a study that has taken place.")
    if data is None:
        raise FeddagError("Give this site's table with --data: the figures are about it.")
    opened = None if kit is None else engine().open_site(kit)
    study = Study.load(file) if opened is None else opened.study()  # pyright: ignore[reportArgumentType]
    silo = study.silo(_site(study, data, site) if opened is None else opened.name, data)
    rules = Policy() if policy is None else Policy.load(policy)
    try:
        check_site(study, silo, rules)
    except FeddagError as error:  # the figures may help to decide whether to change that
        typer.echo(f"Warning: as things are, this site would take no part in the study. {error}", err=True)
    with _shown_progress() as progress:
        found = disclose(study, silo, policy=rules, seed=seed, jobs=jobs or joblib.cpu_count(), progress=progress)
    try:
        warning = check_budget(study, found, rules, 0 if opened is None else released_before(silo, rules))
    except FeddagError as error:
        warning = str(error)
    if warning is not None:
        typer.echo(f"Warning: {warning}", err=True)
    if opened is not None:
        keep(opened.memory(study), found)
    return found


def _after(log: Path, file: Path | None, data: str | None, site: str | None, seed: int, jobs: int | None) -> Disclosure:
    if (file is None) != (data is None):
        raise FeddagError("With --log, a study and --data belong together. Give both, or none.")
    found = disclosed(log)
    if file is None or data is None:
        return found
    study = Study.load(file)
    silo = study.silo(site or found.site, data)
    with _shown_progress() as progress:
        return disclose_log(log, study, silo, seed=seed, jobs=jobs or joblib.cpu_count(), progress=progress)


def _site(study: Study, data: str, site: str | None) -> str:
    """Return the site's name: as given, or the table's where the study has a site of that name."""
    names = [each.name for each in study.sites]
    name = site or source_of(data).name
    if site is None and name not in names:
        raise FeddagError(f"{study.source} has the sites {', '.join(names)}. Say which one this is: --site NAME")
    return name


@contextmanager
def _shown_progress() -> Iterator[Advance]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("Running the study on made-up tables", total=None)

        def advance(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total, description="Made-up tables that have answered")

        yield advance
