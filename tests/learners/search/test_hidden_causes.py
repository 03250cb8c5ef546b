"""What the search says about common causes that no table has."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import feddag
from feddag import CausalGraph, EvidenceSearch, simulate
from feddag.cli.tables import show_edges
from feddag.regression.residual_pairs import DEGREES, deviations, misfit, products

SITES, ROWS = 4, 500


def tables(draw, seed: int = 5) -> list[pd.DataFrame]:
    rng = np.random.default_rng(seed)
    return [pd.DataFrame(draw(rng)) for _ in range(SITES)]


def confounding(learned: EvidenceSearch, one: str, other: str) -> str:
    table = learned.edge_evidence_
    found = table[table.cause.isin((one, other)) & table.effect.isin((one, other))]
    assert len(found) == 1, learned.dag_
    return found.confounding.item()


def skewed(rng) -> np.ndarray:
    return rng.exponential(size=ROWS) - 1


def instrument(rng) -> dict[str, np.ndarray]:
    """Straight lines with normal noise: a -> b and d -> c, and a hidden common cause of b and c."""
    hidden, a, d = rng.normal(size=(3, ROWS))
    b = a + hidden + 0.6 * rng.normal(size=ROWS)
    return {"a": a, "b": b, "c": d + hidden + 0.6 * rng.normal(size=ROWS), "d": d}


def chain(rng) -> dict[str, np.ndarray]:
    """Straight lines with normal noise: a -> b <- d, b -> c."""
    a, d = rng.normal(size=(2, ROWS))
    b = a + d + 0.6 * rng.normal(size=ROWS)
    return {"a": a, "b": b, "c": b + 0.6 * rng.normal(size=ROWS), "d": d}


def test_independent_residuals_go_together_by_chance_alone():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(300, 400)), rng.exponential(size=(300, 400))
    found = deviations(misfit(products(first, second), np.full(400, 300.0)))
    assert abs(found.mean()) < 0.15
    assert 0.9 < found.std() < 1.1


def test_products_are_correlations_of_bounded_functions():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(5000, 1))
    found = products(values, values).reshape(DEGREES, DEGREES)
    np.testing.assert_allclose(found, np.eye(DEGREES), atol=0.01)


def test_a_hidden_cause_of_two_variables_is_likely_and_no_sure_direction():
    def confounded(rng):
        hidden = skewed(rng)
        return {"b": hidden + 0.7 * skewed(rng), "c": hidden + 0.7 * skewed(rng)}

    learned = EvidenceSearch(restarts=0, workers=1).fit(tables(confounded))
    assert confounding(learned, "b", "c") == "likely"
    assert learned.graph_.undirected_edges == [("b", "c")]
    assert learned.confounded_edges["likely"] in ((("b", "c"),), (("c", "b"),))


def test_noise_that_is_not_normal_rules_a_hidden_cause_out():
    def direct(rng):
        cause = skewed(rng)
        return {"b": cause, "c": cause + 0.7 * skewed(rng)}

    learned = EvidenceSearch(restarts=0, workers=1).fit(tables(direct))
    assert learned.graph_.edges == [("b", "c")]
    assert confounding(learned, "b", "c") == "ruled out"


@pytest.mark.parametrize(("bend", "unknown"), [(1.0, 0.1), (0.6, 0.04)])
def test_a_direction_holds_if_nothing_is_hidden_where_noise_does_not_rule_that_out(bend, unknown):
    """The first noise is one that no model has: residuals go together a little. The second tells little."""

    def direct(rng):
        cause, noise = rng.normal(size=(2, ROWS))
        return {"b": cause, "c": cause + bend * np.maximum(cause, 0) + noise + unknown * cause * (noise**2 - 1)}

    learned = EvidenceSearch(restarts=0, workers=1).fit(tables(direct))
    assert learned.graph_.edges == [("b", "c")]
    assert confounding(learned, "b", "c") == "possible"
    assert learned.drawn_graph.edges == []


def test_straight_lines_with_normal_noise_leave_it_possible_but_for_another_cause():
    learned = EvidenceSearch(restarts=0, workers=1).fit(tables(chain))
    assert learned.graph_.edges == [("a", "b"), ("b", "c"), ("d", "b")]
    assert confounding(learned, "b", "c") == "ruled out"
    assert confounding(learned, "a", "b") == confounding(learned, "d", "b") == "possible"


def test_normal_noise_shows_a_hidden_cause_where_both_have_another_cause():
    learned = EvidenceSearch(restarts=1, workers=1).fit(tables(instrument))
    assert confounding(learned, "b", "c") == "likely"


def test_noise_of_equal_variance_tells_nothing_of_hidden_causes():
    def confounded(rng):
        hidden, one, other = rng.normal(size=(3, ROWS))
        return {"b": hidden + one, "c": 0.6 * hidden + 0.3 * other}

    learned = EvidenceSearch(noise="equal", restarts=0, workers=1).fit(tables(confounded))
    assert confounding(learned, "b", "c") == "possible"
    assert learned.drawn_graph.edges == []


@pytest.mark.filterwarnings("ignore::feddag.errors.AssumptionWarning")
def test_of_twelve_pairs_that_are_only_confounded_none_is_drawn_as_a_cause():

    def is_drawn(law, bend):
        def confounded(rng):
            hidden, one, other = (each - each.mean() for each in getattr(rng, law)(size=(3, ROWS)))
            return {"b": hidden + 0.7 * one, "c": bend(hidden) + 0.7 * other}

        return bool(EvidenceSearch(restarts=0, workers=1).fit(tables(confounded)).drawn_graph.edges)

    laws, bends = ("uniform", "laplace", "exponential", "standard_normal"), (np.asarray, np.tanh, np.square)
    assert [(law, bend) for law in laws for bend in bends if is_drawn(law, bend)] == []


def ring(rng, *, hidden: bool) -> dict[str, np.ndarray]:
    """Straight lines with normal noise: a -> b -> e -> c <- a; or hidden causes in place of b -> e and a -> c."""
    a, b, e, c, one, other = rng.normal(size=(6, ROWS))
    a = a + one * hidden
    b = b + 1.5 * a + other * hidden
    e = e + 1.5 * (other if hidden else b)
    return {"a": a, "b": b, "e": e, "c": c + 1.5 * e + 1.5 * (one if hidden else a)}


@pytest.mark.parametrize("hidden", [False, True])
def test_independences_alone_tell_a_cause_that_has_no_cause_unless_the_path_along_it_is_hidden(hidden):
    learned = EvidenceSearch(restarts=0, workers=1).fit(tables(lambda rng: ring(rng, hidden=hidden), seed=6))
    table = learned.edge_evidence_
    sure = set(zip(table.cause[table.sure_cause], table.effect[table.sure_cause], strict=True))
    assert len(table) == 4
    assert sure == (set() if hidden else {("a", "c"), ("e", "c")})
    assert set(learned.drawn_graph.edges) == sure


def test_the_drawn_graph_has_an_arrow_alone_where_a_hidden_cause_is_ruled_out():
    learned = EvidenceSearch(restarts=0, workers=1).fit(tables(chain))
    assert [str(edge) for edge in learned.drawn_graph.marked_edges] == ["b -> c", "a o-> b", "d o-> b"]
    console = Console(record=True)
    show_edges(console, learned)
    drawn = [line.split("  ")[0] for line in console.export_text().splitlines()]
    assert drawn[1:4] == ["b → c", "a o→ b", "d o→ b"]
    known = EvidenceSearch(restarts=0, workers=1, required=[("a", "b")]).fit(tables(chain))
    assert ("a", "b") in known.drawn_graph.edges
    again = EvidenceSearch(restarts=0, workers=1).restore(*learned.snapshot())
    assert again.drawn_graph == learned.drawn_graph


@pytest.mark.parametrize("sharing", ["auto", "graph"])
def test_a_pag_joins_what_has_a_hidden_cause_by_two_heads(sharing):
    learned = EvidenceSearch(sharing, restarts=1, workers=1, latent="allow").fit(tables(instrument))
    truth = CausalGraph.admg(
        [[0, 1, 0, 0], [0] * 4, [0] * 4, [0, 0, 1, 0]], [[0] * 4, [0, 0, 1, 0], [0, 1, 0, 0], [0] * 4], list("abcd")
    )
    assert learned.graph_ == truth.to_pag()
    assert learned.graph_.bidirected_edges == [("b", "c")]


@pytest.mark.parametrize(("slope", "edges"), [(0.09, []), (0.1, ["a o-o b"])])
def test_a_pag_joins_a_pair_that_is_not_surely_joined_if_the_odds_speak_for_it(slope, edges):
    def weak(rng):
        cause, noise = rng.normal(size=(2, ROWS))
        return {"a": cause, "b": slope * cause + noise}

    learned = EvidenceSearch(restarts=0, workers=1, latent="allow").fit(tables(weak))
    assert learned.edge_evidence_.present.tolist() == [False]
    assert [str(edge) for edge in learned.graph_.marked_edges] == edges


def test_knowledge_enters_the_pag():
    learned = EvidenceSearch(restarts=0, workers=1, latent="allow", required=[("a", "b")]).fit(tables(chain))
    assert ("a", "b") in learned.graph_.edges


def test_an_edge_that_a_hidden_cause_may_explain_is_directed_only_where_none_is_allowed():
    def directed(**parameters) -> list[str]:
        table = EvidenceSearch(restarts=0, workers=1, **parameters).fit(tables(chain)).edge_evidence_
        return (table.cause + table.effect)[table.directed].tolist()

    assert directed() == ["ab", "bc", "db"]
    assert directed(latent="allow") == ["bc"]
    assert directed(latent="allow", required=[("a", "b")]) == ["ab", "bc"]


def test_noise_tells_of_an_edge_beside_another_path():
    """What acts along the other path is noise to c if m is left out, and hides that c's own noise is skewed."""

    def beside(rng):
        a = 0.5 * skewed(rng) + rng.normal(size=ROWS)
        m = a + 2 * rng.normal(size=ROWS)
        return {"a": a, "m": m, "c": a + 2 * m + skewed(rng)}

    learned = EvidenceSearch(restarts=0, workers=1).fit(tables(beside))
    assert learned.dag_.edges == [("a", "m"), ("a", "c"), ("m", "c")]
    assert ("a", "c") in learned.graph_.edges


