from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from feddag.cli.fitting import watched
from feddag.cli.options import assignments, command
from feddag.cli.options import grid as parsed_grid
from feddag.cli.tables import bare_table, stdout
from feddag.errors import FeddagError
from feddag.files import check_target
from feddag.learners import Progress, Status
from feddag.learners.registry import Regime, find_method
from feddag.runs.folder import write_table
from feddag.selection import Selection, select
from feddag.silos.reading import site_names


def tune(
    silos: Annotated[
        list[str],
        typer.Argument(metavar="SILO", help="Each site's table, as feddag learn takes it.", show_default=False),
    ],
    *,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to learn; see feddag methods.")] = "feddag",
    regime: Annotated[
        Regime | None, typer.Option(help="As of feddag learn; the method's own unless given.", show_default=False)
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,VALUE",
            help="What to try, may be repeated: every combination is. For feddag, values of the paper unless given.",
            show_default=False,
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter for all combinations.", show_default=False),
    ] = None,
    validation_share: Annotated[float, typer.Option(help="Of each site's rows, how many are laid aside.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Equal data, options and seed give an equal choice.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Write the table there, as CSV.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")] = False,
) -> None:
    """Every combination learns a graph from a part of each site's rows; each site then fits mechanisms along that
    graph, and reports how well they predict the rows laid aside. Only the mean over all sites is seen.

    Example: feddag tune data/site-*.csv --grid l1=0.01,0.1 --grid rho_init=0.006,0.06 --out tuning.csv
    """
    fixed = assignments(given or [])
    if "seed" in fixed:
        raise FeddagError(
            f"The rows laid aside and the learner have one seed. Instead of --set: --seed {fixed['seed']}"
        )
    if out is not None:
        check_target(out, *silos)
    combined = None if grid is None else parsed_grid(grid)
    if both := sorted(fixed.keys() & (combined or {}).keys()):
        raise FeddagError(f"{both[0]!r} is in --set and in --grid. Keep one of them.")
    known = find_method(method)
    known.check_names(fixed)

    def choose(progress: Progress) -> Selection:
        def after_round(position: int, total: int, status: Status) -> None:
            progress(replace(status, figures={"combination": position, "combinations": total, **status.figures}))

        return select(
            site_names(silos),
            method,
            combined,
            regime=regime,
            validation_share=validation_share,
            seed=seed,
            progress=after_round,
            **fixed,
        )

    chosen = watched(choose, quiet=quiet)
    _show(chosen)
    if out is not None:
        write_table(chosen.to_frame(), out)
    seeded = {"seed": seed} if seed and "seed" in known.parameters() else {}
    options = {"method": method, "regime": regime, **seeded, **fixed, **chosen.best.parameters, "out": "RUN"}
    stdout().print(f"Next: {command('feddag learn SILO...', options)}", markup=False, soft_wrap=True)


def _show(chosen: Selection) -> None:
    table = bare_table()
    frame = chosen.to_frame()
    for name in frame.columns:
        table.add_column("" if name == "chosen" else name, justify="right")
    for row in frame.to_dict("records"):
        cells = {**row, "score": f"{row['score']:.4f}", "seconds": f"{row['seconds']:.1f}"}
        cells["chosen"] = "← best" if row["chosen"] else ""
        table.add_row(*(Text(str(each)) for each in cells.values()))
    console = stdout()
    console.print(table)
    console.print("The score is a row's negative log-likelihood: lower is better.")
