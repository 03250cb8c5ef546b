"""A run that was stopped and taken up again ends as one that was not."""

from __future__ import annotations

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint
from feddag.learners import FedDAG, checkpointing
from feddag.models.pytrees import flatten
from feddag.silos import simulate

TINY = {"it_inner": 10, "it_fl": 5, "it_max": 4, "rho_max": 1e3, "hidden_layers": 1, "hidden_units": 4}
SIMULATION = simulate(3, edges_per_node=1, sites=3, rows=[20, 22, 24], seed=2)


class CrashError(Exception):
    pass


@pytest.fixture(autouse=True)
def _after_every_round(monkeypatch):
    monkeypatch.setattr(checkpointing, "CHECKPOINT_INTERVAL", 0)


@pytest.fixture(scope="module", params=["graph", "all", "linear"])
def setting(request):
    choice = {"model": "linear"} if request.param == "linear" else {"sharing": request.param}
    parameters = {**TINY, **choice, "participation": 2}
    return parameters, FedDAG(**parameters).fit(SIMULATION)


def crash_after(rounds: int):
    def progress(status):
        if round_of(status) == rounds:
            raise CrashError

    return progress


def round_of(status) -> int:
    return status.figures["step"] // TINY["it_fl"]


def crashed(path, parameters, rounds: int, silos=SIMULATION) -> None:
    with pytest.raises(CrashError):
        FedDAG(**parameters).fit(silos, checkpoint=path, progress=crash_after(rounds))


def timeless(history):
    return [(r.round, r.sub_problem, r.step, r.rho, r.alpha, r.h, r.edges, r.sites) for r in history.rounds]


def assert_equal(one: FedDAG, other: FedDAG) -> None:
    np.testing.assert_array_equal(one.U_, other.U_)
    np.testing.assert_array_equal(one.edge_scores_, other.edge_scores_)
    assert one.graph_ == other.graph_
    assert list(one.mechanisms_) == list(other.mechanisms_)
    for ours, theirs in zip(one.mechanisms_.values(), other.mechanisms_.values(), strict=True):
        for name, array in flatten(ours).items():
            np.testing.assert_array_equal(array, flatten(theirs)[name], err_msg=name)
    assert one.communication_ == other.communication_


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_it_ends_as_if_it_had_never_been_stopped(tmp_path, setting, rounds):
    """After a first round, at the end of a sub-problem, and within a later one; and stopped twice."""
    parameters, whole = setting
    path = tmp_path / "run.npz"
    crashed(path, parameters, rounds)
    crashed(path, parameters, rounds + 1)
    told = []
    resumed = FedDAG(**parameters).fit(
        SIMULATION, checkpoint=path, progress=lambda status: told.append(round_of(status))
    )
    assert told[0] == rounds + 2  # nothing was done again
    assert_equal(resumed, whole)
    assert timeless(resumed.history_) == timeless(whole.history_)
    np.testing.assert_array_equal(resumed.history_.graphs, whole.history_.graphs)


def test_a_finished_run_is_not_done_again(tmp_path, setting):
    parameters, whole = setting
    path = tmp_path / "run.npz"
    FedDAG(**parameters).fit(SIMULATION, checkpoint=path)
    again = FedDAG(**parameters).fit(SIMULATION, checkpoint=path, progress=crash_after(1))
    assert_equal(again, whole)


def test_sites_that_learn_alone_are_taken_up_each_where_it_was(tmp_path):
    parameters = {**TINY, "sharing": "none", "workers": 1}
    whole = FedDAG(**parameters).fit(SIMULATION)

    def crash_at_the_second(status):
        if status.site == "site-02" and round_of(status) == 3:
            raise CrashError

    path = tmp_path / "run.npz"
    with pytest.raises(CrashError):
        FedDAG(**parameters).fit(SIMULATION, checkpoint=path, progress=crash_at_the_second)
    told = []
    resumed = FedDAG(**parameters).fit(
        SIMULATION, checkpoint=path, progress=lambda status: told.append((status.site, round_of(status)))
    )
    assert_equal(resumed, whole)
    assert not any(site == "site-01" for site, _ in told)
    assert ("site-02", 3) not in told
    assert ("site-02", 4) in told


def test_what_progress_raises_is_kept_even_between_two_checkpoints(tmp_path, setting, monkeypatch):
    monkeypatch.setattr(checkpointing, "CHECKPOINT_INTERVAL", 1e9)
    parameters, whole = setting
    path = tmp_path / "run.npz"
    crashed(path, parameters, 3)
    told = []
    resumed = FedDAG(**parameters).fit(
        SIMULATION, checkpoint=path, progress=lambda status: told.append(round_of(status))
    )
    assert told[0] == 4
    assert_equal(resumed, whole)


@pytest.mark.parametrize("sharing", ["graph", "none"])
def test_the_time_before_the_interruption_counts(tmp_path, sharing):
    parameters, path = {**TINY, "sharing": sharing, "workers": 1}, tmp_path / "run.npz"
    crashed(path, parameters, 2)
    kept = min(tmp_path.iterdir())
    document, arrays = load_checkpoint(kept)
    save_checkpoint(kept, {**document, "seconds": 1000.0}, arrays)
    assert FedDAG(**parameters).fit(SIMULATION, checkpoint=path).seconds_ > 1000


def test_another_number_of_workers_may_take_it_up(tmp_path, setting):
    parameters, whole = setting
    path = tmp_path / "run.npz"
    crashed(path, {**parameters, "workers": 2}, 1)
    assert_equal(FedDAG(**parameters, workers=1).fit(SIMULATION, checkpoint=path), whole)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"l1": 0.02},
        {"sharing": "all"},
        {"it_max": 5},
    ],
    ids=str,
)
def test_other_parameters_are_refused(tmp_path, other):
    path = tmp_path / "run.npz"
    crashed(path, TINY, 1)
    with pytest.raises(FeddagError) as caught:
        FedDAG(**{**TINY, **other}).fit(SIMULATION, checkpoint=path)
    assert str(caught.value) == (
        f"{path} belongs to a run with other data or parameters. Resume with those, or start a new run elsewhere."
    )


@pytest.mark.parametrize("change", ["a value", "a name", "a column", "the order", "a site less"])
def test_other_data_are_refused(tmp_path, change):
    tables = {silo.name: silo.to_frame() for silo in SIMULATION.silos}
    path = tmp_path / "run.npz"
    crashed(path, TINY, 1, tables)
    match change:
        case "a value":
            tables["site-02"].iloc[0, 0] += 1e-3
        case "a name":
            tables = {name.upper(): table for name, table in tables.items()}
        case "a column":
            tables = {name: table.rename(columns=str.upper) for name, table in tables.items()}
        case "the order":
            tables = dict(reversed(tables.items()))
        case "a site less":
            del tables["site-03"]
    with pytest.raises(FeddagError, match=r"run\.npz belongs to a run with other data or parameters"):
        FedDAG(**TINY).fit(tables, checkpoint=path)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    path.write_text("hello")
    with pytest.raises(FeddagError, match=r"run\.npz is damaged, or not a checkpoint of feddag"):
        FedDAG(**TINY).fit(SIMULATION, checkpoint=path)
    assert path.read_text() == "hello"
