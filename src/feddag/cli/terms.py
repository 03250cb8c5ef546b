"""On which terms sites take part in a study over a network, and how much leaves each."""

from __future__ import annotations

from rich.console import Console

from feddag.deployment.preflight import describe_terms
from feddag.disclosure import describe_release
from feddag.study import Study


def show_terms(console: Console, study: Study) -> None:
    """Print quorum, protection, noise and knowledge, and how many numbers leave each site."""
    with Console(stderr=True).status("Counting the numbers that leave each site, on made-up tables"):
        released = describe_release(study)
    console.print("Over a network:", markup=False)
    for line in [*describe_terms(study), *released]:
        console.print(f"  {line}", markup=False, soft_wrap=True)
