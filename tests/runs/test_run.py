from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from feddag import FedDAG, FeddagError, load, make_learner, read_graph, simulate
from feddag.federation.checkpoint import load_checkpoint
from feddag.graphs import CausalGraph
from feddag.models.pytrees import flatten
from feddag.runs import Run, check_that_folder_is_free
from feddag.trust import assess, total_effect
from same_graphs import same

QUICK = {"it_inner": 6, "it_fl": 3, "rho_max": 0.1, "hidden_layers": 1, "hidden_units": 2}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "data"
    simulate(3, mechanism="linear", sites=2, rows=20, seed=1).write(folder)
    return sorted(folder.glob("site-*.csv"))


@pytest.fixture(scope="module", params=[("graph", "mlp"), ("all", "linear"), ("none", "linear")], ids=str)
def fitted(request, sources, tmp_path_factory):
    """A run's folder, and the estimator that was fitted in it."""
    sharing, model = request.param
    folder = tmp_path_factory.mktemp(sharing) / "run"
    estimator = FedDAG(sharing, model, seed=3, **QUICK)
    silos = estimator.check(sources)
    return folder, Run.start(folder, estimator, silos, sources).learn()


def test_load_gives_back_the_fitted_estimator(fitted):
    folder, estimator = fitted
    loaded = load(folder)

    assert loaded.get_params() == estimator.get_params()
    assert same(loaded.graph_, estimator.graph_)
    assert loaded.site_graphs_ == estimator.site_graphs_
    assert loaded.communication_ == estimator.communication_
    assert loaded.sites_ == estimator.sites_
    assert loaded.seconds_ == estimator.seconds_
    assert loaded.n_features_in_ == estimator.n_features_in_
    for name in ("adjacency_", "edge_scores_", "U_", "feature_names_in_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(estimator, name), strict=True)
    for ours, theirs in zip(histories(loaded), histories(estimator), strict=True):
        assert ours.rounds == theirs.rounds
        np.testing.assert_array_equal(ours.graphs, theirs.graphs, strict=True)


def histories(estimator):
    held = estimator.history_
    return [held[site] for site in estimator.sites_] if isinstance(held, dict) else [held]


def test_a_loaded_estimator_predicts_the_same(fitted):
    folder, estimator = fitted
    loaded, values = load(folder), np.random.default_rng(0).normal(size=(5, 3))

    for site in estimator.sites_:
        ours, theirs = flatten(loaded.mechanisms_[site]), flatten(estimator.mechanisms_[site])
        assert ours.keys() == theirs.keys()
        assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
        np.testing.assert_array_equal(loaded.predict(values, site), estimator.predict(values, site))


def test_the_files_tell_what_was_learned(fitted):
    folder, estimator = fitted
    for name in ("graph.csv", "graph.edges.csv", "graph.graphml", "graph.json"):
        read = read_graph(folder / name, names=estimator.graph_.names)
        np.testing.assert_array_equal(read.adjacency, estimator.adjacency_)
    assert (folder / "graph.dot").read_text().startswith("digraph")
    scores = pd.read_csv(folder / "edge_scores.csv", index_col=0)
    assert list(scores.index) == list(scores.columns) == list(estimator.feature_names_in_)
    assert scores.index.name == "cause"
    np.testing.assert_allclose(scores.to_numpy(), estimator.edge_scores_, rtol=1e-14)


def test_the_history_file_has_a_row_for_every_round(fitted):
    folder, estimator = fitted
    table = pd.read_csv(folder / "history.csv")
    assert len(table) == sum(len(history.rounds) for history in histories(estimator))
    if estimator.sharing == "none":
        assert list(table["site"].unique()) == list(estimator.sites_)


def test_only_results_are_left_in_the_folder_of_a_finished_run(fitted):
    folder, _ = fitted
    assert {path.name for path in folder.iterdir()} == {
        "run.json",
        "graph.csv",
        "graph.edges.csv",
        "graph.dot",
        "graph.graphml",
        "graph.json",
        "edge_scores.csv",
        "history.csv",
        "result.npz",
    }


def test_the_record_says_what_was_asked_of_which_tables(fitted, sources):
    folder, estimator = fitted
    record = json.loads((folder / "run.json").read_text())

    assert record["status"] == "finished"
    assert record["started"] <= record["finished"]
    assert record["method"] == "feddag"
    assert record["parameters"] == json.loads(json.dumps(estimator.get_params()))
    assert record["columns"] == ["x0", "x1", "x2"]
    assert [(site["name"], site["source"], site["rows"]) for site in record["sites"]] == [
        (source.stem, str(source), 20) for source in sources
    ]


def test_results_hold_no_pickles(fitted):
    _, arrays = load_checkpoint(fitted[0] / "result.npz")  # which refuses them
    assert {"U", "edge_scores", "adjacency"} < arrays.keys()
    assert not any(array.dtype.hasobject for array in arrays.values())


@pytest.fixture
def started(sources, tmp_path):
    estimator = FedDAG("graph", "linear", **QUICK)
    return Run.start(tmp_path / "run", estimator, estimator.check(sources), sources)


def test_an_unfinished_run_says_how_to_resume_it(started):
    with pytest.raises(FeddagError, match=f"Resume it with: feddag learn --resume {started.folder}"):
        load(started.folder)


def test_a_run_can_be_taken_up_by_its_folder(started):
    run = Run.open(started.folder)
    learned = run.learn()
    np.testing.assert_array_equal(load(started.folder).U_, learned.U_)


def test_a_failing_write_leaves_the_run_unfinished_and_resumable(started, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("feddag.runs.run.save_checkpoint", full)
        with pytest.raises(OSError, match="No space left"):
            started.learn()
    assert not Run.open(started.folder).finished

    started.learn()
    assert Run.open(started.folder).finished


class StopError(Exception):
    pass


def test_two_cannot_work_on_a_run_at_once(started):
    def meanwhile(status):
        with pytest.raises(FeddagError, match="another process is at work on this run"):
            Run.open(started.folder).learn()
        raise StopError

    with pytest.raises(StopError):
        started.learn(meanwhile)
    Run.open(started.folder).learn()  # the lock has ended with its owner
    assert not (started.folder / ".lock").exists()


def test_the_lock_of_a_killed_process_neither_blocks_a_run_nor_a_folder(started):
    code = (
        "import os, pathlib, sys; from feddag.runs.folder import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, started.folder], check=False).returncode == -signal.SIGKILL
    assert (started.folder / ".lock").exists()
    started.learn()

    free = started.folder.parent / "free"
    free.mkdir()
    (free / ".lock").touch()
    check_that_folder_is_free(free)


def test_a_run_that_another_has_finished_meanwhile_is_not_done_again(started):
    late = Run.open(started.folder)
    learned = started.learn()
    assert late.learn().seconds_ == learned.seconds_


def test_a_run_works_for_every_method(toy, sources, tmp_path):
    estimator = make_learner(toy, it_max=2)
    silos = estimator.check(sources)
    learned = Run.start(tmp_path / "run", estimator, silos, sources).learn()
    loaded = load(tmp_path / "run")
    assert type(loaded) is type(learned)
    assert loaded.get_params() == learned.get_params()
    assert same(loaded.graph_, learned.graph_)
    assert len(pd.read_csv(tmp_path / "run" / "history.csv")) == 2


def test_a_learner_without_a_name_has_no_runs(toy, sources, tmp_path):
    unknown = type("Unknown", (type(make_learner(toy)),), {})()
    with pytest.raises(FeddagError, match="Unknown is no registered method"):
        Run.start(tmp_path / "run", unknown, unknown.check(sources), sources)
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_kept_as_they_are(sources, tmp_path):
    estimator = FedDAG("graph", "linear", seed=np.int64(4), l1=np.float64(0.02), **QUICK)
    Run.start(tmp_path / "run", estimator, estimator.check(sources), sources)
    kept = Run.open(tmp_path / "run").estimator()
    assert (kept.seed, kept.l1) == (4, 0.02)
    assert isinstance(kept.seed, int)


def test_a_folder_without_a_record_is_no_run(tmp_path):
    with pytest.raises(FeddagError, match=r"is not a run: it has no run\.json"):
        load(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(FeddagError, match="is not the record of a run"):
        load(tmp_path)


@pytest.fixture(scope="module")
def finished(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    learner = make_learner("notears")
    Run.start(folder, learner, learner.check(sources), sources).learn()
    return folder


@pytest.fixture
def reopened(finished, tmp_path):
    """A finished run in a folder of its own, opened as another process would."""
    return Run.open(shutil.copytree(finished, tmp_path / "run"))


def tables_gone(run):
    """The run as it is when its tables cannot be read any more: all must come from the folder."""
    for site in run.record["sites"]:
        site["source"] = "gone.csv"
    return Run(run.folder, run.record)


def test_the_verdict_is_found_once_and_kept(reopened):
    assert reopened.assessment() is None
    found = reopened.assess()
    assert found == assess(reopened.result(), reopened.silos())
    assert Run.open(reopened.folder).assessment() == found
    assert tables_gone(reopened).assess() == found


def test_replicates_are_kept_and_the_table_is_that_of_the_last_call(reopened):
    assert reopened.stability_table() is None
    seen = []
    found = reopened.stability(bootstraps=2, progress=seen.append)
    pd.testing.assert_frame_equal(reopened.stability_table(), found.table())
    assert len(seen) == 4
    reopened.stability(bootstraps=3, progress=seen.append)
    assert len(seen) == 5


def test_mechanisms_are_compared_once_and_read_back_as_they_were(reopened):
    assert reopened.mechanisms_table() is None
    found = reopened.mechanisms()
    assert (found["causes"] == "").any()
    pd.testing.assert_frame_equal(tables_gone(reopened).mechanisms(), found)


def test_effects_are_kept_by_cause_and_effect(reopened):
    forth, back = reopened.effects("x0", "x1"), reopened.effects("x1", "x0")
    assert forth == total_effect(reopened.result(), reopened.silos(), "x0", "x1")
    gone = tables_gone(reopened)
    assert (gone.effects("x0", "x1"), gone.effects("x1", "x0")) == (forth, back)
    with pytest.raises(FeddagError, match="no variable 'z'"):
        reopened.effects("x0", "z")


@pytest.mark.parametrize(("name", "read"), [("trust.json", Run.assessment), ("effects.json", Run.effects_kept)])
@pytest.mark.parametrize("content", ["{", '[{"verdict": 1}]'])
def test_a_file_that_was_tampered_with_is_refused_by_name(reopened, name, read, content):
    (reopened.folder / name).write_text(content)
    with pytest.raises(FeddagError, match=f"{name} .*Remove it"):
        read(reopened)


def test_an_unfinished_run_has_no_verdict(started):
    with pytest.raises(FeddagError, match="has not finished"):
        started.assess()


def test_no_table_of_a_run_holds_a_formula_and_names_are_read_as_they_were(tmp_path):
    names = ["=1+2", "-x", "'@y"]
    graph = CausalGraph([[0, 1, 1], [0, 0, 1], [0, 0, 0]], names)
    simulate(graph=graph, mechanism="linear", sites=2, rows=40, seed=1).write(tmp_path / "data")
    sources = sorted((tmp_path / "data").glob("site-*.csv"))
    estimator = make_learner("search", restarts=0)
    run = Run.start(tmp_path / "run", estimator, estimator.check(sources), sources)
    run.learn()
    run.mechanisms()
    assert run.result().graph_.names == tuple(names)
    assert set(run.mechanisms_table()["effect"]) == set(names)
    assert set(run.table("edge_evidence")[["cause", "effect"]].stack()) <= set(names)
    tables = [*(tmp_path / "data").glob("*.csv"), *(tmp_path / "run").glob("*.csv")]
    assert len(tables) > 6
    for path in tables:
        with path.open(encoding="utf-8", newline="") as lines:
            cells = [cell for row in csv.reader(lines) for cell in row]
        assert not [cell for cell in cells if re.match(r"[=+@\t\r]|-[^0-9]", cell)], path


def test_a_run_is_shown_in_one_short_line(started):
    assert repr(started) == f"Run(folder={started.folder!r})"
