"""Moments of all sites' rows, from two rounds of sums or of means."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.federation import InProcess, Task
from feddag.regression.moments import MomentSite, MomentTasks, common_scale, scale_site, summed_moments
from feddag.silos import Silo
from feddag.silos.scaling import pooled_scale
from feddag.silos.variable_types import CONTINUOUS, Kind

RNG = np.random.default_rng(0)
TABLES = [1e6 + RNG.normal(size=(rows, 3)) * [1, 10, 0.1] for rows in (20, 50, 35)]
POOLED = np.concatenate(TABLES)


def federation_of(tasks):
    return InProcess([MomentSite(f"s{k}", table, tasks) for k, table in enumerate(TABLES)], 1)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (MomentTasks.by_sums("a"), POOLED.var(axis=0)),
        (MomentTasks.by_sums("a", products=True), np.cov(POOLED.T, bias=True)),
        (MomentTasks.by_means("a"), POOLED.var(axis=0)),
    ],
    ids=["sums", "products", "means"],
)
def test_they_are_those_of_pooled_rows_without_loss_of_digits(tasks, expected):
    with federation_of(tasks) as federation:
        found = tasks.ask(lambda spec, arrays: spec.ask(federation, 1, arrays))
    np.testing.assert_allclose(found.mean, POOLED.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.second, expected, rtol=1e-8)


@pytest.mark.parametrize(
    "tasks", [MomentTasks.by_sums("a"), MomentTasks.by_sums("a", products=True), MomentTasks.by_means("a")]
)
def test_answers_are_as_declared_and_other_tasks_are_refused(tasks):
    site = MomentSite("here", TABLES[0], tasks)
    bounded = tasks.bounded(3)
    for spec, arrays in ((tasks.first, {}), (tasks.second, {"mean": np.zeros(3)})):
        task = Task(spec.name, 1, {}, arrays, (0,))
        bounded[spec.name].check_task("here", task, 1)
        answer = site.answer(task)
        assert answer.arrays.keys() == spec.answers.keys()
        bounded[spec.name].check_answer("here", task, answer.arrays)
    with pytest.raises(FeddagError, match=r"not 'a\.rows'"):
        site.answer(Task("a.rows", 1, {}, {}, (0,)))


def test_the_covariance_counts_all_rows():
    columns = ("x", "y", "z")
    with federation_of(MomentTasks.by_sums("moments", products=True)) as federation:
        moments = summed_moments(federation, columns)
    assert (moments.rows, moments.columns) == (105, columns)


def test_one_process_finds_the_common_scale_of_a_federation_bit_for_bit():
    kinds = (CONTINUOUS, Kind("binary", (0, 1)), CONTINUOUS)
    silos = [Silo(f"s{k}", ("x", "y", "z"), table, kinds) for k, table in enumerate(TABLES)]
    with InProcess([scale_site(silo) for silo in silos], 1) as federation:
        found = common_scale(federation)
    for one, other in zip(pooled_scale(silos), found, strict=True):
        assert one.shape == (2,)
        np.testing.assert_array_equal(one, other)
