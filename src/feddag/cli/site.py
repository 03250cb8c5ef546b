from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from feddag.cli.disclosure import show_figures
from feddag.cli.monitoring import Health, LogFormatOption, Systemd, service_options, watching
from feddag.cli.options import command
from feddag.cli.proxies import ProxyOption
from feddag.cli.tables import stdout
from feddag.deployment.engines import engine
from feddag.deployment.logs import LogFormat, speaker
from feddag.deployment.preflight import check_network, describe_terms
from feddag.deployment.service import absolute, systemd_unit
from feddag.deployment.site import changed_table, check_site, released_before
from feddag.deployment.study_tasks import study_tasks
from feddag.disclosure import Disclosure, check_budget, disclose_quickly, figures
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
    proxy: ProxyOption = None,
    health: Health = None,
    log_format: LogFormatOption = "text",
    systemd: Systemd = False,
) -> None:
    """Reads the table, connects to the server that the kit names, and answers the tasks of the kit's study until it is
    stopped with Ctrl-C. Every message is written into an audit log; see feddag audit.

    Example: feddag site --kit kits/basel --data basel.csv
    """
    followed, say = watching(health, log_format), speaker(log_format)
    opened = engine().open_site(kit)
    if systemd:
        rest = ["--data", absolute(data), *([] if policy is None else ["--policy", str(policy.absolute())])]
        rest += [] if proxy is None else ["--proxy", proxy.without_password()]
        typer.echo(systemd_unit(opened, "site", [*service_options(kit, health, log_format), *rest]), nl=False)
        return
    study = opened.study()
    rules = Policy() if policy is None else Policy.load(policy)
    silo = study.silo(opened.name, data)
    check_network(study)
    check_site(study, silo, rules)
    memory = opened.memory(study)
    identity = opened.identity()
    say(
        f"Site {opened.name!r} of the study {study.name!r} ({study.digest[:12]}…): {silo.rows} rows of "
        f"{len(silo.columns)} variables.\nThis site's identity: {identity.public.hex()}, fingerprint "
        f"{identity.fingerprint}\nAudit log: {audit_log(memory)}\nCtrl-C stops it."
    )
    for line in describe_terms(study):
        say(f"  {line}")
    if forbidden := rules.forbidden(study_tasks(study)):
        say(f"Warning: {rules.source} does not allow {', '.join(forbidden)}, so that the graph will not be assessed.")
    for warning in [*changed_table(study, silo, memory), *table_warnings([silo])]:
        say(f"Warning: {warning}")
    try:
        found = _disclosure(study, silo, memory, rules, say)
    except FeddagError as error:  # a site may take part without figures
        say(f"What leaves was not measured: {error}")
    else:
        new = not audit_log(memory).exists()
        if new and (warning := check_budget(study, found, rules, released_before(silo, rules))):
            say(f"Warning: {warning}")
        how_to_get_all = command("feddag disclosure", {"kit": kit, "data": data, "policy": policy})
        _show_disclosure(found, log_format, how_to_get_all)
    raise typer.Exit(opened.run(data, policy, followed, proxy))


def _disclosure(study: Study, silo: Silo, memory: Path, policy: Policy, say: Callable[[str], None]) -> Disclosure:
    """Return what will leave: all figures if the kit has them, else those that take little time, once."""
    found = kept_for(memory, study, silo)
    if found is None:
        say("The study runs once on made-up tables, to find out what will leave. Then this site connects.")
        with Console(stderr=True).status("Counting the numbers that leave, on made-up tables"):
            found = disclose_quickly(study, silo, policy)
        keep(memory, found)
    return found


def _show_disclosure(found: Disclosure, log_format: LogFormat, how_to_get_all: str) -> None:
    say = speaker(log_format)
    say("What leaves, before anything does:")
    if log_format == "text":
        show_figures(stdout(), figures(found))
    else:
        for figure in figures(found):
            say(f"{figure.name}: {figure.value}. {figure.sentence}")
    if found.membership is None:
        say(f"Whether the sums tell who is in the table, or hidden values: {how_to_get_all}")
