"""Print the checks before and after a fit."""

from __future__ import annotations

from rich.console import Console

from feddag.errors import FeddagError
from feddag.runs import Run
from feddag.trust import warnings_before


def warn(run: Run, *, quiet: bool) -> None:
    """Print what to know before a fit begins."""
    if not quiet:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        for warning in warnings_before(run.estimator(), run.silos()):
            console.print(f"Warning: {warning}", markup=False)


def show_assessment(console: Console, run: Run, *, quiet: bool) -> None:
    """Print how far to trust a run's graph. A finished run may have outlived its tables: then print nothing."""
    assessment = run.assessment()
    if assessment is None and run.result().inner.private:
        console.print("The graph is not held against rows: such figures have no noise.", markup=False)
        return
    if assessment is None:
        try:
            run.silos()
        except FeddagError:
            return
        with Console(stderr=True, quiet=quiet).status("Comparing graphs on held-out rows"):
            assessment = run.assess()
    console.print(assessment.verdict, markup=False, soft_wrap=True)
    for warning in assessment.warnings:
        console.print(f"Warning: {warning}", markup=False, soft_wrap=True)
