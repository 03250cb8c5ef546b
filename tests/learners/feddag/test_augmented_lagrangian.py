"""How the coefficients of the sub-problems follow from one another (Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from feddag.learners.feddag.augmented_lagrangian import AugmentedLagrangian, Schedule, default_pair, published_pair

SCHEDULE = Schedule(
    alpha_init=0.0,
    rho_init=1.0,
    rho_max=1e6,
    beta=10.0,
    gamma=0.25,
    h_tol=1e-3,
    it_max=20,
    rho_update="repeat",
)


def run(schedule: Schedule, *reached: float) -> list[AugmentedLagrangian]:
    state = AugmentedLagrangian.start(schedule)
    states = []
    for h in reached:
        assert not state.finished
        state = state.after(h, schedule)
        states.append(state)
    return states


class TestPublishedPairs:
    @pytest.mark.parametrize(
        ("nodes", "sharing", "pair"),
        [
            (10, "graph", (6e-3, 10)),
            (20, "graph", (6e-5, 20)),
            (40, "graph", (1e-11, 120)),
            (10, "all", (6e-3, 10)),
            (20, "all", (1e-5, 20)),
            (40, "all", (1e-11, 120)),
        ],
    )
    def test_at_the_papers_sizes_they_are_table_12_exactly(self, nodes, sharing, pair):
        assert published_pair(nodes, sharing) == pair

    @pytest.mark.parametrize("sharing", ["graph", "all"])
    def test_between_and_beyond_rho_falls_and_beta_rises(self, sharing):
        pairs = np.array([published_pair(nodes, sharing) for nodes in range(2, 81)])
        assert (np.diff(pairs[:, 0]) < 0).all()
        assert (np.diff(pairs[:, 1]) > 0).all()
        assert (pairs[:, 1] > 1).all()

    @pytest.mark.parametrize("sharing", ["graph", "all"])
    def test_beyond_the_published_sizes_they_change_by_a_constant_factor_per_node_or_doubling(self, sharing):
        for sizes in ([2, 5, 8], [50, 100, 200]):
            logs = np.log([published_pair(nodes, sharing) for nodes in sizes])
            np.testing.assert_allclose(logs[1] - logs[0], logs[2] - logs[1], rtol=1e-9)

    @pytest.mark.parametrize("sharing", ["graph", "all"])
    def test_they_are_the_default_of_the_papers_constraint_and_log_det_has_its_own(self, sharing):
        assert default_pair(20, sharing, "trace-exponential") == published_pair(20, sharing)
        assert default_pair(10, sharing, "log-det") == pytest.approx((1e3, 10.0))
        two_cycle = {nodes: 1 / nodes**2 for nodes in (10, 40)}  # h of one cycle of two, to leading order
        pressure = [default_pair(n, sharing, "log-det")[0] * two_cycle[n] ** 2 for n in (10, 40)]
        assert pressure[0] == pytest.approx(pressure[1])

    @pytest.mark.parametrize("sharing", ["graph", "all"])
    def test_there_is_no_jump_at_a_published_size(self, sharing):
        for nodes in (10, 20, 40):
            logs = np.log([published_pair(n, sharing) for n in (nodes - 1, nodes, nodes + 1)])
            steps = np.abs(np.diff(logs, axis=0))
            assert (steps.max(axis=0) < 3 * steps.min(axis=0)).all()


def test_the_start():
    state = AugmentedLagrangian.start(replace(SCHEDULE, alpha_init=0.5, rho_init=2.0))
    assert (state.alpha, state.rho, state.sub_problem, state.finished) == (0.5, 2.0, 0, False)
    assert state.h == math.inf


def test_repeat_raises_rho_until_h_has_fallen_by_gamma_and_only_then_moves_alpha():
    first, stalled, again, fallen, done = run(SCHEDULE, 8.0, 4.0, 2.5, 2.0, 1e-4)
    assert (first.alpha, first.rho, first.h, first.multiplier_updates) == (8.0, 1.0, 8.0, 1)  # 0 + 1·8
    assert (stalled.alpha, stalled.rho, stalled.h, stalled.multiplier_updates) == (
        8.0,
        10.0,
        8.0,
        1,
    )  # 4 > 8/4
    assert (again.alpha, again.rho, again.h, again.multiplier_updates) == (8.0, 100.0, 8.0, 1)  # 2.5 > 8/4
    assert (fallen.alpha, fallen.rho, fallen.h, fallen.multiplier_updates) == (
        208.0,
        100.0,
        2.0,
        2,
    )  # 8 + 100·2
    assert done.alpha == pytest.approx(208.01)
    assert [state.finished for state in (first, stalled, again, fallen, done)] == [False] * 4 + [True]
    assert [state.sub_problem for state in (first, stalled, again, fallen, done)] == [1, 2, 3, 4, 5]


def test_once_moves_alpha_by_the_old_rho_every_time_and_raises_rho_where_h_has_not_fallen_by_gamma():
    first, second, third, fourth = run(replace(SCHEDULE, rho_update="once"), 8.0, 4.0, 2.0, 0.5)
    assert (first.alpha, first.rho, first.h) == (8.0, 1.0, 8.0)
    assert (second.alpha, second.rho, second.h) == (12.0, 10.0, 4.0)  # 8 + 1·4, and 4 > 8/4
    assert (third.alpha, third.rho, third.h) == (32.0, 100.0, 2.0)  # 12 + 10·2, and 2 > 4/4
    assert (fourth.alpha, fourth.rho, fourth.h) == (82.0, 100.0, 0.5)  # 32 + 100·0.5, and 0.5 = 2/4
    assert fourth.multiplier_updates == fourth.sub_problem == 4


@pytest.mark.parametrize("rho_update", ["repeat", "once"])
class TestTheEnd:
    def test_at_h_tol(self, rho_update):
        schedule = replace(SCHEDULE, rho_update=rho_update)
        above, at = run(schedule, 1.1e-3, 1e-3)
        assert (above.finished, at.finished) == (False, True)
        assert at.rho == above.rho  # what is acyclic needs no more pressing

    def test_beyond_rho_max(self, rho_update):
        schedule = replace(SCHEDULE, rho_update=rho_update, rho_max=100.0)
        *before, last = run(schedule, 8.0, 8.0, 8.0, 8.0)
        assert [state.rho for state in before] == [1.0, 10.0, 100.0]
        assert not any(state.finished for state in before)
        assert (last.rho, last.finished) == (1000.0, True)

    def test_after_it_max_updates_of_alpha(self, rho_update):
        schedule = replace(SCHEDULE, rho_update=rho_update, it_max=3)
        states = run(schedule, 8.0, 2.0, 0.5)
        assert [state.finished for state in states] == [False, False, True]


def test_with_repeat_it_max_counts_updates_of_alpha_not_sub_problems():
    states = run(replace(SCHEDULE, it_max=2), 8.0, 4.0, 4.0, 1.0)
    assert [state.finished for state in states] == [False, False, False, True]
