"""The parts of the search on small data, where all graphs can be tried."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from feddag import FeddagError, simulate
from feddag.federation import InProcess
from feddag.graphs import is_dag, to_cpdag
from feddag.learners.bitsets import bits, members
from feddag.learners.knowledge import Knowledge
from feddag.learners.search import tasks
from feddag.learners.search.alternatives import find_alternatives
from feddag.learners.search.common_scores import AutoScores
from feddag.learners.search.directions import weigh
from feddag.learners.search.order_search import OrderSearch, random_moves
from feddag.learners.search.refinement import edge_scores, joint_score, refine
from feddag.learners.search.scores import OwnScores, families_of
from feddag.learners.search.sites import DifferingMechanisms, OwnMechanisms
from feddag.regression.gram import from_triangle, triangle
from feddag.silos import Silo


class Asked:
    """A real federation that keeps what was asked and answered."""

    def __init__(self, sites):
        self.federation = InProcess(sites, 1)
        self.tasks: list[tuple[str, dict, dict]] = []

    def __call__(self, spec, arrays):
        answer = spec.ask(self.federation, len(self.tasks), arrays)
        self.tasks.append((spec.name, dict(arrays), answer))
        return answer


def own_scores(silos, *, equal_noise=False):
    asked = Asked([OwnMechanisms(silo, equal_noise=equal_noise) for silo in silos])
    return OwnScores(len(silos[0].columns), asked, len(silos)), asked


def common_scores(silos, *, equal_noise=False):
    asked = Asked([OwnMechanisms(silo, equal_noise=equal_noise, common=True) for silo in silos])
    return OwnScores(len(silos[0].columns), asked, len(silos)), asked


def auto_scores(silos):
    asked = Asked([DifferingMechanisms(silo, common=False) for silo in silos])
    return AutoScores(len(silos[0].columns), asked, len(silos)), asked


def nothing_known(nodes):
    return Knowledge.of([f"{k}" for k in range(nodes)], (), (), ())


SILOS = simulate(5, heterogeneous=True, sites=3, rows=[80, 150, 100], seed=3).silos


def test_bits_and_members_are_inverse():
    assert bits([0, 3, 70]) == 1 + 8 + 2**70
    assert members(bits([0, 3, 70])) == [0, 3, 70]


def test_own_scores_are_the_mean_over_sites_by_rows():
    families = [(0, 0b10), (2, 0b11011)]
    scores, _ = own_scores(SILOS)
    scores.ask_neighbourhoods(families)
    scores.ask_joint(families)
    expected = np.zeros((2, 5))
    joint = np.zeros(2)
    for silo in SILOS:
        alone, _ = own_scores([silo])
        alone.ask_neighbourhoods(families)
        alone.ask_joint(families)
        expected += silo.rows / 330 * np.array([alone.neighbourhood[family] for family in families])
        joint += silo.rows / 330 * np.array([alone.joint[family] for family in families])
    np.testing.assert_allclose([scores.neighbourhood[family] for family in families], expected, atol=1e-12)
    np.testing.assert_allclose([scores.joint[family] for family in families], joint, atol=1e-12)


def test_as_one_of_many_sites_that_are_alike_a_site_pays_less_for_its_mechanisms():
    """The share that is not paid is that of how well rows predict each other, by regressions fitted anew."""
    families = [(0, 0b10), (2, 0b11011), (1, 0)]
    own, _ = own_scores(SILOS)
    common, _ = common_scores(SILOS)
    own.ask_joint(families)
    common.ask_joint(families)
    assert common.joint[1, 0] == pytest.approx(own.joint[1, 0], abs=0.01)  # a mean and a variance have no price here
    assert common.joint[2, 0b11011] < own.joint[2, 0b11011] - 0.01
    alone, _ = common_scores(SILOS[:1])
    same, _ = own_scores(SILOS[:1])
    alone.ask_joint(families)
    same.ask_joint(families)
    assert alone.joint == same.joint


def alike_but_one(rows=300, sites=6, changed=1):
    """Draw a -> b -> c, straight lines with normal noise: b comes about otherwise at some sites."""
    rng = np.random.default_rng(3)
    silos = []
    for k in range(sites):
        a = rng.standard_normal(rows)
        b = (-1.5 if k < changed else 1.0) * a + (2.0 if k < changed else 1.0) * rng.standard_normal(rows)
        c = 0.8 * b + rng.standard_normal(rows)
        silos.append(Silo(f"s{k}", ("a", "b", "c"), np.stack([a, b, c], axis=1)))
    return silos


def test_a_changed_mechanism_tells_the_direction_of_straight_lines():
    truth, reversed_ = [(0, 0), (1, 0b001), (2, 0b010)], [(0, 0b010), (1, 0b100), (2, 0)]
    own, _ = own_scores(alike_but_one())
    auto, _ = auto_scores(alike_but_one())
    own.ask_joint([*truth, *reversed_])
    auto.ask_joint([*truth, *reversed_])

    def advantage(scores):
        return scores.rows * sum(scores.joint[b] - scores.joint[a] for a, b in zip(truth, reversed_, strict=True))

    assert abs(advantage(own)) < 12
    assert advantage(auto) > 12


def test_the_variables_that_differ_are_found():
    dag = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.int8)
    a, b, c = auto_scores(alike_but_one())[0].differences(dag).evidence
    assert b > 20
    assert max(a, c) < 3
    assert (auto_scores(alike_but_one(changed=0))[0].differences(dag).evidence < 3).all()


def test_units_change_no_score_between_families():
    families = [(0, 0b010), (0, 0), (1, 0b001), (2, 0b011)]
    silos = alike_but_one()
    moved = [Silo(silo.name, silo.columns, silo.values * [10.0, 0.1, 1.0] + [5.0, 0.0, -3.0]) for silo in silos]
    found = []
    for some in (silos, moved):
        scores, _ = auto_scores(some)
        scores.ask_joint(families)
        found.append([scores.joint[family] for family in families])
    np.testing.assert_allclose(*found, atol=1e-8)


def test_of_a_symmetric_matrix_each_entry_leaves_a_site_once():
    matrix = np.random.default_rng(1).normal(size=(7, 7))
    matrix += matrix.T
    assert triangle(matrix).shape == (28,)
    np.testing.assert_array_equal(from_triangle(triangle(matrix)), matrix)
    assert from_triangle(triangle(np.empty((0, 0)))).shape == (0, 0)


@pytest.mark.parametrize("make", [own_scores, auto_scores])
def test_no_family_is_asked_for_twice_and_answers_can_be_kept(make):
    scores, asked = make(SILOS)
    families = [(0, 0b10), (2, 0b11011)]
    scores.ask_neighbourhoods(families)
    scores.ask_joint(families)
    rounds = len(asked.tasks)
    scores.ask_neighbourhoods(families * 2)
    scores.ask_joint(families)
    assert len(asked.tasks) == rounds
    again, nothing = make(SILOS)
    again.restore(*scores.snapshot())
    again.ask_neighbourhoods(families)
    again.ask_joint(families)
    assert not nothing.tasks
    assert again.joint == scores.joint


@pytest.mark.parametrize("make", [own_scores, auto_scores])
def test_nothing_that_leaves_a_site_has_a_row_for_each_of_its_rows(make):
    """All three sites have the same, odd number of rows, which is no number of variables, families or features."""
    rows = 1009
    silos = simulate(4, mechanism="gp", sites=3, rows=rows, seed=1).silos
    scores, asked = make(silos)
    search = OrderSearch(scores, nothing_known(4))
    dag = refine(scores, nothing_known(4), search.graph(search.improve([search.first_order()])[0]))
    weigh(dag, scores, search, nothing_known(4), 0.95)
    scores.check(dag)
    shapes = {size for _, _, answer in asked.tasks for array in answer.values() for size in np.shape(array)}
    assert {name for name, *_ in asked.tasks} >= {"search.comparisons", "search.checks"}
    assert rows not in shapes


def test_what_moves_common_lines_is_told_by_means_and_covariances():
    """Tables with the same means and covariances give the same answers, whatever their rows; if none is far out."""
    rng = np.random.default_rng(1)

    def table(silo):
        rows = rng.uniform(size=silo.values.shape)
        rows -= rows.mean(axis=0)
        white = rows @ np.linalg.inv(np.linalg.cholesky(np.cov(rows.T, bias=True))).T
        values = white @ np.linalg.cholesky(np.cov(silo.values.T, bias=True)).T + silo.values.mean(axis=0)
        return Silo(silo.name, silo.columns, values)

    answers = []
    for some in ([table(silo) for silo in alike_but_one()] for _ in range(2)):
        scores, asked = auto_scores(some)
        scores.ask_joint([(2, 0b011), (1, 0b001)])
        moving = (tasks.COVARIANCES.name, tasks.PULLS.name)
        answers.append([array for name, _, answer in asked.tasks if name in moving for array in answer.values()])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_long_tails_are_no_difference_between_sites():
    """Variances of such rows vary by chance far more than those of normal rows."""
    rng = np.random.default_rng(5)
    silos = []
    for k in range(6):
        a = rng.standard_normal(300)
        b = np.exp(a + 0.5 * rng.standard_normal(300))
        silos.append(Silo(f"s{k}", ("a", "b"), np.stack([a, b], axis=1)))
    scores, _ = auto_scores(silos)
    assert (scores.differences(np.array([[0, 1], [0, 0]], np.int8)).evidence < 5).all()


@pytest.mark.parametrize("changed", [1, 2])
def test_sites_that_differ_hardly_move_the_common_line(changed):
    """However far they are: the slope of b on a is 1 at the other four or five sites."""
    scores, asked = auto_scores(alike_but_one(changed=changed))
    scores.ask_joint([(1, 0b001)])
    *_, (_, arrays, _) = [task for task in asked.tasks if task[0] == tasks.AGREEMENT.name]
    scale = scores._frame["scale"]
    slope = arrays["slopes"][0, 0] * scale[1] / scale[0]
    assert slope == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_search_finds_the_best_of_all_orders(seed):
    silos = simulate(4, heterogeneous=True, sites=2, rows=100, seed=seed).silos
    scores, _ = own_scores(silos)
    search = OrderSearch(scores, nothing_known(4))

    def total(order):
        graph = search.graph(list(order))
        return sum(scores.neighbourhood[family][family[0]] for family in families_of(graph))

    rng = np.random.default_rng(seed)
    best = search.improve([search.first_order()])[0]
    for _ in range(4):
        best = min(best, *search.improve([search.shuffle(best, random_moves(4, rng))]), key=total)
    assert total(best) == pytest.approx(min(total(order) for order in permutations(range(4))), abs=1e-9)


def test_refinement_ends_where_no_single_change_helps():
    scores, _ = own_scores(SILOS)
    dag = refine(scores, nothing_known(5), np.zeros((5, 5), np.int8))
    assert is_dag(dag)
    best = joint_score(scores, dag)
    for i, j in np.argwhere(~np.eye(5, dtype=bool)):
        for entries in ((1, 0), (0, 0), (0, 1)):
            other = dag.copy()
            other[i, j], other[j, i] = entries
            if is_dag(other):
                assert joint_score(scores, other) >= best - 1e-9


def test_edge_scores_tell_what_each_edge_is_worth():
    scores, _ = own_scores(SILOS)
    dag = refine(scores, nothing_known(5), np.zeros((5, 5), np.int8))
    worth = edge_scores(scores, nothing_known(5), dag)
    for i, j in np.argwhere(~np.eye(5, dtype=bool)):
        other = dag.copy()
        other[i, j] ^= 1
        if not is_dag(other):
            assert worth[i, j] == 0
            continue
        change = joint_score(scores, other) - joint_score(scores, dag)
        sign = 1 if dag[i, j] else -1
        assert worth[i, j] == pytest.approx(sign * 330 * change, abs=1e-6)


def test_a_required_edge_has_its_worth_too():
    scores, _ = own_scores(SILOS)
    dag = refine(scores, nothing_known(5), np.zeros((5, 5), np.int8))
    free = edge_scores(scores, nothing_known(5), dag)
    known = Knowledge.of(NAMES, [(NAMES[i], NAMES[j]) for i, j in np.argwhere(dag)], (), ())
    np.testing.assert_array_equal(edge_scores(scores, known, dag)[dag > 0], free[dag > 0])


@pytest.mark.parametrize("make", [own_scores, common_scores])
def test_a_direction_that_other_parents_can_make_up_for_is_open(make):
    """A copy of a cause may take its place, and then be the cause's cause: nothing tells."""
    rng = np.random.default_rng(0)
    silos = []
    for k in range(3):
        a, b = rng.standard_normal((2, 300))
        c = np.tanh(2 * a) + b**2 / 2 + 0.3 * rng.standard_normal(300)
        silos.append(Silo(f"s{k}", ("a", "copy", "b", "c"), np.stack([a, a, b, c], axis=1)))
    scores, _ = make(silos)
    search = OrderSearch(scores, nothing_known(4))
    dag = np.zeros((4, 4), np.int8)
    dag[0, 1] = dag[0, 3] = dag[2, 3] = 1
    by_edge = {(each.cause, each.effect): each for each in weigh(dag, scores, search, nothing_known(4), 0.95).evidence}
    assert not by_edge[0, 1].directed
    assert by_edge[2, 3].directed


