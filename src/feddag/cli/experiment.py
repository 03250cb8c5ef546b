from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from feddag.cli.interruption import EXIT_CODE, InterruptionAtOnce
from feddag.cli.options import assignments, command, names
from feddag.cli.options import grid as parsed_grid
from feddag.cli.tables import bare_table, stdout
from feddag.errors import FeddagError
from feddag.experiments.experiment import Experiment, experiments, find_experiment
from feddag.experiments.formats import Format, render
from feddag.experiments.seeds import TUNING, format_seeds, parse_seeds
from feddag.experiments.settings import Data, Real
from feddag.experiments.store import DEFAULT_STORE, Store
from feddag.files import atomic_write, check_target
from feddag.learners.registry import Regime

ALL = "all"
Texts = list[str]  # by a name of its own, since list is a command here

Name = Annotated[str, typer.Argument(metavar="NAME", help="See feddag experiment list.", show_default=False)]
StoreFile = Annotated[Path, typer.Option("--store", metavar="FILE", help="Where results are kept.")]
Seeds = Annotated[
    str | None, typer.Option(metavar="SEEDS", help="Such as 2021-2025; the experiment's own unless given.")
]
Methods = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Rows of the table or any methods, separated by commas; its rows unless given."),
]
Nodes = Annotated[str | None, typer.Option(metavar="NUMBERS", help="Only settings with so many variables.")]
DataKind = Annotated[
    Data | None,
    typer.Option(
        help="As published, with every column standardised, or with noise of another size for each variable.",
        show_default="the experiment's own",
    ),
]
Jobs = Annotated[int, typer.Option(help="Processes; -1 for one per core.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The hippocampus recording: a table per day, of which the first ten are taken, and truth_edges.csv.",
    ),
]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Let the workers of this Dask scheduler compute the cells.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not show the progress.")]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Write there instead.", show_default=False)]


def run(
    experiment: Annotated[
        str, typer.Argument(metavar="NAME", help="See feddag experiment list; or all.", show_default=False)
    ],
    *,
    seeds: Seeds = None,
    methods: Methods = None,
    nodes: Nodes = None,
    data: DataKind = None,
    jobs: Jobs = 1,
    given: Annotated[
        Texts | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A parameter by hand; results are marked.", show_default=False
        ),
    ] = None,
    tuned: Annotated[bool, typer.Option("--tuned", help="With the parameters that tune has kept.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Compute also what the store holds already.")] = False,
    folder: Folder = None,
    dask: Dask = None,
    store: StoreFile = DEFAULT_STORE,
    quiet: Quiet = False,
) -> None:
    """A cell that the store holds is not run again: repeat the command to continue an interrupted run. Several
    processes may work on one store at the same time.

    Example: feddag experiment run linear --nodes 10 --methods notears,notears-admm --seeds 2021-2023
    """
    chosen = "by hand" if given else "tuned" if tuned else "declared"
    if given and tuned:
        raise FeddagError("--set and --tuned are two ways to choose parameters. Give one.")
    _check_jobs(jobs, dask)
    parts = _change_each(
        _named(experiment, methods, nodes),
        lambda each: [_part(each, *(_known(each, methods, nodes) if experiment == ALL else (methods, nodes)), data)],
        "they have none of the chosen methods, nodes or data",
    )
    folder = None if folder is None else folder.resolve()  # workers may stand elsewhere
    parts = _with_folder(parts, folder)
    kept = Store(store)
    if given:
        from feddag.experiments.tuning import with_parameters  # noqa: PLC0415

        fixed = assignments(given)
        parts = [replace(part, rows=tuple(with_parameters(row, fixed) for row in part.rows)) for part in parts]
    if tuned:
        from feddag.experiments.tuning import tuned_parts  # noqa: PLC0415

        parts = _change_each(parts, lambda part: tuned_parts(part, kept), "they were not tuned for this")
    cells = [cell for part in parts for cell in part.cells(None if seeds is None else parse_seeds(seeds))]
    outcome = _compute(
        lambda run_cells, progress: run_cells(
            cells, kept, jobs=None if dask else jobs, chosen=chosen, folder=folder, again=again, progress=progress
        ),
        dask,
        quiet=quiet,
    )
    _print_outcome(outcome, store)
    methods, nodes = _known(parts[0], methods, nodes)
    options = {"seeds": seeds, "methods": methods, "nodes": nodes, "data": data}
    options |= {"store": _unless_default(store)}
    typer.echo(f"Next: {command(f'feddag experiment show {parts[0].name}', options)}", err=True)
    if outcome.failures:
        raise typer.Exit(1)


