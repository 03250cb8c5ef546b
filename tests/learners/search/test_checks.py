"""The search checks its assumptions after every fit."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import feddag
from feddag import AssumptionWarning, EvidenceSearch, simulate
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.checks import ATOMS, COPIES, DEPENDENT, IMPRECISE, OUTLIERS, Checks, Doubts
from feddag.learners.search.directions import Directions, EdgeEvidence
from feddag.learners.search.mixed import MixedMechanisms
from feddag.learners.search.sites import OwnMechanisms
from feddag.regression.residual_checks import dependence_on, deviations_beyond_chance
from feddag.silos import read_silos
from feddag.trust import assess

NAMES = ("x0", "x1", "x2", "x3")


def check(silos, dag) -> Checks:
    """Check a graph as a federation does."""
    rows = sum(silo.rows for silo in silos)
    total: dict[str, np.ndarray] = {}
    for silo in silos:
        site = OwnMechanisms(silo, equal_noise=False)
        for name, array in site._checks({"dag": dag.astype(np.uint8)}).items():
            total[name] = total.get(name, 0) + silo.rows / rows * array
    return Checks.of(total, dag, rows)


def table(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Draw a chain x0 -> x1 -> x2 and x3 by itself, all nonlinear with normal noise."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=rows)
    second = np.tanh(2 * first) + 0.4 * rng.normal(size=rows)
    third = np.sin(2 * second) + 0.4 * rng.normal(size=rows)
    return pd.DataFrame({"x0": first, "x1": second, "x2": third, "x3": rng.normal(size=rows)})


def failed(learner: EvidenceSearch, kind: str) -> list[str]:
    found = learner.checks_
    return found.variables[found.check.eq(kind) & found.failed.eq(True)].tolist()


def deviations_of(noise) -> np.ndarray:
    """Measure how far residuals of a linear regression depend on its causes, in standard deviations beyond chance."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        causes = rng.normal(size=(1000, 6))
        causes -= causes.mean(axis=0)
        values = noise(rng, causes)
        values -= values.mean()
        residuals = values - causes @ np.linalg.lstsq(causes, values, rcond=None)[0]
        found.append(deviations_beyond_chance(*map(np.array, dependence_on(causes, residuals))))
    return np.array(found)


@pytest.mark.parametrize("noise", ["normal", "uniform", "laplace", "exponential", "standard_cauchy"])
def test_chance_is_known_whatever_the_noise(noise):
    found = deviations_of(lambda rng, causes: getattr(rng, noise)(size=len(causes)))
    assert found.max() < 4
    assert found.mean() < 0.5


def test_noise_of_a_size_or_shape_by_the_causes_is_found():
    by_size = deviations_of(lambda rng, causes: np.exp(0.5 * causes[:, 0]) * rng.normal(size=len(causes)))
    skewed = deviations_of(lambda rng, causes: np.sign(causes[:, 0]) * (rng.exponential(size=len(causes)) - 1))
    assert by_size.min() > 4
    assert (skewed > 4).mean() > 0.9


def test_a_site_rounds_what_it_answers_to_halves_of_a_function():
    rng = np.random.default_rng(1)
    found = dependence_on(rng.normal(size=(40, 6)), rng.normal(size=40))
    assert found.by_chance > 0
    for share in (found.explained, found.by_chance):
        assert 80 * share == pytest.approx(round(80 * share), abs=1e-9)


@pytest.mark.parametrize("mechanism", ["gp", "mim", "linear"])
def test_true_graphs_of_data_as_assumed_pass(mechanism):
    variables = failures = 0
    for seed in range(1, 6):
        simulation = simulate(10, mechanism=mechanism, sites=4, rows=300, seed=seed)
        checks = check(simulation.silos, simulation.truth.adjacency)
        variables += int(simulation.truth.adjacency.any(axis=0).sum())
        failures += len(checks.dependent)
        assert not checks.outliers.any()
    assert variables > 30
    assert failures == 0


@pytest.mark.parametrize("mechanism", ["gp", "mim"])
def test_reversed_graphs_fail(mechanism):
    simulation = simulate(10, mechanism=mechanism, sites=5, rows=1000, seed=3)
    checks = check(simulation.silos, simulation.truth.adjacency.T)
    effects = simulation.truth.adjacency.any(axis=1).sum()
    assert len(checks.dependent) >= effects / 3


