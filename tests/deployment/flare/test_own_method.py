"""A method of another package over real processes, each of which finds it as an installer lays it down."""

from __future__ import annotations

import importlib
import os
import shutil
import tomllib

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import PATIENCE, Federation

import feddag
from feddag.learners.registry import METHODS
from snippets import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "own_method"
TASK = "partial-correlations.correlations"


def install(folder):
    about = folder / "own_method-0.1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(EXAMPLE / "own_method.py", folder)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own_method\nVersion: 0.1.0\n")
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]["feddag.methods"]
    (about / "entry_points.txt").write_text(
        "\n".join(["[feddag.methods]", *(f"{name} = {where}" for name, where in points.items()), ""])
    )


@pytest.fixture
def federation(tmp_path, monkeypatch):
    packages = tmp_path / "packages"
    install(packages)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH")))))
    monkeypatch.syspath_prepend(packages)
    method = importlib.import_module("own_method").METHOD
    monkeypatch.setitem(METHODS, method.name, method)
    found = Federation(tmp_path, 'name = "partial-correlations"')
    yield found
    found.close()


def test_it_learns_under_policies_that_name_its_task_and_audits_explain_it(federation, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text(f'tasks = ["{TASK.replace("correlations", "corelations")}"]\n')
    policy.chmod(0o600)
    site = federation.names[0]
    refused = federation.command(
        *("site", "--kit", federation.kits[site], "--data", federation.table(site), "--policy", policy)
    )
    assert refused.returncode != 0
    assert f"Did you mean '{TASK}'?" in " ".join(refused.stderr.split())

    policy.write_text(f'tasks = ["{TASK}"]\n')
    federation.options = ("--policy", policy)
    federation.start()
    assert federation.run().wait(PATIENCE) == 0, federation.log("analyst")
    there = feddag.load(federation.folder / "run")
    assert there.graph_.edges == federation.study.learner().fit(federation.simulation).graph_.edges
    for name in federation.names:
        audit = federation.command("audit", federation.memory(name) / "audit.jsonl").stdout
        assert "How the variables of a site correlate, and how widely each is spread: once," in " ".join(audit.split())
