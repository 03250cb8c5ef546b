"""Work that can be watched and stopped: what `learn`, `demo` and `stability` have in common."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import typer
from rich.console import Console

from feddag.cli.interruption import EXIT_CODE, Interruption, TerminationAtOnce
from feddag.cli.progress import shown_progress
from feddag.errors import AssumptionWarning
from feddag.learners import Learner, Progress, Status
from feddag.runs import Run, resume_command

Outcome = TypeVar("Outcome")


def watched_run(run: Run, *, quiet: bool) -> Learner:
    """Start or resume a run."""
    return watched(run.learn, quiet=quiet, resume=resume_command(run.folder))


def watched(
    work: Callable[[Progress], Outcome], *, quiet: bool, resume: str | None = None, at_once: bool = False
) -> Outcome:
    """Call `work` with a callback that shows its progress, and that ends it when the user asks for it.

    `resume` is the command that goes on with it then. Work that only waits for others ends `at_once`, and other work
    after its round.
    """
    console = Console(stderr=True, highlight=False)
    try:
        with (
            warnings.catch_warnings(action="ignore", category=AssumptionWarning),  # the assessment has them
            (TerminationAtOnce if at_once else Interruption)(console) as interruption,
            shown_progress(console, quiet=quiet, notice=lambda: interruption.notice) as show,
        ):

            def after_round(status: Status) -> None:
                show(status)
                interruption.raise_if_requested()

            return work(after_round)
    except KeyboardInterrupt:
        typer.echo("Interrupted." if resume is None else f"Interrupted. Resume with: {resume}", err=True)
        raise typer.Exit(EXIT_CODE) from None