def test_a_fit_of_data_as_assumed_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", AssumptionWarning)
        learned = EvidenceSearch(restarts=0).fit([table(seed=seed) for seed in range(3)])
    assert learned.failed_checks == ()
    assert learned.history_.rounds[-1].stage == "hidden causes"


@pytest.mark.parametrize("sharing", ["graph", "all"])
def test_a_wrong_required_direction_is_named(sharing):
    tables = [table(4000, seed) for seed in range(3)]
    with pytest.warns(AssumptionWarning, match=r"unexplained of .*x1.* still depends on these causes"):
        learned = EvidenceSearch(sharing, restarts=0, required=[("x2", "x1")]).fit(tables)
    assert "x1" in failed(learned, DEPENDENT)
    required = learned.edge_evidence_.query("cause == 'x2' and effect == 'x1'")
    assert required.present.all()
    assert required.directed.all()  # known is known


def hidden_cause(seed: int) -> pd.DataFrame:
    """Draw two effects of a cause that is not in the table."""
    rng = np.random.default_rng(seed)
    cause = rng.uniform(-3, 3, 800)
    return pd.DataFrame(
        {"one": np.cos(cause) + 0.1 * rng.normal(size=800), "other": np.sin(cause) + 0.1 * rng.normal(size=800)}
    )


def test_a_hidden_common_cause_leaves_the_direction_open():
    with pytest.warns(AssumptionWarning, match="A cause may be missing"):
        learned = EvidenceSearch(restarts=0).fit([hidden_cause(seed) for seed in range(3)])
    (effect,) = failed(learned, DEPENDENT)
    assert learned.edge_evidence_.effect.tolist() == [effect]
    assert learned.edge_evidence_.directed.tolist() == [False]
    assert len(learned.graph_.undirected_edges) == 1


def with_copy(seed: int) -> pd.DataFrame:
    drawn = table(seed=seed)
    return drawn.assign(copy=drawn.x1 + 0.03 * np.random.default_rng(seed + 100).normal(size=len(drawn)))


def test_copies_are_named_and_what_they_leave_open_is_not_sure():
    tables = [with_copy(seed) for seed in range(3)]
    with pytest.warns(AssumptionWarning, match="x1 and copy look like copies of each other.*Leave out one"):
        learned = EvidenceSearch(restarts=0).fit(tables)
    assert failed(learned, COPIES) == ["x1 and copy"]
    evidence = learned.edge_evidence_
    between = evidence[evidence.cause.isin(["x1", "copy"]) & evidence.effect.isin(["x1", "copy"])]
    assert between.present.tolist() == [True]
    assert between.directed.tolist() == [False]
    others = {frozenset(edge) - {"x1", "copy"} for edge in learned.doubtful_edges}
    assert others & {frozenset({"x0"}), frozenset({"x2"})}
    assessment = assess(learned, tables)
    assert assessment.verdict == "Do not trust this graph as it is. x1 and copy look like copies of each other."
    assert any("Leave out one of them" in warning for warning in assessment.warnings)


def test_outliers_are_named():
    tables = [table(seed=seed) for seed in range(3)]
    tables[1].loc[7, "x3"] = 1e4
    with pytest.warns(AssumptionWarning, match="few values make up most of the spread of x3. Mend"):
        learned = EvidenceSearch(restarts=0).fit(tables)
    assert failed(learned, OUTLIERS) == ["x3"]
    assert learned.checks_.figure[learned.checks_.failed].tolist() == pytest.approx([1 / 3])


def imprecise(rows: int, seed: int) -> pd.DataFrame:
    """Draw effects of one cause that are all measured, as the cause is, with errors of 3 % of their variance."""
    rng = np.random.default_rng(seed)
    cause = np.exp(0.5 * rng.normal(size=rows))
    columns = {"cause": cause} | {f"effect{k}": cause ** (1 + 0.3 * k) for k in range(4)}
    columns = {name: column * np.exp(0.05 * rng.normal(size=rows)) for name, column in columns.items()}
    frame = pd.DataFrame(columns)
    return frame + np.sqrt(0.03) * frame.std().to_numpy() * rng.normal(size=frame.shape)


