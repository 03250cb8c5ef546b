"""feddag study, and learning by a study."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddag.runs import Run
from feddag.study import Study

rng = np.random.default_rng(0)


def table() -> pd.DataFrame:
    age = rng.normal(50, 10, size=40)
    frame = pd.DataFrame({"age": age, "dose": 0.1 * age + rng.normal(size=40), "risk": rng.normal(size=40)})
    frame["stage"] = ["I", "II", "III", "II"] * 10
    frame["code"] = [1, 2, 3, 4] * 10
    frame["smokes"] = [0, 1] * 20
    frame["name"] = [f"patient {k}" for k in range(40)]
    return frame


STUDY = """
name = "ward"
[variables]
age = "continuous"
dose = "continuous"
risk = "continuous"
[method]
name = "notears"
[data]
missing = "drop"
scale = "site"
[sites.north]
columns = { age = "AGE" }
[sites.south]
"""


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study, north's table in a database with other names, south's in a file with a gap."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    with sqlite3.connect(tmp_path / "north.db") as connection:
        table().rename(columns={"age": "AGE"}).to_sql("visits", connection, index=False)
    connection.close()
    south = table()
    south.loc[3, "dose"] = np.nan
    south.to_csv(tmp_path / "south.csv", index=False)
    return tmp_path


class TestInit:
    def test_the_template_is_a_study(self, feddag, tmp_path):
        path = tmp_path / "my study.toml"
        result = feddag("study", "init", path, "--site", "basel", "--site", "St. Gallen")
        assert result.exit_code == 0
        study = Study.load(path)
        assert study.name == "my-study"
        assert [site.name for site in study.sites] == ["St. Gallen", "basel"]
        assert study.trust.assess
        assert not study.trust.tables  # its marks say much to who knows nearly all of a table
        assert feddag("study", "check", path).exit_code == 0

    def test_a_site_named_twice_is_refused(self, feddag, tmp_path):
        result = feddag("study", "init", tmp_path / "study.toml", "--site", "basel", "--site", "basel")
        assert result.exit_code == 2
        assert result.stderr == "Error: Site 'basel' occurs 2 times. Name each site once.\n"
        assert not list(tmp_path.iterdir())

    def test_a_table_that_is_not_there_is_named(self, feddag, tmp_path):
        result = feddag("study", "init", tmp_path / "study.toml", "--from", tmp_path / "north.csv")
        assert result.stderr.startswith(f"Error: Site 'north': {tmp_path / 'north.csv'} does not exist.")

    def test_variables_come_from_a_table(self, feddag, tmp_path):
        table().to_csv(tmp_path / "north.csv", index=False)
        path = tmp_path / "study.toml"
        feddag("study", "init", path, "--from", tmp_path / "north.csv", "--method", "notears")
        study = Study.load(path)
        kinds = {variable.name: str(variable.kind) for variable in study.variables}
        assert kinds == {
            "age": "continuous",
            "dose": "continuous",
            "risk": "continuous",
            "stage": "categorical (I, II, III)",
            "code": "continuous",
            "smokes": "binary (0, 1)",
        }
        text = path.read_text(encoding="utf-8")
        assert '# if these are codes: { type = "categorical", levels = [1, 2, 3, 4] }' in text
        assert "# name: left out" in text
        assert "patient" not in text

    def test_rare_levels_are_told_of_with_what_mends_them(self, feddag, tmp_path):
        wards = ["a"] * 20 + ["b"] * 15 + ["x"] * 4 + ["y"]
        table().assign(ward=wards, rare=["no"] * 39 + ["yes"]).to_csv(tmp_path / "north.csv", index=False)
        path = tmp_path / "study.toml"
        feddag("study", "init", path, "--from", tmp_path / "north.csv", "--site", "north", "--method", "search")
        text = path.read_text(encoding="utf-8")
        (line,) = (line for line in text.splitlines() if line.startswith("ward = "))
        given, proposed = line.split("  # levels are rare here; over a network: ")
        assert 'merge = { other = ["x", "y"] }' in proposed
        check = ("study", "check", path, "--site", "north", "--data", tmp_path / "north.csv")
        warned = feddag(*check).stdout
        assert "Warning: Over a network this site would not take part." in warned
        assert "'ward' has the level 'x' in 4 rows and 'y' in 1 row" in warned
        assert "leaves out 'rare'" in warned
        left_out = "\n".join(each for each in text.splitlines() if not each.startswith("rare = "))
        path.write_text(left_out.replace(given, f"ward = {proposed}"), encoding="utf-8")
        assert "take part" not in feddag(*check).stdout

    def test_nothing_is_overwritten(self, feddag, tmp_path):
        (tmp_path / "study.toml").write_text("mine", encoding="utf-8")
        result = feddag("study", "init", tmp_path / "study.toml")
        assert result.exit_code == 2
        assert "exists already" in result.stderr
        assert (tmp_path / "study.toml").read_text(encoding="utf-8") == "mine"


class TestCheck:
    def test_the_hash_is_that_of_the_study(self, feddag, ward):
        result = feddag("study", "check", "study.toml")
        assert result.exit_code == 0
        assert f"sha256 {Study.load('study.toml').digest}\n" in result.stdout

    def test_a_sites_table_is_summarised_without_any_value(self, feddag, ward):
        result = feddag("study", "check", "study.toml", "--site", "south", "--data", "south.csv")
        assert result.exit_code == 0
        assert (
            "south: 40 rows read, 1 with missing values dropped, scaled by its own moments, 39 to learn from"
            in result.stdout
        )
        assert [line.split() for line in result.stdout.splitlines()[-3:]] == [
            ["age", "age", "continuous", "0"],
            ["dose", "dose", "continuous", "1"],
            ["risk", "risk", "continuous", "0"],
        ]

    def test_values_far_from_all_others_are_named(self, feddag, ward):
        table = pd.read_csv("south.csv")
        table.loc[5, "age"] = 9999
        table.to_csv("slip.csv", index=False)
        result = feddag("study", "check", "study.toml", "--site", "south", "--data", "slip.csv")
        assert result.exit_code == 0
        assert "Warning: Site 'south', column 'age': 100% of the spread is 1 value of 39" in result.stdout

    def test_what_does_not_keep_to_it_is_refused(self, feddag, ward):
        result = feddag("study", "check", "study.toml", "--site", "north", "--data", "south.csv")
        assert result.exit_code == 2
        assert "Error: Site 'north': south.csv lacks 'AGE'. It has 'age', 'dose'" in result.stderr
        assert "belong together" in feddag("study", "check", "study.toml", "--site", "north").stderr


def test_a_study_begins_anew_under_another_number(feddag, ward):
    first = feddag("study", "anew", "study.toml", "--out", "second.toml")
    assert first.exit_code == 0, first.stderr
    assert Study.load("second.toml").digest in first.stdout
    assert feddag("study", "anew", "second.toml", "--out", "third.toml").exit_code == 0
    assert Study.load("third.toml").attempt == 3
    assert (ward / "third.toml").read_text().count("attempt") == 1
    assert "exists already" in feddag("study", "anew", "study.toml", "--out", "third.toml").stderr


class TestLearn:
    sources = ("north.db?table=visits", "south.csv")

    def test_a_study_says_all(self, feddag, ward):
        result = feddag("learn", "--study", "study.toml", *self.sources, "--out", "run", "--quiet")
        assert result.exit_code == 0
        assert "south: 40 rows read, 1 with missing values dropped, scaled by its own moments\n" in result.stdout
        record = json.loads((ward / "run" / "run.json").read_text(encoding="utf-8"))
        assert record["method"] == "notears"
        assert record["columns"] == ["age", "dose", "risk"]
        assert record["study"]["digest"] == Study.load("study.toml").digest
        assert record["data"]["missing"] == "drop"
        assert record["data"]["sites"]["south"]["rows_dropped"] == 1
        assert record["sites"][0]["source"] == str(ward / "north.db?table=visits")

    def test_what_it_says_of_a_network_and_a_fit_here_does_not_do_is_told(self, feddag, ward):
        further = "[sites.west]\n[privacy.differential]\nepsilon = 1.0\nrounds = 5\n"
        (ward / "study.toml").write_text(STUDY + further, encoding="utf-8")
        result = feddag("learn", "--study", "study.toml", *self.sources, "--out", "run")
        assert result.exit_code == 0, result.stderr
        told = " ".join(result.stderr.split())
        assert "names 3 sites, and 'west' is not given" in told
        assert "no noise is added, and the result is not private" in told

    def test_a_run_is_resumed_by_what_was_agreed_then(self, feddag, ward, monkeypatch):
        study = Study.load("study.toml")
        sources = dict(zip(("north", "south"), self.sources, strict=True))
        silos = study.silos(sources)
        Run.start("run", study.learner(), silos, list(sources.values()), study=study)
        (ward / "study.toml").unlink()
        monkeypatch.chdir("/")
        again = Run.open(ward / "run").silos()
        assert [silo.digest() for silo in again] == [silo.digest() for silo in silos]
        assert feddag("learn", "--resume", ward / "run", "--quiet").exit_code == 0

    def test_options_beside_a_study_are_refused(self, feddag, ward):
        for options in (("--method", "search"), ("--seed", "0"), ("--missing", "drop"), ("--knowledge", "k.toml")):
            result = feddag("learn", "--study", "study.toml", *self.sources, "--out", "run", *options)
            assert result.exit_code == 2
            assert f"Error: study.toml says how to learn from what. Leave out {options[0]}." in result.stderr
        assert not (ward / "run").exists()

    def test_missing_and_scale_are_told_kept_and_shown(self, feddag, ward):
        numbers = pd.read_csv("south.csv")[["age", "dose", "risk"]]
        numbers.to_csv("south.csv", index=False)
        options = ("--method", "notears", "--out", "run", "--quiet")
        assert "1 missing value, the first in row 4" in feddag("learn", "west=south.csv", *options).stderr
        result = feddag("learn", "west=south.csv", "--missing", "impute", "--scale", "federated", *options)
        assert result.exit_code == 0
        assert "west: 40 rows read, 1 values imputed (dose 1), scaled by those of all sites\n" in result.stdout
        run = Run.open("run")
        assert (run.preparation.missing, run.preparation.scale) == ("impute", "federated")
        assert run.silos()[0].account == run.accounts()["west"]

    def test_knowledge_comes_from_a_file(self, feddag, ward):
        Path("known.toml").write_text('forbidden = [["age", "dose"], ["dose", "age"]]\n', encoding="utf-8")
        table()[["age", "dose", "risk"]].to_csv("south.csv", index=False)
        given = ("learn", "south.csv", "--knowledge", "known.toml", "--quiet")
        result = feddag(*given, "--method", "search", "--restarts", "0", "--out", "run")
        assert result.exit_code == 0
        learned = (ward / "run" / "graph.edges.csv").read_text(encoding="utf-8")
        assert "age,dose" not in learned
        assert "dose,age" not in learned
        refused = feddag(*given, "--method", "cam", "--out", "other")
        assert "The method 'cam' cannot obey knowledge (forbidden). Leave it out, or choose one of" in refused.stderr
        twice = feddag(*given, "--method", "search", "--forbidden", "age->risk", "--out", "other")
        assert "known.toml has forbidden, and so has --forbidden. Leave out one of them." in twice.stderr
