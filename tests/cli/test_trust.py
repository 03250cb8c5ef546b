from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import feddag as package
from feddag.federation.checkpoint import load_checkpoint
from feddag.runs import Run
from feddag.trust import total_effect


@pytest.fixture(scope="module")
def finished(feddag, sites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trust") / "run"
    result = feddag("learn", *sites, "--out", folder, "--method", "notears")
    assert result.exit_code == 0, result.stderr
    return folder, result


def test_values_far_from_all_others_are_told_before_a_fit(feddag, sites, tmp_path):
    table = pd.read_csv(sites[0])
    table.iloc[5, 1] = 1e6
    table.to_csv(tmp_path / "slip.csv", index=False)
    result = feddag("learn", tmp_path / "slip.csv", *sites[1:], "--out", tmp_path / "run", "--method", "notears")
    told = f"Warning: Site 'slip', column {table.columns[1]!r}: 100% of the spread is 1 value of {len(table)} (1e+06)"
    assert told in result.stderr


def test_learning_ends_with_a_verdict_and_writes_it(finished):
    folder, result = finished
    trust = json.loads((folder / "trust.json").read_text())

    assert list(trust) == ["verdict", "warnings", "sortability", "held_out"]
    assert trust["verdict"] in result.stdout
    assert all(f"Warning: {warning}" in result.stdout for warning in trust["warnings"])
    assert trust["held_out"][0] | {"score": 0} == {"graph": "learned", "score": 0, "difference": 0, "error": 0}


def test_resuming_a_finished_run_tells_the_verdict_again_or_makes_up_for_it(feddag, finished):
    folder, _ = finished
    text = (folder / "trust.json").read_text()
    assert json.loads(text)["verdict"] in feddag("learn", "--resume", folder).stdout
    (folder / "trust.json").unlink()
    assert json.loads(text)["verdict"] in feddag("learn", "--resume", folder).stdout
    assert (folder / "trust.json").read_text() == text


def test_a_finished_run_whose_tables_are_gone_is_shown_without_a_verdict(feddag, sites, tmp_path):
    table = tmp_path / "here.csv"
    table.write_bytes(sites[0].read_bytes())
    feddag("learn", table, "--out", tmp_path / "run", "--method", "empty")
    table.unlink()
    assert "says nothing about the data" in feddag("learn", "--resume", tmp_path / "run").stdout
    (tmp_path / "run" / "trust.json").unlink()
    assert feddag("learn", "--resume", tmp_path / "run").exit_code == 0


def test_units_that_differ_widely_are_told_before_learning(feddag, sites, tmp_path):
    paths = []
    for path in sites:
        frame = pd.read_csv(path)
        frame.iloc[:, 0] *= 1000
        paths.append(tmp_path / path.name)
        frame.to_csv(paths[-1], index=False)
    told = feddag("learn", *paths, "--out", tmp_path / "told", "--method", "notears")
    quiet = feddag("learn", *paths, "--out", tmp_path / "quiet", "--method", "notears", "--quiet")
    assert told.stderr.startswith("Warning: The result will depend on the units of the columns")
    assert quiet.stderr == ""


def test_stability_writes_its_tables_and_goes_on_from_what_is_there(feddag, finished):
    folder, _ = finished
    first = feddag("stability", folder, "--bootstraps", 3, "--jobs", 1)
    assert first.exit_code == 0, first.stderr
    edges, mechanisms = pd.read_csv(folder / "stability.csv"), pd.read_csv(folder / "mechanisms.csv")
    learned = package.load(folder).graph_

    assert "replicate 1, of 6" in first.stderr
    assert list(zip(*edges.loc[edges["learned"] == "directed", ["cause", "effect"]].to_numpy().T, strict=True)) == (
        learned.edges
    )
    assert edges["frequency"].between(edges["low"], edges["high"]).all()
    assert list(mechanisms.groupby("effect").size()) == [3, 3, 3]
    assert all(f"{cause} → {effect}" in first.stdout for cause, effect in learned.edges)

    more = feddag("stability", folder, "--bootstraps", 4, "--jobs", 1)
    assert "replicate 7, of 7" in more.stderr
    assert feddag("stability", folder, "--bootstraps", 4, "--jobs", 1).stderr == ""


def test_stability_of_tables_learns_the_graph_first_as_learn_would(feddag, sites, finished, tmp_path):
    options = ("--bootstraps", 2, "--jobs", 1, "--quiet")
    result = feddag("stability", *sites, "--out", tmp_path / "run", "--method", "notears", "--l1", 0.2, *options)
    assert result.exit_code == 0, result.stderr
    learned = package.load(tmp_path / "run")
    assert (learned.l1, "Of 2 graphs learned from half of the rows" in result.stdout) == (0.2, True)
    again = feddag("stability", tmp_path / "run", *options)
    assert again.stdout.splitlines() == result.stdout.splitlines()[-len(again.stdout.splitlines()) :]
    assert len(pd.read_csv(tmp_path / "run" / "mechanisms.csv")) == 9


def test_what_cannot_be_done_is_refused_before_anything_is_learned(feddag, sites, tmp_path):
    result = feddag("stability", *sites, "--method", "notears", "--out", tmp_path / "run", "--bootstraps", 0)
    assert (result.exit_code, "bootstraps must be" in result.stderr) == (2, True)
    assert not (tmp_path / "run").exists()


def test_a_seed_goes_to_the_draws_and_to_a_learner_that_takes_one(feddag, sites, quick, tmp_path):
    options = ("--bootstraps", 1, "--jobs", 1, "--seed", 7, "--quiet")
    for method, more in (("feddag", quick), ("notears", ())):
        result = feddag("stability", *sites, "--method", method, *more, "--out", tmp_path / method, *options)
        assert result.exit_code == 0, result.stderr
    assert package.load(tmp_path / "feddag").seed == 7
    kept = [load_checkpoint(tmp_path / name / "stability" / "bootstrap-001.npz")[0] for name in ("feddag", "notears")]
    assert [document["seed"] for document in kept] == [7, 7]


def test_effects_are_told_by_site_for_people_and_for_programs(feddag, finished):
    folder, _ = finished
    cause, effect = package.load(folder).graph_.edges[0]
    text = feddag("effects", folder, "--cause", cause, "--effect", effect)
    document = json.loads(feddag("effects", folder, "--cause", cause, "--effect", effect, "--format", "json").stdout)

    assert text.exit_code == 0
    assert [each["site"] for each in document["effects"]] == ["site-01", "site-02", "site-03", "all sites"]
    assert all(f"{each['slope']:.3g} ± {each['error']:.2g}" in text.stdout for each in document["effects"])
    assert document["reachable"] is True


def test_the_graph_is_written_for_dowhy(feddag, finished, tmp_path):
    folder, _ = finished
    assert feddag("effects", folder, "--dowhy", tmp_path / "graph.gml").exit_code == 0
    assert sorted(nx.read_gml(tmp_path / "graph.gml").edges) == sorted(package.load(folder).graph_.edges)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["effects", "{run}"], "Give --cause and --effect"),
        (["effects", "{run}", "--cause", "x0"], "Give --cause and --effect"),
        (["effects", "{run}", "--cause", "x0", "--effect", "z"], "no variable 'z'"),
        (["effects", "{run}", "--dowhy", "{run}/graph.txt"], "End it in .gml"),
        (["stability", "{run}", "--bootstraps", "0"], "bootstraps must be"),
        (["stability", "nowhere"], "is not a run"),
        (["stability", "a.csv", "b.csv"], "2 tables are given, and no folder for the run. Name one: --out RUN"),
        (["stability", "{run}", "--l1", "0.1"], "is taken for a run, which says how to learn. Leave out --l1"),
        (["stability", "a.csv", "--out", "{run}"], "a.csv"),
    ],
)
def test_mistakes_are_told_in_one_line(feddag, finished, arguments, complaint):
    result = feddag(*[each.format(run=finished[0]) for each in arguments])
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_interrupted_call_says_how_to_go_on(feddag, finished, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("feddag.runs.run.edge_stability", interrupt)
    result = feddag("stability", finished[0], "--bootstraps", 9)
    assert result.exit_code == 130
    assert f"Resume with: feddag stability {finished[0]} --bootstraps 9" in result.stderr


@pytest.fixture
def network_run(sites, tmp_path):
    """A run whose tables stayed at its sites, copied to one of them."""
    columns = pd.read_csv(sites[0]).columns
    study = package.Study.parse(
        'name = "s"\n[variables]\n' + "\n".join(f'{name} = "continuous"' for name in columns) + "\n"
        '[method]\nname = "notears"\n[sites.a]\n[sites.b]\n[sites.c]\n'
    )
    tables = dict(zip("abc", sites, strict=False))
    learned = study.learner().fit(study.silos(tables))
    Run.start_federated(tmp_path / "run", study).learn_by(lambda progress: learned)
    return tmp_path / "run", learned, tables


def test_a_network_run_that_was_interrupted_names_the_command_that_goes_on(feddag, network_run):
    folder = network_run[0]
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "status": "running"}))
    for command in (("report", folder), ("learn", "--resume", folder)):
        refused = feddag(*command)
        assert refused.exit_code == 2
        assert f"feddag federation run STUDY --kit KIT --out {folder}" in refused.stderr


