from __future__ import annotations

import json
from statistics import fmean

import pytest

from feddag import CausalGraph, compare, load, read_graph, write_graph
from feddag.cli.tables import judged_edges

TRUTH = CausalGraph([[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], ["a", "b", "c", "d"])
ESTIMATE = CausalGraph([[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], ["a", "b", "c", "d"])


@pytest.fixture
def files(tmp_path):
    write_graph(TRUTH, tmp_path / "truth.csv")
    write_graph(ESTIMATE, tmp_path / "estimate.csv")
    return tmp_path / "estimate.csv", "--truth", tmp_path / "truth.csv"


def test_each_edge_is_judged_by_name(feddag, files):
    lines = [line.split() for line in feddag("evaluate", *files).stdout.splitlines()]
    assert lines[1:5] == [
        ["a", "→", "b", "✓", "found"],
        ["a", "→", "c", "↔", "reversed"],
        ["a", "→", "d", "+", "extra"],
        ["c", "→", "d", "✗", "missing"],
    ]


def test_the_figures_are_those_of_compare(feddag, files):
    text = feddag("evaluate", *files).stdout
    report = json.loads(feddag("evaluate", *files, "--format", "json").stdout)

    assert report["metrics"] == compare(ESTIMATE, TRUTH).as_dict()
    assert "SHD 3  TPR 0.3333  FDR 0.6667  NNZ 3" in text
    assert "precision 0.3333  recall 0.3333  f1 0.3333" in text
    assert "missing 1  extra 1  reversed 1" in text
    assert "strict SHD 3: 0 open directions are errors here" in text
    assert report["edges"] == {
        "found": [["a", "b"]],
        "open": [],
        "missing": [["c", "d"]],
        "extra": [["a", "d"]],
        "reversed": [["a", "c"]],
    }


def test_an_open_direction_is_named_and_counted_both_ways(feddag, files, tmp_path):
    write_graph(TRUTH.to_cpdag(), tmp_path / "class.csv")  # a -- b, a -- c -- d
    text = feddag("evaluate", tmp_path / "class.csv", *files[1:]).stdout
    assert [line.split() for line in text.splitlines()[1:4]] == [
        ["a", "→", "b", "?", "open"],
        ["a", "→", "c", "?", "open"],
        ["c", "→", "d", "?", "open"],
    ]
    assert "SHD 0  TPR 1" in text
    assert "strict SHD 3: 3 open directions are errors here" in text


@pytest.mark.parametrize("estimate", [ESTIMATE, TRUTH.to_cpdag(), TRUTH.to_cpdag().reordered("dcba"), TRUTH])
@pytest.mark.parametrize("truth", [TRUTH, TRUTH.to_cpdag()])
def test_verdicts_count_as_compare_counts(estimate, truth):
    verdicts = [verdict for _, verdict in judged_edges(estimate, truth)]
    metrics = compare(estimate, truth)
    assert verdicts.count("missing") == metrics.missing
    assert verdicts.count("extra") == metrics.extra
    assert verdicts.count("reversed") == metrics.reversed
    assert verdicts.count("open") == metrics.left_open


def test_an_edge_list_may_leave_out_a_variable_without_edges(feddag, tmp_path):
    lonely = CausalGraph([[0, 1, 0], [0, 0, 0], [0, 0, 0]], ["a", "b", "c"])
    write_graph(lonely, tmp_path / "estimate.edges.csv")
    write_graph(lonely, tmp_path / "truth.csv")
    result = feddag("evaluate", tmp_path / "estimate.edges.csv", "--truth", tmp_path / "truth.csv")
    assert "SHD 0" in result.stdout


def test_a_true_graph_may_be_an_edge_list_of_any_name(feddag, files, tmp_path):
    write_graph(TRUTH, tmp_path / "edges.csv", format="edges")
    by_edges = feddag("evaluate", files[0], "--truth", tmp_path / "edges.csv")
    assert by_edges.stdout == feddag("evaluate", *files).stdout
    (tmp_path / "edges.csv").write_text("source,target\na,q\n")
    wrong = feddag("evaluate", files[0], "--truth", tmp_path / "edges.csv")
    assert wrong.exit_code == 2
    assert "format=" not in wrong.stderr


@pytest.fixture(scope="module")
def alone(feddag, sites, quick, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    assert feddag("learn", *sites, "--out", folder, *quick, "--sharing", "none").exit_code == 0
    return folder


def test_sites_that_learned_alone_are_averaged(feddag, alone, data):
    report = json.loads(feddag("evaluate", alone, "--truth", data / "truth.csv", "--format", "json").stdout)
    truth, learned = read_graph(data / "truth.csv"), load(alone)
    by_hand = [compare(learned.site_graphs_[site], truth).shd for site in learned.sites_]

    assert report["metrics"] == compare(learned.graph_, truth).as_dict()
    assert [report["sites"][site]["shd"] for site in learned.sites_] == by_hand
    assert report["mean_over_sites"]["shd"] == fmean(by_hand)
    assert "Mean over the 3 sites" in feddag("evaluate", alone, "--truth", data / "truth.csv").stdout


def test_a_truth_over_other_variables_is_refused(feddag, alone, files):
    result = feddag("evaluate", alone, *files[1:])
    assert result.exit_code == 2
    assert "The nodes differ" in result.stderr
