"""The checks that `learn` puts every graph to, in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from feddag.errors import FeddagError
from feddag.files import atomic_write
from feddag.learners import Learner
from feddag.runs import Run
from feddag.silos import Silo
from feddag.trust import Assessment, assess, warnings_before

_FILE = "trust.json"


def warn(estimator: Learner, silos: Sequence[Silo], *, quiet: bool) -> None:
    """What to know before a fit begins."""
    if not quiet:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        for warning in warnings_before(estimator, silos):
            console.print(f"Warning: {warning}", markup=False)


def assessed(run: Run, learned: Learner, silos: Sequence[Silo] | None, *, quiet: bool) -> Assessment | None:
    """From the run's folder if it is there, else from the run's tables; then it is written into the folder.

    A finished run may have outlived its tables: then there is none.
    """
    path = run.folder / _FILE
    if path.exists():
        return Assessment.from_json(path.read_text(encoding="utf-8"))
    if silos is None:
        try:
            silos = run.silos()
        except FeddagError:
            return None
    with Console(stderr=True, quiet=quiet).status("Holding the graph against rows held out"):
        assessment = assess(learned, silos)
    keep(run, assessment)
    return assessment


def keep(run: Run, assessment: Assessment) -> None:
    with atomic_write(run.folder / _FILE) as stream:
        stream.write(assessment.to_json())


def show_assessment(console: Console, assessment: Assessment | None) -> None:
    if assessment is None:
        return
    console.print(assessment.verdict, markup=False, soft_wrap=True)
    for warning in assessment.warnings:
        console.print(f"Warning: {warning}", markup=False, soft_wrap=True)