def show(
    experiment: Name,
    *,
    format: Annotated[Format, typer.Option(help="For people, for papers and pages, or for programs.")] = "text",  # noqa: A002
    seeds: Seeds = None,
    methods: Methods = None,
    nodes: Nodes = None,
    data: DataKind = None,
    out: Out = None,
    store: StoreFile = DEFAULT_STORE,
) -> None:
    """Our mean ± standard deviation beside the published one, with a mark for better, within or worse by the
    published standard deviation.

    Example: feddag experiment show linear --nodes 10 --format markdown
    """
    from feddag.experiments.comparison import compare_with_published  # noqa: PLC0415

    if out is not None:
        check_target(out, store)
    part = _part(find_experiment(experiment), methods, nodes, data)
    blocks = compare_with_published(part, Store(store, create=False), None if seeds is None else parse_seeds(seeds))
    _write(render(part, blocks, format), out)


def plot(
    experiment: Name,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=".svg, .png or .pdf; NAME.svg unless given.", show_default=False)
    ] = None,
    seeds: Seeds = None,
    methods: Methods = None,
    nodes: Nodes = None,
    data: DataKind = None,
    store: StoreFile = DEFAULT_STORE,
) -> None:
    """Bars of a table, curves along an axis, or the course of the optimisation.

    Example: feddag experiment plot participation --out participation.svg
    """
    from feddag.experiments.plots import plot as draw  # noqa: PLC0415

    path = out or Path(f"{experiment}.svg")
    check_target(path, store)
    part = _part(find_experiment(experiment), methods, nodes, data)
    draw(part, Store(store, create=False), path, None if seeds is None else parse_seeds(seeds))
    typer.echo(f"Wrote {path}")


def tune(
    experiment: Name,
    *,
    method: Annotated[str, typer.Option(metavar="NAME", help="A row of the table, or any method.", show_default=False)],
    grid: Annotated[
        Texts, typer.Option(metavar="NAME=VALUE,VALUE", help="What to try; may be repeated.", show_default=False)
    ],
    regime: Annotated[
        Regime | None, typer.Option(help="Which row, where the method has several.", show_default=False)
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="SEEDS", help="Never those that results are reported on.")] = (
        f"{TUNING[0]}-{TUNING[-1]}"
    ),
    nodes: Nodes = None,
    data: DataKind = None,
    jobs: Jobs = 1,
    dask: Dask = None,
    store: StoreFile = DEFAULT_STORE,
    quiet: Quiet = False,
) -> None:
    """By the true graph of simulated data. The best combination is kept for: feddag experiment run NAME --tuned

    For your own data, whose graph nobody knows, use: feddag tune

    Example: feddag experiment tune linear --method NOTEARS-ADMM --grid l1=0.005,0.01 --nodes 10 --seeds 1-3
    """
    from feddag.experiments.tuning import describe_kind  # noqa: PLC0415
    from feddag.experiments.tuning import tune as tuned_on  # noqa: PLC0415

    _check_jobs(jobs, dask)
    part = _part(find_experiment(experiment), None, nodes, data)
    choice = _compute(
        lambda _, progress: tuned_on(
            part,
            method,
            parsed_grid(grid),
            Store(store),
            regime=regime,
            seeds=parse_seeds(seeds),
            jobs=None if dask else jobs,
            progress=progress,
        ),
        dask,
        quiet=quiet,
    )
    table = bare_table()
    for name in [*choice.points[0].parameters, part.metrics[0]]:
        table.add_column(name)
    for point in choice.points:
        mean = "" if point.mean is None else f"{point.mean:.3f}"
        table.add_row(*(Text(str(each)) for each in point.parameters.values()), mean)
    stdout().print(table)
    _print_outcome(choice.outcome, store)
    if choice.best is None:
        failed = "Leave out of --grid what fails" if choice.outcome.failures else "Repeat the command"
        raise FeddagError(f"Some cells are lacking, so nothing was chosen. {failed}.")
    for each in choice.replaced:
        where = (
            f"{describe_kind(each.data, each.nodes)}, {each.metric} {each.mean:.3f} on seeds {format_seeds(each.seeds)}"
        )
        stdout().print(f"In place of {_join(each.parameters)} for {where}.", markup=False, soft_wrap=True)
    options = {"methods": method, "nodes": nodes, "data": data, "store": _unless_default(store)}
    options |= {"jobs": None if jobs == 1 else jobs, "dask": dask}
    next_ = command(f"feddag experiment run {experiment} --tuned", options)
    stdout().print(f"Best: {_join(choice.best.parameters)}. Report it with: {next_}", markup=False, soft_wrap=True)


