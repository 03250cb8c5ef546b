"""A federation gives back a weighted mean of those drawn, in site order, and counts what was sent."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from feddag.federation import Answer, Federation, InProcess, Ledger, Site, Task
from feddag.federation.protocol import array_bytes, weighted_mean


class Echo:
    """A site that answers with numbers of its own, and remembers what it was asked."""

    def __init__(self, name: str, value: float, weight: float = 1.0, delay: float = 0.0) -> None:
        self.name, self.value, self.weight, self.delay = name, value, weight, delay
        self.tasks: list[Task] = []

    def answer(self, task: Task) -> Answer:
        time.sleep(self.delay)
        self.tasks.append(task)
        return Answer(self.weight, {"x": np.full((2, 3), self.value, np.float32)})

    def snapshot(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, state) -> None: ...


def task(participants: tuple[int, ...], round_: int = 0) -> Task:
    return Task("echo", round_, {"steps": 1}, {"x": np.zeros((2, 3), np.float32)}, participants)


def test_the_mean_is_numpys_weighted_average():
    rng = np.random.default_rng(0)
    weights = [1.0, 20.0, 300.0]
    arrays = [
        {"U": rng.normal(size=(3, 3)).astype(np.float32), "b": rng.normal(size=4).astype(np.float32)} for _ in weights
    ]
    mean = weighted_mean([Answer(w, a) for w, a in zip(weights, arrays, strict=True)])
    assert list(mean) == ["U", "b"]
    for name, array in mean.items():
        stacked = np.stack([each[name] for each in arrays]).astype(np.float64)
        np.testing.assert_array_equal(array, np.average(stacked, axis=0, weights=weights).astype(np.float32))
        assert array.dtype == np.float32


def test_the_mean_of_one_answer_is_the_answer_to_the_bit():
    x = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    np.testing.assert_array_equal(weighted_mean([Answer(1.0, {"x": x})])["x"], x)


def test_the_mean_is_taken_in_double_precision():
    """In single precision 1 is lost beside 1e8, and so is the whole mean."""
    numbers = [1e8, 1.0, -1e8]
    mean = weighted_mean([Answer(1.0, {"x": np.array([x], np.float32)}) for x in numbers])
    assert mean["x"][0] == np.float32(1 / 3)


def test_in_process_is_a_federation_of_sites():
    site = Echo("a", 1)
    assert isinstance(site, Site)
    with InProcess([site], workers=1) as federation:
        assert isinstance(federation, Federation)
        assert federation.sites == ("a",)


@pytest.mark.parametrize("workers", [1, 3])
def test_only_those_drawn_enter_the_mean_but_all_work(workers):
    sites = [Echo("a", 1.0, weight=1), Echo("b", 1000.0, weight=5), Echo("c", 4.0, weight=2)]
    with InProcess(sites, workers) as federation:
        mean = federation.aggregate(task((0, 2)))
    np.testing.assert_array_equal(mean["x"], np.full((2, 3), 3.0))
    assert [len(site.tasks) for site in sites] == [1, 1, 1]


def test_arrival_order_does_not_matter():
    """The slowest site comes first; with values whose float sum depends on the order."""
    values = [1e8, 1.0, -1e8, 3.3]
    sites = [Echo(str(k), value, delay=0.02 * (4 - k)) for k, value in enumerate(values)]
    with InProcess(sites, workers=4) as federation:
        late = federation.aggregate(task((0, 1, 2, 3)))
    for site in sites:
        site.delay = 0
    with InProcess(sites, workers=1) as federation:
        early = federation.aggregate(task((0, 1, 2, 3)))
    np.testing.assert_array_equal(late["x"], early["x"])


def test_workers_let_sites_work_at_the_same_time():
    barrier = threading.Barrier(2, timeout=20)  # broken, and an error, unless two sites meet

    class Meeting(Echo):
        def answer(self, task: Task) -> Answer:
            barrier.wait()
            return super().answer(task)

    with InProcess([Meeting("a", 1.0), Meeting("b", 3.0)], workers=2) as federation:
        assert federation.aggregate(task((0, 1)))["x"][0, 0] == 2.0


def test_the_ledger_counts_what_those_drawn_send_and_what_all_receive():
    with InProcess([Echo(name, 1.0) for name in "abc"], workers=1) as federation:
        federation.aggregate(task((0, 2)))
        federation.aggregate(task((2,)))
    size = 2 * 3 * 4
    assert federation.ledger == Ledger(
        sent={"a": size, "b": 0, "c": 2 * size}, received={"a": 2 * size, "b": 2 * size, "c": 2 * size}
    )


def test_a_sites_failure_is_the_federations():
    class Broken(Echo):
        def answer(self, task: Task) -> Answer:
            raise RuntimeError("disk full")

    with (
        InProcess([Echo("a", 1.0), Broken("b", 1.0)], workers=2) as federation,
        pytest.raises(RuntimeError, match="disk full"),
    ):
        federation.aggregate(task((0,)))


def test_bytes_of_arrays():
    assert array_bytes({"U": np.zeros((10, 10), np.float32), "n": np.zeros(3, np.int64)}) == 400 + 24
