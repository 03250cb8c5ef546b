from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from feddag.cli.learn_options import DEFAULT_METHOD
from feddag.cli.tables import bare_table, stdout
from feddag.cli.terms import show_terms
from feddag.deployment.cells import check_cells
from feddag.deployment.preflight import check_network
from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.files import atomic_write
from feddag.silos import Silo
from feddag.silos.suspicions import table_warnings
from feddag.study import Study
from feddag.study_template import template

_ATTEMPT = re.compile(r"attempt\s*=")


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The study to write, such as study.toml.")],
    *,
    data: Annotated[
        str | None,
        typer.Option("--from", metavar="SILO", help="A table whose columns are the variables.", show_default=False),
    ] = None,
    site: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A site that takes part; once for each.", show_default=False),
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to learn; see feddag methods.")] = DEFAULT_METHOD,
) -> None:
    """With --from, variables and their types are taken from a table: look them over, since a code such as 1, 2, 3
    looks like a number. Then give the file to all sites; they agree on it by its hash.

    Example: feddag study init study.toml --from basel.csv --site basel --site bern --site lyon
    """
    if file.exists():
        raise FeddagError(f"{file} exists already. Name a new file, or remove it.")
    text = template(file.stem, data, site or (), method)
    Study.parse(text, str(file))
    with atomic_write(file) as stream:
        stream.write(text)
    typer.echo(f"Written into {file}. Fill it in, then check it with: feddag study check {file}")


def anew(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The study that was begun.")],
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The study to write.", show_default=False)],
) -> None:
    """For a study whose server has lost its journal, or a site its memory: the same study with another number, and so
    another hash. Who puts it into its kit, as KIT/study.toml, agrees that it begins anew. What left a table before
    still counts against its site's rules.

    Example: feddag study anew study.toml --out study-2.toml
    """
    if out.exists():
        raise FeddagError(f"{out} exists already. Name a new file, or remove it.")
    study = Study.load(file)
    line = f"attempt = {study.attempt + 1}"
    kept = [each for each in file.read_text(encoding="utf-8").splitlines() if not _ATTEMPT.match(each)]
    text = "\n".join([line, *kept]) + "\n"
    again = Study.parse(text, str(out))
    with atomic_write(out) as stream:
        stream.write(text)
    typer.echo(
        f"Written into {out}: the same study, begun for the {again.attempt}. time, sha256 {again.digest}\n"
        "All participants put it into their kits, as KIT/study.toml, and start again."
    )


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The study.")],
    *,
    site: Annotated[str | None, typer.Option(metavar="NAME", help="The site that this is.", show_default=False)] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="SILO", help="The site's table, as feddag learn takes it.", show_default=False),
    ] = None,
) -> None:
    """Prints the study's hash: sites that see the same one have agreed on the same study. Says how it runs over a
    network. With --site and --data, it checks the table instead, read as that site would read it: counts, and values
    that lie far from all others. Nothing is sent anywhere.

    Example: feddag study check study.toml

    Example: feddag study check study.toml --site basel --data basel.csv
    """
    if (site is None) != (data is None):
        raise FeddagError("--site and --data belong together. Give both, or none.")
    study = Study.load(file)
    learner = study.learner()
    learner.check_kinds(study.kinds)
    console = stdout()
    sites = f"{len(study.sites)} sites" if study.sites else "any sites"
    console.print(
        f"{study.name}: {len(study.variables)} variables, {sites}, method {study.method.name}, "
        f"missing values: {study.preparation.missing}, scale: {study.preparation.scale}, "
        f"assessment on a network: {'yes' if study.trust.assess else 'no'}"
    )
    console.print(f"sha256 {study.digest}", soft_wrap=True)
    if site is None:
        if len(study.sites) > 1:
            _show_network(console, study)
    else:
        silo = study.silo(site, data)
        console.print(f"{site}: {silo.account}, {silo.rows} to learn from", markup=False, soft_wrap=True)
        console.print(_summary(study, silo))
        for warning in table_warnings([silo]) + _cell_warnings(study, silo):
            console.print(f"Warning: {warning}", markup=False, soft_wrap=True)


def _show_network(console: Console, study: Study) -> None:
    """Print the terms on which sites take part over a network, or why they could not."""
    try:
        check_network(study)
    except FeddagError as error:
        console.print(f"Warning: over a network this study cannot run. {error}", markup=False, soft_wrap=True)
        return
    show_terms(console, study)


def _cell_warnings(study: Study, silo: Silo) -> list[str]:
    try:
        check_cells(study, silo, Policy())
    except FeddagError as error:
        return [f"Over a network this site would not take part. {error}"]
    return []


def _summary(study: Study, silo: Silo) -> Table:
    """Summarise each variable, without any row's value."""
    table = bare_table("variable", "column", "type", "unit")
    table.add_column("missing", justify="right")
    columns = study.site_columns(silo.name)
    for variable in study.variables:
        missing = silo.account.missing.get(variable.name, 0)
        table.add_row(
            *map(Text, (variable.name, columns[variable.name], str(variable.kind), variable.unit or "", str(missing)))
        )
    return table