def report(
    *,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The page; printed unless given.")] = None,
    store: StoreFile = DEFAULT_STORE,
    quiet: Quiet = False,
) -> None:
    """A page in Markdown: every experiment that has results, ours beside the published, and why they differ. With
    --out also pictures, in a folder beside the page.

    Example: feddag experiment report --store benchmarks/results.sqlite --out docs/results.md
    """
    from feddag.cli.cell_progress import show_cells  # noqa: PLC0415
    from feddag.experiments.report import make_report, write_report  # noqa: PLC0415

    if out is not None:
        check_target(out, store)
    kept = Store(store, create=False)
    with show_cells(Console(stderr=True, highlight=False), quiet=quiet, unit="experiments") as progress:
        if out is None:
            printed = make_report(kept, progress=progress).page
        else:
            write_report(kept, out, progress=progress)
            printed = f"Wrote {out}\n"
    typer.echo(printed, nl=False)


def list(*, store: StoreFile = DEFAULT_STORE) -> None:  # noqa: A001 - the word every reader expects here
    """With the number of cells, sanity rows aside, and how many of them the store holds.

    Example: feddag experiment list
    """
    from feddag.experiments.comparison import count_cells  # noqa: PLC0415

    kept = Store(store, create=False) if store != DEFAULT_STORE or store.exists() else None
    table = bare_table()
    for heading in ("name", "in the paper", "what", "cells", "there"):
        table.add_column(heading, no_wrap=heading == "name")
    for each in experiments().values():
        there, cells = count_cells(each, kept)
        table.add_row(each.name, each.place, Text(each.title), str(cells), "" if kept is None else str(there))
    stdout().print(table)


def _named(name: str, methods: str | None, nodes: str | None) -> Sequence[Experiment]:
    if name != ALL:
        return [find_experiment(name)]
    every = [*experiments().values()]
    settings = tuple(setting for each in every for setting in each.settings)
    rows = tuple(row for each in every for row in each.rows)
    _part(replace(every[0], name=ALL, settings=settings, rows=rows), methods, nodes, None)  # refuses what none has
    return every


def _change_each(
    parts: Sequence[Experiment], changed_parts: Callable[[Experiment], Sequence[Experiment]], refused: str
) -> Sequence[Experiment]:
    """Change each part; of several, name and leave out those for which the change is an error."""
    changed, errors = [], {}
    for part in parts:
        try:
            changed += changed_parts(part)
        except FeddagError as error:
            errors[part.name] = error
    if not changed:
        first = next(iter(errors.values()))
        raise first if len(parts) == 1 else FeddagError(f"Of all experiments this leaves none. {first}")
    _leave_out([*errors], refused)
    return changed


