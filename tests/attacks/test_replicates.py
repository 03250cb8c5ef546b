"""Halves of the rows: whoever knows which rows count in each of many sums can solve them for the rows.

The server keeps to the study, and solves what it is told. It knows how many rows each site has.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hostile_server import NOTEARS, HostileServer, Released, Result, Sites, registries

from feddag.deployment import site as site_builder
from feddag.deployment.study_tasks import federated_learner, study_replicates
from feddag.federation.arrays import under
from feddag.silos import Silo
from feddag.trust.stability import draw_half

ROWS = (12, 10, 11)
REPLICATES = 50


def known_draws(folder: Path) -> Result:
    """Draw as the sites do, from a seed that all know, and solve the sums of all replicates for the rows."""
    tables = {site: table[["age", "bmi"]] for site, table in registries(ROWS, ("basel", "bern", "lyon")).items()}
    server = HostileServer(Sites(folder, NOTEARS, tables, more=f"[trust]\nbootstraps = {REPLICATES}\n"))
    assert server.join()
    server.go_on_until(lambda task: task.name == "stability.replicates")
    counts, total = _multiplicities(server), sum((rows + 1) // 2 for rows in ROWS)
    first = _numbers(server.go_on(), "moments_sums", "sum")
    second = server.go_on()
    centre = np.array([second.task.arrays[f"{k}/moments_products/mean"] for k in range(REPLICATES)])
    about_centre = _numbers(second, "moments_products", "products").diagonal(axis1=1, axis2=2)
    squares = about_centre + 2 * centre * first - total * centre**2
    found = _fix_levels(*(np.linalg.lstsq(counts, sums, rcond=None)[0] for sums in (first, squares)))
    truth = np.concatenate([table.to_numpy() for table in tables.values()])
    return server.result(int((np.abs(found - truth) < 0.05).all(axis=1).sum()), len(truth))


def _numbers(released: Released, task: str, name: str) -> np.ndarray:
    """Return what the sum of all sites holds of a task, for each replicate."""
    mean = released.total.mean
    return len(ROWS) * np.array([under(f"{k}/{task}/float64", mean)[name] for k in range(REPLICATES)])


def _fix_levels(values: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return rows that are known but for one number for each site and column, as are their squares.

    All draws of a site have as many rows, so sums do not tell the site's mean. With values x + s their
    squares are x² + 2sx and a constant: a straight line in x, whose slope is 2s.
    """
    found = values.copy()
    for part in np.split(np.arange(len(values)), np.cumsum(ROWS)[:-1]):
        for column in range(values.shape[1]):
            x = values[part, column]
            found[part, column] += np.polyfit(x, squares[part, column] - x**2, 1)[0] / 2
    return found


def _multiplicities(server: HostileServer) -> np.ndarray:
    """Return which rows of each site count in each replicate, if sites draw by the seed of the study."""
    study = server.sites.study
    replicates = study_replicates(study, federated_learner(study))
    assert replicates is not None
    counts = np.zeros((REPLICATES, sum(ROWS)))
    for position, rows in enumerate(ROWS):
        start = sum(ROWS[:position])
        numbered = Silo("any", ("row", "again"), np.arange(2.0 * rows).reshape(rows, 2))
        for replicate in range(REPLICATES):
            drawn = draw_half(numbered, (replicates.seed, replicate, position)).values[:, 0] / 2
            counts[replicate, start : start + rows] = np.bincount(drawn.astype(int), minlength=rows)
    return counts


ATTACKS = (known_draws,)


def test_nobody_can_solve_replicates_for_the_rows(tmp_path):
    assert known_draws(tmp_path).recovered == 0


def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch):
    monkeypatch.setattr(site_builder, "draws_secret", lambda folder: b"")
    assert known_draws(tmp_path).recovered == sum(ROWS)


def test_a_site_that_is_started_again_goes_on_with_the_same_draws_and_another_study_has_others(tmp_path):
    first = site_builder.draws_secret(tmp_path)
    assert site_builder.draws_secret(tmp_path) == first
    (tmp_path / "another").mkdir()
    assert site_builder.draws_secret(tmp_path / "another") != first


@pytest.mark.parametrize("name", ["draws.key"])
def test_the_secret_is_for_the_site_alone(tmp_path, name):
    site_builder.draws_secret(tmp_path)
    assert (tmp_path / name).stat().st_mode & 0o077 == 0