@pytest.mark.parametrize("make", [own_scores, common_scores])
@pytest.mark.parametrize(("equal_noise", "curved"), [(True, False), (False, True)])
def test_standard_errors_are_those_of_repeated_draws(make, equal_noise, curved):
    rng = np.random.default_rng(0)
    dag = np.array([[0, 1], [0, 0]], np.int8)
    found = []
    for _ in range(30):
        silos = []
        for k in range(2):
            a, noise = rng.standard_normal((2, 300))
            silos.append(Silo(f"s{k}", ("a", "b"), np.stack([a, (np.tanh(2 * a) if curved else a) + noise], axis=1)))
        scores, _ = make(silos, equal_noise=equal_noise)
        if equal_noise:
            scores.refer_to(dag)
        (edge,) = weigh(dag, scores, OrderSearch(scores, nothing_known(2)), nothing_known(2), 0.95).evidence
        found.append((edge.absent, edge.absent_error, edge.reversed, edge.reversed_error))
    absent, absent_error, turned, turned_error = np.array(found).T
    assert 0.5 < absent_error.mean() / absent.std() < 2
    assert 0.5 < turned_error.mean() / turned.std() < 2


def test_chance_is_not_called_a_sure_edge():
    rng = np.random.default_rng(0)
    silos = [Silo(f"s{k}", NAMES, rng.standard_normal((60, 5))) for k in range(2)]
    scores, _ = own_scores(silos)
    search = OrderSearch(scores, nothing_known(5))
    dag = np.triu(np.ones((5, 5), np.int8), 1)
    assert not any(each.present for each in weigh(dag, scores, search, nothing_known(5), 0.95).evidence)
    known = Knowledge.of(NAMES, [("a", "b")], (), ())
    sure = [each for each in weigh(dag, scores, search, known, 0.95).evidence if each.present]
    assert [(each.cause, each.effect) for each in sure] == [(0, 1)]


