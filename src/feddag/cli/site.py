from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from feddag.deployment.engines import engine
from feddag.deployment.site import check_site
from feddag.federation.policy import Policy
from feddag.federation.site_endpoint import audit_log, identity
from feddag.silos.outliers import outlier_warnings


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
    check_site(study, silo, rules)
    memory = opened.memory(study)
    typer.echo(
        f"Site {opened.name!r} of the study {study.name!r} ({study.digest[:12]}…): {silo.rows} rows of "
        f"{len(silo.columns)} variables.\nThis site's identity: {identity(memory)}\n"
        f"Audit log: {audit_log(memory)}\nCtrl-C stops it."
    )
    for warning in outlier_warnings([silo]):
        typer.echo(f"Warning: {warning}", err=True)
    raise typer.Exit(opened.run(data, policy))
