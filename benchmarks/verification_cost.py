"""What it costs that every site follows the study's method and checks every sum: 4 sites in one process.

    .venv/bin/python benchmarks/verification_cost.py

For each method: the rounds of a study; then, for one round, the time in all; the processor time that a site spends on
running the method itself, as the server does anyway, and on checking the sum before; the bytes that it receives; and
how many of these are earlier sums that it is shown. Without verification, the last column and the two of processor time
would be 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import feddag
import studies
from feddag.deployment.site import follow_study
from feddag.deployment.terms import study_terms
from feddag.experiments.formats import markdown_table
from feddag.federation.calls import Traffic
from feddag.federation.course import Course
from feddag.federation.refusals import RefusedError
from feddag.federation.secure import SecureSite
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.study import Study

METHODS = {
    "FedDAG, graph shared (GS)": 'name = "feddag"\nparameters = { it_max = 3, it_inner = 3, it_fl = 10, seed = 1 }',
    "FedDAG, all shared (AS), linear": 'name = "feddag"\n'
    'parameters = { sharing = "all", model = "linear", it_max = 8, it_fl = 100, seed = 1 }',
    "search, own mechanisms": 'name = "search"\nparameters = { restarts = 1, seed = 1 }',
    "search, common mechanisms": 'name = "search"\nparameters = { sharing = "all", restarts = 1, seed = 1 }',
    "NOTEARS": 'name = "notears"',
}
SITES = 4


def seconds_to_follow(study: Study, journal: Path) -> float:
    """Return the processor time in which a site runs a study's method on all of its sums, from the first to the end."""
    started = time.process_time()
    course = Course(journal, study_terms(study), partial(follow_study, study))
    with suppress(RefusedError):  # it asks nothing more
        course.expected({})
    seconds = time.process_time() - started
    course.close()
    return seconds


def measured(method: str, nodes: int, rows: int) -> list[str]:
    """Run a study, and return its figures."""
    simulation = feddag.simulate(nodes, mechanism="linear", sites=SITES, rows=rows, seed=1)
    study = studies.study_of(method, simulation)
    checking, course_bytes = 0.0, 0
    check_sum = SecureSite.check_sum

    def checked(self: SecureSite, message: Any) -> None:
        nonlocal checking
        started = time.thread_time()
        check_sum(self, message)
        checking += time.thread_time() - started

    def ask(site: SiteEndpoint, name: str, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal course_bytes
        if request == "work":
            traffic = Traffic()
            traffic.add({name: content["course"]}, {})
            course_bytes += traffic.received[name]
        return site.reply(request, content)

    SecureSite.check_sum = checked
    try:
        with TemporaryDirectory() as folder:
            started = time.perf_counter()
            result = studies.run(study, simulation, Path(folder), ask).result
            seconds = time.perf_counter() - started
            following = seconds_to_follow(study, Path(folder) / "server" / "journal")
    finally:
        SecureSite.check_sum = check_sum
    rounds = result.record["federation"]["rounds"]
    per_site_and_round = SITES * rounds
    return [
        f"{rounds}",
        f"{seconds / rounds:.3f}",
        f"{following / rounds:.4f}",
        f"{checking / per_site_and_round:.4f}",
        f"{sum(result.learner.communication_.received.values()) / per_site_and_round:,.0f}",
        f"{course_bytes / per_site_and_round:,.0f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--rows", type=int, default=300)
    asked = parser.parse_args()
    header = ["method", "rounds", "seconds in all", "CPU seconds to follow the method", "CPU seconds to check the sum"]
    header += ["bytes that a site receives", "of these earlier sums"]
    print(
        markdown_table(header, [[name, *measured(method, asked.nodes, asked.rows)] for name, method in METHODS.items()])
    )


if __name__ == "__main__":
    main()
