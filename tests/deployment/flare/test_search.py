"""The search over real processes, one site without JAX: sums over a network lead to the graph of one process."""

from __future__ import annotations

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import PATIENCE, Federation

import feddag
from feddag.federation.audit import verify
from missing_packages import paths_without

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "parameters", ['{ sharing = "all" }', '{ noise = "equal", restarts = 1 }', '{ latent = "allow", restarts = 1 }']
)
def test_sites_find_what_one_process_finds(tmp_path, parameters):
    federation = Federation(tmp_path, f'name = "search"\nparameters = {parameters}')
    light, *others = federation.names
    federation.start("server", *others)
    federation.start(light, environment={"PYTHONPATH": paths_without(tmp_path, ("jax", "jaxlib", "optax"))})
    try:
        assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
    finally:
        federation.close()
    there = feddag.load(federation.folder / "run")
    here = federation.study.learner().fit(federation.simulation)
    assert there.graph_.marked_edges == here.graph_.marked_edges
    columns = ["cause", "effect", "present", "directed", "confounding"]
    assert there.edge_evidence_[columns].equals(here.edge_evidence_[columns])
    assert there.score_ == pytest.approx(here.score_, abs=1e-9)
    for name in federation.names:
        flows = [flow for flow in verify(federation.memory(name) / "audit.jsonl").flows if flow.direction == "out"]
        assert {flow.protection for flow in flows if flow.task.startswith("search.")} == {"secure sum"}
