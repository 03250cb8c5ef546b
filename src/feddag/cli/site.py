from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from feddag.deployment.endpoints import federated_learner, known_tasks
from feddag.deployment.flare.environment import DATA, POLICY
from feddag.deployment.flare.kits import Kit
from feddag.deployment.flare.processes import run
from feddag.federation.policy import Policy
from feddag.federation.secure import public_identity
from feddag.federation.site_endpoint import own_identity
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
    opened = Kit.open(kit, "site")
    study = opened.study()
    federated_learner(study)
    rules = Policy() if policy is None else Policy.load(policy)
    rules.check_names(known_tasks())
    silo = study.silo(opened.name, data)
    rules.check_study(rows=silo.rows, sites=len(study.sites), protected=study.privacy.secure_sum)
    identity = public_identity(own_identity(opened.memory(study).parent)).hex()
    typer.echo(
        f"Site {opened.name!r} of the study {study.name!r} ({study.digest[:12]}…): {silo.rows} rows of "
        f"{len(silo.columns)} variables.\nThis site's identity: {identity}\n"
        f"Audit log: {opened.memory(study) / 'audit.jsonl'}\nCtrl-C stops it."
    )
    for warning in outlier_warnings([silo]):
        typer.echo(f"Warning: {warning}", err=True)
    environment = {DATA: data if "://" in data else os.path.abspath(data)}
    raise typer.Exit(run(opened, environment | ({} if policy is None else {POLICY: os.path.abspath(policy)})))
