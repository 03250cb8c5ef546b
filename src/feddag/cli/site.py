from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddag.cli.disclosure import show_figures
from feddag.cli.options import command
from feddag.cli.tables import stdout
from feddag.deployment.engines import engine
from feddag.deployment.preflight import check_network, describe_terms
from feddag.deployment.site import check_site
from feddag.deployment.study_tasks import study_tasks
from feddag.disclosure import disclose_quickly, figures
from feddag.disclosure.kept import keep, kept_for
from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.federation.site_endpoint import audit_log
from feddag.silos import Silo
from feddag.silos.suspicions import table_warnings
from feddag.study import Study


def site(
    *,
    kit: Annotated[Path, typer.Option(metavar="KIT", help="This site's kit.", show_default=False)],
    data: Annotated[
        str,
        typer.Option(metavar="SILO", help="This site's table, as feddag learn takes it.", show_default=False),
    ],
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What may leave the site, as TOML; strict unless given.", show_default=False),
    ] = None,
) -> None:
    """Reads the table, connects to the server that the kit names, and answers the tasks of the kit's study until it is
    stopped with Ctrl-C. Every message is written into an audit log; see feddag audit.

    Example: feddag site --kit kits/basel --data basel.csv
    """
    opened = engine().open_site(kit)
    study = opened.study()
    rules = Policy() if policy is None else Policy.load(policy)
    silo = study.silo(opened.name, data)
    check_network(study)
    check_site(study, silo, rules)
    identity = opened.identity()
    typer.echo(
        f"Site {opened.name!r} of the study {study.name!r} ({study.digest[:12]}…): {silo.rows} rows of "
        f"{len(silo.columns)} variables.\nThis site's identity: {identity.public.hex()}, fingerprint "
        f"{identity.fingerprint}\nAudit log: {audit_log(opened.memory(study))}\nCtrl-C stops it."
    )
    for line in describe_terms(study):
        typer.echo(f"  {line}")
    if forbidden := rules.forbidden(study_tasks(study)):
        typer.echo(
            f"Warning: {rules.source} does not allow {', '.join(forbidden)}, so that the graph will not be assessed.",
            err=True,
        )
    for warning in table_warnings([silo]):
        typer.echo(f"Warning: {warning}", err=True)
    _show_disclosure(
        study,
        silo,
        opened.memory(study),
        rules,
        command("feddag disclosure", {"kit": kit, "data": data, "policy": policy}),
    )
    raise typer.Exit(opened.run(data, policy))


def _show_disclosure(study: Study, silo: Silo, memory: Path, policy: Policy, how_to_get_all: str) -> None:
    """Print what will leave: all figures if the kit has them, else those that take seconds, once."""
    try:
        found = kept_for(memory, study, silo)
        if found is None:
            found = disclose_quickly(study, silo, policy)
            keep(memory, found)
    except FeddagError as error:  # a site may take part without figures
        typer.echo(f"What leaves was not measured: {error}", err=True)
        return
    typer.echo("What leaves, before anything does:")
    show_figures(stdout(), figures(found))
    if found.membership is None:
        typer.echo(f"\nWhether the sums tell who is in the table, or hidden values: {how_to_get_all}\n")