def _leave_out(which: Sequence[str], why: str) -> None:
    if which:
        typer.echo(f"Left out, as {why}: {', '.join(which)}.", err=True)


def _with_folder(parts: Sequence[Experiment], folder: Path | None) -> Sequence[Experiment]:
    """Leave out experiments that need a folder that was not given, unless there are no others."""
    needing = [
        part.name for part in parts if any(isinstance(each, Real) and each.needs_folder for each in part.settings)
    ]
    if folder is not None and not needing:
        raise FeddagError(f"--folder is for hippocampus alone. Leave it out for {parts[0].name}.")
    if folder is not None or len(needing) == len(parts):
        return parts
    _leave_out(needing, "it needs --folder")
    return [part for part in parts if part.name not in needing]


def _known(experiment: Experiment, methods: str | None, nodes: str | None) -> tuple[str | None, str | None]:
    """Return the methods and the numbers of variables that the experiment has; all, to be refused, if none."""
    sizes = {str(setting.nodes) for setting in experiment.settings}
    return (
        methods and (",".join(name for name in names(methods) if experiment.has(name)) or methods),
        nodes and (",".join(each for each in names(nodes) if each in sizes) or nodes),
    )


def _unless_default(store: Path) -> Path | None:
    return None if store == DEFAULT_STORE else store


def _part(experiment: Experiment, methods: str | None, nodes: str | None, data: Data | None) -> Experiment:
    return experiment.restrict(
        methods=None if methods is None else names(methods),
        nodes=None if nodes is None else _numbers(nodes),
        data=data,
    )


def _numbers(nodes: str) -> Sequence[int]:
    found = names(nodes)
    if not found or not all(map(str.isdecimal, found)):
        raise FeddagError(f"--nodes must be numbers such as 10,20. Got {nodes!r} instead.")
    return [int(each) for each in found]


def _join(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def _check_jobs(jobs: int, dask: str | None) -> None:
    if dask and jobs != 1:
        raise FeddagError("With --dask its workers compute the cells, as many as there are. Leave out --jobs.")


def _compute(compute: Any, dask: str | None, *, quiet: bool) -> Any:
    """Compute cells under a progress that can be interrupted."""
    from feddag.cli.cell_progress import show_cells  # noqa: PLC0415
    from feddag.experiments.running import on_dask  # noqa: PLC0415
    from feddag.experiments.running import run as run_cells  # noqa: PLC0415

    console = Console(stderr=True, highlight=False)
    try:
        with (
            on_dask(dask) if dask else nullcontext(),
            show_cells(console, quiet=quiet) as show,
            InterruptionAtOnce(console) as interruption,
        ):

            def progress(standing: Any) -> None:
                interruption.raise_if_requested()
                show(standing)

            return compute(run_cells, progress)
    except KeyboardInterrupt:
        typer.echo("Interrupted. What is finished is kept: the same command goes on from there.", err=True)
        raise typer.Exit(EXIT_CODE) from None


def _print_outcome(outcome: Any, store: Path) -> None:
    parts = [f"{outcome.computed} cells computed", f"{outcome.there_before} were there already"]
    if outcome.elsewhere:
        parts.append(f"{outcome.elsewhere} are another process's")
    typer.echo(f"{', '.join(parts)}.", err=True)
    for failure in outcome.failures:
        typer.echo(f"Failed: {failure.cell.title}: {failure.reason}", err=True)
    traces = [f"{failure.cell.title}\n{failure.trace}\n" for failure in outcome.failures if failure.trace]
    if traces:
        log = store.with_suffix(".failures.log")
        with log.open("a", encoding="utf-8") as stream:
            stream.writelines(traces)
        typer.echo(f"Where in the code: {log}", err=True)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    with atomic_write(out) as stream:
        stream.write(text)
    typer.echo(f"Wrote {out}")
