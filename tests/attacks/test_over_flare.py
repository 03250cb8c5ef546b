"""The two worst attacks by a server of real processes: what sites refuse in a test, they refuse over a network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

sys.path.append(str(Path(__file__).parents[1] / "deployment" / "flare"))  # where flare_processes is

from flare_processes import PATIENCE, Federation

from feddag.federation.audit import verify

pytestmark = pytest.mark.slow

SEARCH = 'name = "search"\nparameters = { sharing = "auto", restarts = 0, seed = 1 }'
FEDDAG = 'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 3, it_fl = 50, seed = 1 }'


def attacked(folder: Path, method: str, hostile: str) -> tuple[Federation, Path]:
    """Run a study with a hostile server until it ends, and return where that has put what it got."""
    federation, loot = Federation(folder, method), folder / "loot"
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parent / "hostile"), os.environ.get("PYTHONPATH")]))
    environment = {"PYTHONPATH": paths, "FEDDAG_HOSTILE": hostile, "FEDDAG_LOOT": str(loot)}
    federation.start("server", environment=environment)
    federation.start(*federation.names)
    try:
        assert federation.run().wait(PATIENCE) != 0, federation.log("analyst")
    finally:
        federation.close()
    return federation, loot


def test_no_process_of_a_site_opens_a_window_on_its_rows(tmp_path):
    federation, loot = attacked(tmp_path, SEARCH, "window")
    assert not loot.exists()
    assert federation.rounds == 3  # the number of rows, means and variances: what came before the lie
    for site in federation.names:
        assert "refused (question): " in federation.log(site)
        sent = {flow.task for flow in verify(federation.memory(site) / "audit.jsonl").flows if flow.direction == "out"}
        assert {task for task in sent if task.startswith("search.")} == {
            "search.rows",
            "search.means",
            "search.variances",
        }
    assert "the study's method would not ask this now" in federation.log("analyst")


def test_no_process_of_a_site_enters_a_second_sum_of_other_members(tmp_path):
    federation, loot = attacked(tmp_path, FEDDAG, "difference")
    assert not loot.exists()
    assert federation.rounds == 1
    for site in federation.names[:-1]:
        assert "refused (roster): " in federation.log(site)