def test_an_effect_that_a_hidden_common_cause_may_explain_is_shown_with_this_note(feddag, tmp_path):
    rng = np.random.default_rng(5)
    hidden, one, other = rng.exponential(size=(3, 1500))
    table = pd.DataFrame({"b": hidden + 0.7 * one, "c": hidden + 0.7 * other})
    table.to_csv(tmp_path / "here.csv", index=False)
    feddag("learn", tmp_path / "here.csv", "--out", tmp_path / "run", "--restarts", "0")
    ((cause, effect),) = Run.open(tmp_path / "run").result().dag_.edges
    shown = feddag("effects", tmp_path / "run", "--cause", cause, "--effect", effect)
    assert f"A hidden common cause of {cause} and {effect} is likely" in shown.stderr
    assert "hidden" not in feddag("effects", tmp_path / "run", "--cause", effect, "--effect", cause).stderr


def test_at_a_site_effects_and_stability_of_a_network_run_rest_on_its_own_table(feddag, network_run):
    folder, learned, tables = network_run
    cause, effect = learned.graph_.edges[0]
    given = ("--cause", cause, "--effect", effect)
    refused = feddag("effects", folder, *given)
    assert refused.exit_code == 2
    assert "or copy the folder to a site, and do this there: --data SITE=TABLE" in refused.stderr
    assert "there is no site 'd'" in feddag("effects", folder, *given, "--data", f"d={tables['a']}").stderr
    shown = feddag("effects", folder, *given, "--data", f"a={tables['a']}", "--format", "json")
    assert shown.exit_code == 0, shown.stderr
    here = total_effect(learned, {"a": tables["a"]}, cause, effect)
    assert json.loads(shown.stdout) == json.loads(json.dumps(here.as_dict()))
    stable = feddag("stability", folder, "--bootstraps", 2, "--data", f"a={tables['a']}", "--jobs", 1)
    assert stable.exit_code == 0, stable.stderr
    assert (folder / "stability.csv").exists()


def test_a_run_that_has_its_tables_takes_no_others(feddag, finished, sites):
    refused = feddag("effects", finished[0], "--cause", "x0", "--effect", "x1", "--data", f"a={sites[0]}")
    assert "this run knows where its tables are. Leave out --data" in refused.stderr
