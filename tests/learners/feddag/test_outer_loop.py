"""The server's side, on fake sites whose answers are known."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from feddag.federation import Answer, InProcess, Task
from feddag.learners.feddag.augmented_lagrangian import Schedule
from feddag.learners.feddag.local_solver import Objective
from feddag.learners.feddag.outer_loop import SETTLED_H, OuterLoop, Plan, settled
from feddag.models import Linear, trace_exponential

NODES = 3
SCHEDULE = Schedule(
    alpha_init=0.5, rho_init=1.0, rho_max=1e6, beta=10.0, gamma=0.25, h_tol=1e-10, it_max=3, rho_update="once"
)


class Marked:
    """A site that answers in round t with weights k + t/10 on a cycle of its graph, and keeps every task."""

    def __init__(self, position: int, weight: float = 1.0) -> None:
        self.name, self.position, self.weight = f"s{position}", position, weight
        self.tasks: list[Task] = []

    def graph(self, round_: int) -> np.ndarray:
        W = np.zeros((NODES, NODES), np.float32)
        W[0, 1] = W[1, 0] = self.position + round_ / 10
        return W

    def answer(self, task: Task) -> Answer:
        self.tasks.append(task)
        return Answer(self.weight, {"graph": self.graph(task.round)})

    def snapshot(self):
        return {}

    def restore(self, state): ...


def plan(*, participants: int, seed: int = 0, phases=(2, 2, 1), schedule=SCHEDULE, patience=None) -> Plan:
    return Plan(
        nodes=NODES,
        objective=Objective(Linear(), "trace-exponential", 0.01, 0.03),
        schedule=schedule,
        phases=phases,
        participants=participants,
        sharing="graph",
        threshold=1.5,
        seed=seed,
        patience=patience,
    )


def run(sites, **settings) -> OuterLoop:
    with InProcess(sites, workers=1) as federation:
        loop = OuterLoop(federation, plan(**settings))
        loop.run(lambda record: None)
    return loop


def drawn(sites: int, participants: int, seed: int = 0, phases=(1,) * 10) -> list[tuple[int, ...]]:
    federation = [Marked(k) for k in range(sites)]
    run(federation, participants=participants, seed=seed, phases=phases)
    return [task.participants for task in federation[0].tasks]


class TestParticipation:
    def test_every_round_draws_anew_the_right_number_of_different_sites(self):
        rounds = drawn(10, 4)
        assert len(rounds) == 30
        assert all(len(set(chosen)) == 4 and set(chosen) <= set(range(10)) for chosen in rounds)
        assert len(set(rounds)) > 20
        assert np.bincount(np.concatenate(rounds), minlength=10).min() >= 4

    def test_sites_are_named_in_their_order(self):
        assert all(list(chosen) == sorted(chosen) for chosen in drawn(10, 4))

    def test_all_take_part_where_all_are_asked(self):
        assert set(drawn(4, 4)) == {(0, 1, 2, 3)}

    def test_the_draw_depends_on_seed_and_round_alone(self):
        assert drawn(6, 2, seed=3) == drawn(6, 2, seed=3)
        assert drawn(6, 2, seed=3) != drawn(6, 2, seed=4)
        # other data, and other phases: the same draws
        others = [Marked(k, weight=5.0) for k in range(6)]
        run(others, participants=2, seed=3, phases=(7,))
        assert [task.participants for task in others[0].tasks] == drawn(6, 2, seed=3)[:3]

    def test_only_the_drawn_enter_the_average_that_goes_to_all_in_the_next_round(self):
        sites = [Marked(k, weight=1.0 + k) for k in range(5)]
        run(sites, participants=2, seed=1)
        for site in sites:
            for before, after in zip(site.tasks[:-1], site.tasks[1:], strict=True):
                chosen = before.participants
                expected = np.average(
                    [sites[k].graph(before.round) for k in chosen],
                    axis=0,
                    weights=[sites[k].weight for k in chosen],
                )
                np.testing.assert_allclose(after.arrays["graph"], expected, rtol=1e-6)


@pytest.fixture(scope="module")
def sites():
    return [Marked(1), Marked(3)]


@pytest.fixture(scope="module")
def loop(sites):
    return run(sites, participants=2)


class TestTheOuterLoop:
    def test_the_first_round_starts_from_the_models_start(self, sites, loop):
        assert not sites[0].tasks[0].arrays["graph"].any()

    def test_a_sub_problem_is_its_phases_and_rounds_count_through(self, sites, loop):
        tasks = sites[0].tasks
        assert [task.numbers["steps"] for task in tasks] == [2, 2, 1] * 3
        assert [task.round for task in tasks] == list(range(9))
        assert [record.step for record in loop.history.rounds] == [2, 4, 5, 7, 9, 10, 12, 14, 15]
        assert [record.sub_problem for record in loop.history.rounds] == [1, 1, 1, 2, 2, 2, 3, 3, 3]

    def test_h_is_the_acyclicity_of_the_average(self, loop):
        for k, record in enumerate(loop.history.rounds):
            W = np.zeros((NODES, NODES), np.float32)
            W[0, 1] = W[1, 0] = 2 + k / 10
            assert record.h == pytest.approx(float(trace_exponential(jnp.asarray(W**2))), rel=1e-5)

    def test_coefficients_follow_from_h_at_the_end_of_each_sub_problem(self, sites, loop):
        ends = [loop.history.rounds[k].h for k in (2, 5)]
        alpha = [0.5, 0.5 + 1 * ends[0], 0.5 + 1 * ends[0] + 1 * ends[1]]  # ρ = 1 while α is updated twice
        rho = [1.0, 1.0, 10.0]  # the first h counts as progress, the second is larger
        for k, task in enumerate(sites[1].tasks):
            assert task.numbers["alpha"] == pytest.approx(alpha[k // 3])
            assert task.numbers["rho"] == rho[k // 3]
            assert loop.history.rounds[k].alpha == task.numbers["alpha"]
            assert loop.history.rounds[k].rho == task.numbers["rho"]

    def test_steps_are_scaled_by_the_acyclicity_that_the_round_before_reached(self):
        class Nearly(Marked):
            def graph(self, round_):
                return super().graph(round_) * np.float32(0.01)

        sites = [Nearly(1), Nearly(3)]
        rounds = run(sites, participants=2).history.rounds
        told = [task.numbers["h"] for task in sites[0].tasks]
        assert told[0] == 1.0
        assert told[1:] == [record.h for record in rounds[:-1]]
        assert max(told[1:]) < 1e-4

    def test_edges_above_the_threshold_are_counted(self, loop):
        assert {record.edges for record in loop.history.rounds} == {2}

    def test_the_graph_is_kept_at_the_end_of_each_sub_problem(self, loop):
        kept = [graph[0, 1] for graph in loop.history.graphs]
        np.testing.assert_allclose(kept, [2.2, 2.5, 2.8], rtol=1e-6)
        np.testing.assert_array_equal(loop.params["graph"], loop.history.graphs[-1])

    def test_it_never_sees_a_site(self, loop):
        assert all(record.sites is None for record in loop.history.rounds)


def test_it_stops_as_soon_as_the_average_is_acyclic():
    class Acyclic(Marked):
        def graph(self, round_):
            return np.triu(super().graph(round_))

    loop = run([Acyclic(1), Acyclic(3)], participants=2)
    assert [record.h for record in loop.history.rounds] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_it_is_taken_up_after_any_round(stop):
    class StoppedError(Exception):
        pass

    def stop_after(record):
        if record.round == stop:
            raise StoppedError

    whole = run([Marked(k) for k in range(4)], participants=2)
    with InProcess([Marked(k) for k in range(4)], workers=1) as federation:
        first = OuterLoop(federation, plan(participants=2))
        with pytest.raises(StoppedError):
            first.run(stop_after)
        second = OuterLoop(federation, plan(participants=2))
        second.restore(*first.snapshot())
        second.run(lambda record: None)
    timeless = [
        [(record.round, record.h, record.alpha, record.rho, record.step) for record in each.history.rounds]
        for each in (whole, second)
    ]
    assert timeless[0] == timeless[1]
    np.testing.assert_array_equal(second.params["graph"], whole.params["graph"])
    np.testing.assert_array_equal(second.history.graphs, whole.history.graphs)


class TestPatience:
    """The edge 0 → 1 is above the threshold from the second sub-problem on; a weak edge back keeps h above h_tol."""

    class Nearly(Marked):
        back = 1e-4

        def graph(self, round_):
            W = np.zeros((NODES, NODES), np.float32)
            W[0, 1], W[1, 0] = (1.4 if round_ < 3 else 1.6), self.back
            return W

    SCHEDULE = replace(SCHEDULE, it_max=8)

    def sub_problems(self, patience, site=Nearly):
        loop = run([site(1)], participants=1, phases=(1, 1), schedule=self.SCHEDULE, patience=patience)
        return len(loop.history.graphs)

    def test_ends_the_run_so_many_sub_problems_after_the_last_change_of_the_graph(self):
        assert {patience: self.sub_problems(patience) for patience in (None, 1, 3)} == {None: 8, 1: 3, 3: 5}

    def test_goes_on_while_edges_that_close_cycles_still_compete(self):
        class Competing(self.Nearly):
            back = 0.4

        assert run([Competing(1)], participants=1).history.rounds[-1].h > SETTLED_H
        assert self.sub_problems(1, Competing) == 8

    def test_goes_on_while_the_graph_has_a_cycle(self):
        graph = np.array([[0, 1], [1, 0]], dtype=bool)
        assert not settled([graph, graph, graph], 0.0, 1)
        assert settled([graph, np.triu(graph), np.triu(graph)], 0.0, 1)
        assert not settled([graph, np.triu(graph), np.triu(graph)], 0.0, 2)

    def test_a_run_that_has_settled_does_not_go_on_when_it_is_taken_up(self):
        settings = {"participants": 1, "phases": (1, 1), "schedule": self.SCHEDULE, "patience": 1}
        whole = run([self.Nearly(1)], **settings)
        with InProcess([self.Nearly(1)], workers=1) as federation:
            again = OuterLoop(federation, plan(**settings))
            again.restore(*whole.snapshot())
            again.run(lambda record: None)
        assert len(again.history.rounds) == len(whole.history.rounds)
