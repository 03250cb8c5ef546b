"""Whatever a learner asks of the sites, there are words for what that discloses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import feddag
from feddag.federation import InProcess
from feddag.federation.disclosures import DISCLOSURES, PLAIN, SECURE_SUM, protection_words
from feddag.learners.feddag.local_solver import SOLVE, shared_part
from feddag.learners.registry import make_learner
from feddag.models import DAGGNN, NOTEARSMLP, Linear, MaskedMLP
from feddag.silos import simulate

TASK_NAME = re.compile(r"[a-z]+\.[a-z-]+")
PACKAGE = Path(feddag.__file__).parent


def task_names() -> set[str]:
    """What tasks are made with anywhere, and those constants of learners and checks that look like a task's name."""
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    constants = {
        (path, target.id): node.value.value
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    asking = (PACKAGE / "learners", PACKAGE / "trust")
    found = [value for (path, _), value in constants.items() if any(map(path.is_relative_to, asking))]
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Task" and node.args:
                name = node.args[0]
                found.append(getattr(name, "value", None) or constants.get((path, getattr(name, "id", None))))
    return {name for name in found if isinstance(name, str) and TASK_NAME.fullmatch(name)}


def test_every_task_has_words():
    names = task_names()
    assert {"feddag.solve", "moments.sums", "admm.fit", "regimes.vote", "search.gram", "trust.rows"} <= names
    assert names <= DISCLOSURES.keys()


@pytest.mark.parametrize(
    ("method", "regime", "parameters"),
    [
        ("notears", None, {}),
        ("notears-admm", None, {"it_max": 2}),
        ("notears-mlp-admm", None, {"it_max": 1, "hidden_units": 2}),
        ("search", None, {"restarts": 0}),
        ("search", None, {"restarts": 0, "sharing": "all"}),
        ("var-sortnregress", "voting", {}),
    ],
)
def test_every_array_that_leaves_a_site_has_words(monkeypatch, method, regime, parameters):
    asked = {}
    aggregate = InProcess.aggregate

    def watched(self, task):
        mean = aggregate(self, task)
        asked.setdefault(task.name, set()).update(mean)
        return mean

    monkeypatch.setattr(InProcess, "aggregate", watched)
    make_learner(method, regime, **parameters).fit(simulate(3, mechanism="linear", sites=3, rows=48, seed=3))
    assert asked
    for task, arrays in asked.items():
        assert all(DISCLOSURES[task].words(array) for array in arrays), (task, arrays)


@pytest.mark.parametrize("model", [Linear(), MaskedMLP(), NOTEARSMLP(), DAGGNN()])
def test_every_parameter_that_leaves_a_site_has_words(model):
    arrays = shared_part(model.init(np.random.default_rng(0), 3), "all")
    assert all(DISCLOSURES[SOLVE].words(array) for array in arrays), list(arrays)


def test_protections_have_words():
    assert protection_words(SECURE_SUM, 4) == "inside a secure sum of 4 sites"
    assert "the server sees this site's own numbers" in protection_words(PLAIN, 4)
    assert protection_words(f"{SECURE_SUM} + dp(ε=3, δ=1e-05)", 4) == (
        "inside a secure sum of 4 sites, with noise, for differential privacy of ε=3, δ=1e-05"
    )
