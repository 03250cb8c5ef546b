"""DoWhy itself reads what is written for it, and estimates the effects that feddag does."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import feddag
from feddag.graphs import CausalGraph
from feddag.silos import Silo
from feddag.trust import total_effect, write_dowhy

dowhy = pytest.importorskip("dowhy", reason="DoWhy is no dependency of feddag; to run this: pip install dowhy")

NAMES = ("blood pressure", "größe", "1", 'a"b & c')
WEIGHTS = np.array([[0, 1.0, -0.5, 0.7], [0, 0, 2.0, 1.0], [0, 0, 0, -1.5], [0, 0, 0, 0]])
"""All pairs are joined, so that there is one set to adjust for and estimates must be equal."""


@pytest.fixture(scope="module")
def silo():
    values = np.random.default_rng(1).normal(size=(500, 4))
    for node in range(4):
        values[:, node] += values @ WEIGHTS[:, node]
    return Silo("here", NAMES, values)


@pytest.fixture(scope="module")
def learner(silo):
    learner = feddag.make_learner("empty").fit([silo])
    learner.graph_ = CausalGraph(WEIGHTS != 0, NAMES)
    return learner


@pytest.fixture
def file(learner, tmp_path) -> Path:
    write_dowhy(learner.graph_, tmp_path / "graph.gml")
    return tmp_path / "graph.gml"


@pytest.mark.parametrize("given", [str, Path.read_text, nx.read_gml], ids=["file", "text", "networkx"])
def test_effects_are_the_same_whichever_way_the_graph_is_given(silo, learner, file, given):
    for cause, effect in learner.graph_.edges:
        model = dowhy.CausalModel(silo.to_frame(), treatment=cause, outcome=effect, graph=given(file))
        found = model.estimate_effect(model.identify_effect(), method_name="backdoor.linear_regression").value
        assert found == pytest.approx(total_effect(learner, [silo], cause, effect).estimates[-1].slope, rel=1e-6)


def test_its_models_of_mechanisms_take_the_graph(silo, learner, file):
    model = dowhy.gcm.InvertibleStructuralCausalModel(nx.read_gml(file))
    dowhy.gcm.util.general.set_random_seed(1)
    dowhy.gcm.auto.assign_causal_mechanisms(model, silo.to_frame())
    dowhy.gcm.fit(model, silo.to_frame())
    cause, effect = NAMES[0], NAMES[2]
    found = dowhy.gcm.average_causal_effect(
        model,
        effect,
        interventions_alternative={cause: lambda value: 1.0},
        interventions_reference={cause: lambda value: 0.0},
        num_samples_to_draw=10_000,
    )
    ours = total_effect(learner, [silo], cause, effect).estimates[-1]
    assert found == pytest.approx(ours.slope, abs=4 * ours.error)


def test_open_edges_get_a_direction(silo, tmp_path):
    write_dowhy(CausalGraph(np.ones((4, 4)) - np.eye(4), NAMES), tmp_path / "graph.gml")
    graph = str(tmp_path / "graph.gml")
    assert dowhy.CausalModel(silo.to_frame(), treatment=NAMES[0], outcome=NAMES[1], graph=graph)._graph.get_all_nodes()
    assert nx.is_directed_acyclic_graph(nx.read_gml(graph))