@pytest.mark.parametrize("rows", [300, 3000])
def test_edges_that_errors_of_measurement_explain_are_not_sure(rows):
    with pytest.warns(AssumptionWarning, match="Small errors of measurement would explain most edges of .*effect"):
        learned = EvidenceSearch(restarts=0).fit([imprecise(rows, seed) for seed in range(3)])
    assert len(failed(learned, IMPRECISE)) >= 3
    sure = learned.edge_evidence_[learned.edge_evidence_.present]
    assert not [edge for edge in zip(sure.cause, sure.effect, strict=True) if "cause" not in edge]
    assert learned.dag_.edges


def of_one_hub(rows: int, seed: int, error: float) -> pd.DataFrame:
    """Draw strong straight lines: a hub, which is measured with an error, what acts on it, and what it acts on."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(6, rows))
    cause = noise[0]
    hub = cause + 0.7 * noise[1]
    first, second, third = (hub + 0.4 * noise[k] for k in (2, 3, 4))
    last = first + 0.9 * second + 0.4 * noise[5]
    measured = hub + np.sqrt(error) * hub.std() * rng.normal(size=rows)
    columns = {"cause": cause, "hub": measured, "first": first, "second": second, "third": third, "last": last}
    return pd.DataFrame(columns)


@pytest.mark.parametrize("rows", [300, 3000])
def test_a_column_that_separates_others_vouches_for_itself(rows):
    learned = EvidenceSearch(restarts=0).fit([of_one_hub(rows, seed, error=0) for seed in range(3)])
    assert failed(learned, IMPRECISE) == []
    assert learned.edge_evidence_.present.all()
    assert {frozenset(edge) for edge in learned.dag_.edges} == {
        frozenset(edge.split())
        for edge in ("cause hub", "hub first", "hub second", "hub third", "first last", "second last")
    }


@pytest.mark.parametrize("rows", [300, 3000])
@pytest.mark.parametrize("error", [0.03, 0.1])
def test_an_imprecise_hub_does_not_vouch_for_itself(rows, error):
    learned = EvidenceSearch(restarts=0).fit([of_one_hub(rows, seed, error) for seed in range(3)])
    sure = learned.edge_evidence_[learned.edge_evidence_.present]
    true = {"cause hub", "hub first", "hub second", "hub third", "first last", "second last"}
    assert not [
        edge
        for edge in zip(sure.cause, sure.effect, strict=True)
        if " ".join(edge) not in true and " ".join(edge[::-1]) not in true
    ]
    assert len(learned.dag_.edges) > len(true)


def test_precise_measurements_are_no_matter_of_doubt():
    learned = EvidenceSearch(restarts=0).fit([table(seed=seed) for seed in range(3)])
    assert failed(learned, IMPRECISE) == []
    assert learned.edge_evidence_.present.all()


def with_zeros(seed: int) -> pd.DataFrame:
    """Draw a number that is 0 in most rows, and what depends on it."""
    rng = np.random.default_rng(seed)
    effect = rng.normal(size=500)
    dose = np.maximum(effect + 0.7 * rng.normal(size=500) - 0.3, 0.0)
    return pd.DataFrame({"dose": dose, "effect": effect, "other": np.sin(2 * effect) + 0.3 * rng.normal(size=500)})


def test_a_value_far_commoner_than_others_is_named_and_opens_directions():
    with pytest.warns(AssumptionWarning, match="Few values make up much of dose"):
        learned = EvidenceSearch(restarts=0).fit([with_zeros(seed) for seed in range(3)])
    assert failed(learned, ATOMS) == ["dose"]
    evidence = learned.edge_evidence_
    at_dose = evidence[evidence.cause.eq("dose") | evidence.effect.eq("dose")]
    assert at_dose.present.any()
    assert not at_dose.directed.any()


class PowerFailureError(Exception):
    """The power fails."""


@pytest.mark.parametrize("sharing", ["graph", "all"])
def test_a_resumed_search_checks_no_second_time(sharing, tmp_path):
    tables, learner = [with_copy(seed) for seed in range(3)], EvidenceSearch(sharing, restarts=0)
    with pytest.warns(AssumptionWarning):
        whole = learner.fit(tables)

    def kill(status):
        if status.figures["stage"] == "checks":
            raise PowerFailureError

    with pytest.raises(PowerFailureError):
        learner.fit(tables, progress=kill, checkpoint=tmp_path / "run")
    with pytest.warns(AssumptionWarning):
        again = learner.fit(tables, checkpoint=tmp_path / "run")
    pd.testing.assert_frame_equal(again.checks_, whole.checks_)
    pd.testing.assert_frame_equal(again.edge_evidence_, whole.edge_evidence_)
    assert len(again.history_.rounds) == len(whole.history_.rounds)


def test_a_stored_result_holds_its_checks():
    with pytest.warns(AssumptionWarning):
        learned = EvidenceSearch(restarts=0).fit([with_copy(seed) for seed in range(2)])
    restored = EvidenceSearch(restarts=0).restore(*learned.snapshot())
    pd.testing.assert_frame_equal(restored.checks_, learned.checks_)
    assert restored.failed_checks == learned.failed_checks
    assert "checks" in learned.tables()


def test_discrete_columns_tell_nothing_here():
    drawn = table()
    drawn["group"] = pd.Categorical(np.where(drawn.x0 > 0, "a", "b"))
    drawn["same"] = drawn["group"]
    (silo,) = read_silos([drawn])
    dag = np.zeros((6, 6), dtype=np.uint8)
    dag[0, 4] = dag[4, 1] = 1
    answer = MixedMechanisms(silo)._checks({"dag": dag})
    assert answer["by_chance"][1] > 0
    assert not any(answer[name][4:].any() for name in ("explained", "by_chance", "variance", "outliers"))
    assert not answer["copies"].any()


def test_doubt_opens_all_edges_into_a_variable_and_no_others():
    graph = np.zeros((4, 4), dtype=np.int8)
    for i, j in pairwise(range(4)):
        graph[i, j] = 1
    evidence = [EdgeEvidence(i, i + 1, 9.0, 1.0, 9.0, 1.0, present=True, directed=True) for i in range(3)]
    doubts = Doubts([2], [], [], np.zeros((4, 4), bool))
    doubted = Directions(graph, evidence).doubt(doubts, Knowledge.of(NAMES, (), (), (), ()))
    assert [each.directed for each in doubted.evidence] == [True, False, True]
    np.testing.assert_array_equal(np.argwhere(doubted.graph & doubted.graph.T), [[1, 2], [2, 1]])
    known = Directions(graph, evidence).doubt(doubts, Knowledge.of(NAMES, (("x1", "x2"),), (), (), ()))
    assert all(each.directed for each in known.evidence)


def test_the_warning_is_public():
    assert issubclass(feddag.AssumptionWarning, UserWarning)


def bent_effects(seed: int) -> pd.DataFrame:
    """Draw two curved effects of a cause that is measured with an error: each tells what the error hides."""
    rng = np.random.default_rng(seed)
    cause, first, second, error = rng.normal(size=(4, 1500))
    columns = {
        "measured": cause + 0.22 * error,
        "first": np.sin(1.5 * cause) + 0.3 * first,
        "second": np.cos(1.5 * cause) + 0.3 * second,
    }
    return pd.DataFrame(columns)


def test_an_edge_that_tells_less_than_errors_of_another_cause_would_hide_is_not_sure():
    learned = EvidenceSearch(restarts=0).fit([bent_effects(seed) for seed in range(3)])
    evidence = learned.edge_evidence_
    between = evidence[[{*edge} == {"first", "second"} for edge in zip(evidence.cause, evidence.effect, strict=True)]]
    assert (between.absent > 3 * between.absent_error).all()
    assert len(between) == 1
    assert not between.present.any()
    assert evidence.present.sum() == 2


@pytest.mark.parametrize("seed", [3, 4])
def test_lines_say_nothing_of_the_errors_behind_an_edge_that_they_do_not_show(seed):
    rng, tables = np.random.default_rng(seed), {}
    for site in ("a", "b", "c", "d"):
        cause, other = (rng.normal(size=500) for _ in range(2))
        near = 0.8 * other + 0.6 * rng.normal(size=500)
        effect = cause**2 + other + near + rng.normal(size=500)
        wave = np.cos(1.5 * effect) + 0.5 * other + 0.3 * rng.normal(size=500)
        tables[site] = pd.DataFrame({"cause": cause, "other": other, "near": near, "effect": effect, "wave": wave})
    evidence = EvidenceSearch(restarts=0).fit(tables).edge_evidence_.set_index(["cause", "effect"])
    assert evidence.loc[("effect", "wave"), "present"]