def test_linear_gaussian_data_give_the_equivalence_class():
    simulation = simulate(6, mechanism="linear", sites=3, rows=1500, noise_deviation_range=(0.5, 1.5), seed=2)
    truth = simulation.truth.adjacency
    scores, _ = common_scores(simulation.silos)
    search = OrderSearch(scores, nothing_known(6))
    directions = weigh(truth, scores, search, nothing_known(6), 0.95)
    np.testing.assert_array_equal(directions.graph, to_cpdag(truth))
    # whichever member of the class the search ends in, the answer is the same
    for order in permutations(range(6)):
        position = np.argsort(order)
        skeleton = truth | truth.T
        other = (skeleton & (position[:, None] < position)).astype(np.int8)
        if np.array_equal(to_cpdag(other), to_cpdag(truth)) and not np.array_equal(other, truth):
            again = weigh(other, scores, search, nothing_known(6), 0.95)
            np.testing.assert_array_equal(again.graph, to_cpdag(truth))
            break


@pytest.mark.parametrize("make", [own_scores, common_scores])
@pytest.mark.parametrize(
    "known", [((), ()), ([("k", "j")], ()), ((), [["k"], ["j"]])], ids=["nothing", "an edge", "tiers"]
)
def test_a_direction_is_open_where_a_third_variable_would_have_to_turn_with_it(make, known):
    """A triangle of straight lines: k -> j -> i with k -> i explains the data as well as i -> k -> j with i -> j."""
    rng = np.random.default_rng(0)
    silos = []
    for name in "ab":
        i = rng.standard_normal(600)
        k = i + rng.standard_normal(600)
        silos.append(Silo(name, ("i", "k", "j"), np.stack([i, k, i + k + rng.standard_normal(600)], axis=1)))
    scores, _ = make(silos)
    required, tiers = known
    knowledge = Knowledge.of(("i", "k", "j"), required, (), tiers)
    dag = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], np.int8)
    evidence = weigh(dag, scores, OrderSearch(scores, knowledge), knowledge, 0.95).evidence
    (edge,) = (each for each in evidence if (each.cause, each.effect) == (0, 2))
    assert not edge.directed
    assert edge.reversed < 3


