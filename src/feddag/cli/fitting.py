"""A fit that can be watched and stopped: what `learn` and `demo` have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import typer
from rich.console import Console

from feddag.cli.interruption import EXIT_CODE, Interruption
from feddag.cli.progress import shown_progress
from feddag.learners import Learner, Progress, Status
from feddag.runs import Run, resume_command
from feddag.silos import Silo


def watched_run(run: Run, silos: Sequence[Silo], *, quiet: bool) -> Learner:
    """Start or resume a run."""
    return watched(lambda progress: run.learn(silos, progress), quiet=quiet, folder=run.folder)


def watched(fit: Callable[[Progress], Learner], *, quiet: bool, folder: Path | None = None) -> Learner:
    """Call `fit` with a callback that shows its progress, and that ends it when the user asks for it."""
    console = Console(stderr=True, highlight=False)
    try:
        with (
            Interruption(console) as interruption,
            shown_progress(console, quiet=quiet, notice=lambda: interruption.notice) as show,
        ):

            def after_round(status: Status) -> None:
                show(status)
                interruption.raise_if_requested()

            return fit(after_round)
    except KeyboardInterrupt:
        resume = "" if folder is None else f" Resume with: {resume_command(folder)}"
        typer.echo(f"Interrupted.{resume}", err=True)
        raise typer.Exit(EXIT_CODE) from None
