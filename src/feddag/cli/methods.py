from __future__ import annotations

import json

import typer
from rich.table import Table
from rich.text import Text

from feddag.cli.options import OutputFormat
from feddag.cli.tables import stdout
from feddag.extras import install_command
from feddag.learners.factory import describe, leaves_site
from feddag.learners.regimes import LEAVES_SITE
from feddag.learners.registry import INSTALL_GRADIENTS, METHODS, installed_methods


def methods(
    *,
    format: OutputFormat = "text",  # noqa: A002 - the word every reader expects here
) -> None:
    """Choose one with: feddag learn --method NAME

    The first of its regimes is its own; choose another with: feddag learn --method NAME --regime REGIME

    Example: feddag methods
    """
    installed = installed_methods()
    if format == "json":
        typer.echo(json.dumps([describe(method) for method in installed.values()], indent=2, ensure_ascii=False))
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for k, method in enumerate(installed.values()):
        if k:
            table.add_row()
        table.add_row(method.name, "", Text(method.summary), style="bold")
        rows = {
            "assumes": method.assumptions,
            "units": "do not matter" if method.unit_free else "matter",
            "leaves a site": leaves_site(method)[method.regimes[0]],
            "regimes": ", ".join(method.regimes),
            "stands for": ", ".join(f"{name}={value!r}" for name, value in method.defaults.items()),
            "reference": method.reference,
            "needs": method.extra and install_command(method.extra),
        }
        for heading, text in rows.items():
            if text:
                table.add_row("", Text(heading, style="dim"), Text(text))
    table.add_row()
    table.add_row("other regimes", "", Text("what leaves a site, whatever the method"), style="bold")
    for regime, text in LEAVES_SITE.items():
        table.add_row("", Text(regime, style="dim"), Text(text))
    if lacking := [name for name in METHODS if name not in installed]:
        table.add_row()
        table.add_row("not installed", "", Text(f"{', '.join(lacking)}: {INSTALL_GRADIENTS}"), style="bold")
    stdout().print(table)