@pytest.mark.parametrize("seed", range(1, 4))
def test_what_an_edge_is_held_against_has_it_reversed(seed):
    silos = simulate(6, heterogeneous=True, sites=2, rows=100, edges_per_node=2, seed=seed).silos
    scores, _ = own_scores(silos)
    known = nothing_known(6)
    search = OrderSearch(scores, known)
    dag = refine(scores, known, search.graph(search.improve([search.first_order()])[0]))
    found = find_alternatives(dag, scores, search, known)
    assert set(found) == {(int(i), int(j)) for i, j in np.argwhere(dag)}
    for (i, j), changes in found.items():
        graph = dag.copy()
        for child, parents in changes:
            graph[:, child] = 0
            graph[members(parents), child] = 1
        assert is_dag(graph)
        assert graph[j, i]


@pytest.mark.parametrize("make", [own_scores, common_scores])
def test_a_variable_in_other_units_leaves_every_error_a_number(make):
    rng = np.random.default_rng(0)
    silos = []
    for name in "ab":
        length, cause = rng.standard_normal((2, 5000))
        effect = np.tanh(2 * cause) + 0.3 * rng.standard_normal(5000)
        values = np.stack([150 + 10 * length, (150 + 10 * length) / 2.54, cause, effect], axis=1)
        silos.append(Silo(name, ("cm", "inch", "cause", "effect"), values))
    scores, _ = make(silos)
    dag = np.zeros((4, 4), np.int8)
    dag[0, 1] = dag[2, 3] = 1
    units, other = weigh(dag, scores, OrderSearch(scores, nothing_known(4)), nothing_known(4), 0.95).evidence
    assert np.isfinite([*units[2:6], *other[2:6]]).all()
    assert not units.directed
    assert other.directed