def test_a_pag_survives_a_snapshot():
    simulation = simulate(5, mechanism="mim", edges_per_node=1, sites=2, rows=200, seed=2, hidden=1)
    learner = EvidenceSearch(restarts=0, workers=1, latent="allow").fit(simulation)
    again = EvidenceSearch(restarts=0, workers=1, latent="allow").restore(*learner.snapshot())
    assert again.graph_ == learner.graph_
    assert again.confounded_edges == learner.confounded_edges


def test_discrete_variables_and_experiments_are_marked_too():
    rng = np.random.default_rng(3)
    level = rng.integers(0, 2, 600)
    table = pd.DataFrame({"group": pd.Categorical(level), "dose": level + 0.5 * rng.normal(size=600)})
    learned = EvidenceSearch(restarts=0, workers=1).fit([table[:300], table[300:]])
    assert confounding(learned, "group", "dose") == "possible"
    drawn = simulate(4, mechanism="mim", sites=4, rows=300, seed=2, interventions=1)
    learned = EvidenceSearch(restarts=0, workers=1, latent="allow").fit(drawn)
    assert set(learned.edge_evidence_.confounding) <= {"ruled out", "possible", "likely"}


@pytest.mark.parametrize("sharing", ["auto", "graph", "all"])
def test_what_only_stands_for_the_site_is_no_edge(sharing):
    """Each site has devices of its own, which shift and stretch what they measure."""
    rng = np.random.default_rng(4)
    measured = []
    for site in range(5):
        values = rng.normal(size=(300, 3)) * (1 + site / 2) + 4 * site
        measured.append(pd.DataFrame(values, columns=["pressure", "flow", "volume"]))
    assert abs(pd.concat(measured).corr().loc["pressure", "flow"]) > 0.7
    learned = EvidenceSearch(sharing, restarts=0, workers=1).fit(measured)
    assert learned.dag_.edge_count == 0


def test_a_parameter_that_is_not_known_is_refused():
    with pytest.raises(feddag.FeddagError, match="latent must be"):
        EvidenceSearch(latent="maybe").fit(simulate(3, sites=2, rows=100))