@pytest.mark.parametrize("make", [own_scores, common_scores])
def test_a_nonlinear_effect_shows_its_direction_and_the_empty_graph_is_no_trouble(make):
    rng = np.random.default_rng(0)
    cause = rng.standard_normal((3, 300))
    silos = [
        Silo(f"s{k}", ("a", "b"), np.stack([x, np.tanh(2 * x) + 0.3 * rng.standard_normal(300)], axis=1))
        for k, x in enumerate(cause)
    ]
    scores, _ = make(silos)
    search = OrderSearch(scores, nothing_known(2))
    (edge,) = weigh(np.array([[0, 1], [0, 0]], np.int8), scores, search, nothing_known(2), 0.95).evidence
    assert edge.directed
    assert edge.absent > 3 * edge.absent_error > 0
    assert edge.reversed > 2 * edge.reversed_error > 0
    assert not weigh(np.zeros((2, 2), np.int8), scores, search, nothing_known(2), 0.95).evidence


NAMES = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([("a", "b"), ("b", "c"), ("c", "a")], (), ()), "cycle: a -> b -> c -> a. Leave out one"),
        (([("a", "b")], [("a", "b")], ()), "required, and forbidden"),
        (([("b", "a")], (), [["a"], ["b"]]), "against the tiers"),
        (([("a", "x")], (), ()), "'x', which is not a variable"),
        (([("a", "a")], (), ()), "to itself"),
        (((), (), [["a", "b"], ["b"]]), "two tiers"),
    ],
)
def test_contradictory_knowledge_is_refused(arguments, message):
    with pytest.raises(FeddagError, match=message):
        Knowledge.of(NAMES, *arguments)


@pytest.mark.parametrize("make", [own_scores, common_scores])
def test_knowledge_holds_throughout(make):
    """Forbidden is what the data speak for, required what they speak against."""
    scores, _ = make(SILOS)
    free = refine(scores, nothing_known(5), np.zeros((5, 5), np.int8))
    edges = [(NAMES[i], NAMES[j]) for i, j in np.argwhere(free)]
    absent = [(NAMES[i], NAMES[j]) for i, j in np.argwhere((free | free.T | np.eye(5, dtype=np.int8)) == 0)]
    knowledge = Knowledge.of(NAMES, absent[:1], edges[:2], [])
    tiers = Knowledge.of(NAMES, (), (), [[edges[0][1]], [edges[0][0]]])
    for known in (knowledge, tiers):
        search = OrderSearch(scores, known)
        first = known.admissible([0, 1, 2, 3, 4])
        for start in (search.first_order(), first, search.shuffle(first, random_moves(5, np.random.default_rng(0)))):
            dag = search.graph(search.improve([start])[0])
            assert_obeys(dag, known)
            dag = refine(scores, known, dag)
            assert_obeys(dag, known)
        for edge in weigh(dag, scores, search, known, 0.95).evidence:
            if known.required[edge.effect] >> edge.cause & 1 or not known.allowed[edge.cause] >> edge.effect & 1:
                assert edge.directed == edge.present
                assert np.isinf(edge.reversed)


def assert_obeys(dag, knowledge):
    assert is_dag(dag)
    for child, parents in families_of(dag):
        assert not parents & ~knowledge.allowed[child]
        assert not knowledge.required[child] & ~parents


def test_the_directions_of_all_edges_are_asked_for_side_by_side():
    silos = simulate(8, edges_per_node=4, heterogeneous=True, sites=2, rows=100, seed=1).silos
    scores, asked = own_scores(silos)
    search = OrderSearch(scores, nothing_known(8))
    dag = np.triu(np.ones((8, 8), np.int8), 1)
    weigh(dag, scores, search, nothing_known(8), 0.95)
    assert len(asked.tasks) < dag.sum()  # asked one edge after the other, they would take more rounds than edges
