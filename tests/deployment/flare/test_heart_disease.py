"""Four hospitals with their tables as hospitals have them, over real processes: every figure is that of one process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")
pytest.importorskip("pyarrow", reason="needs feddag[parquet]")
pytest.importorskip("sqlalchemy", reason="needs feddag[sql]")
pytest.importorskip("psycopg", reason="needs feddag[sql]")

import sqlalchemy
from flare_processes import Federation

from feddag.deployment.server import check_graph, learn
from feddag.deployment.site import StudyTable, draws_secret
from feddag.federation import InProcess
from feddag.federation.policy import Policy
from feddag.runs import Run
from feddag.trust import assess, total_effect
from postgres_process import IN_AN_ADDRESS, PASSWORD, postgres
from snippets import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "heart_disease"
EFFECT = ("thalach", "oldpeak")
BOOTSTRAPS = 3


class Hospitals(Federation):
    """A federation of the example's hospitals, each with its table in another kind of place."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.study_file = folder / "study.toml"
        text = (EXAMPLE / "network.toml").read_text()
        self.study_file.write_text(f"{text}bootstraps = {BOOTSTRAPS}\n")
        self._set_up("maximum_numbers_per_value = 1000\n")
        self.names = [site.name for site in self.study.sites]
        self.tables = self._write_tables(database)

    def table(self, name: str) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.tables[name]

    def _write_tables(self, database: str) -> dict[str, str]:
        frames = {name: pd.read_csv(EXAMPLE / f"{name}.csv") for name in self.names}
        engine = sqlalchemy.create_engine(f"postgresql+psycopg://reader:{IN_AN_ADDRESS}@{database}/clinic")
        frames["cleveland"].to_sql("visits", engine, index=False)
        engine.dispose()
        semicolons, parquet, lite = (self.folder / name for name in ("hungarian.csv", "swiss.parquet", "va.sqlite"))
        frames["hungarian"].to_csv(semicolons, sep=";", decimal=",", index=False)
        frames["switzerland"].to_parquet(parquet)
        engine = sqlalchemy.create_engine(f"sqlite:///{lite}")
        frames["va"].to_sql("visits", engine, index=False)
        engine.dispose()
        return {
            "cleveland": f"postgresql://reader@{database}/clinic?table=visits",
            "hungarian": str(semicolons),
            "switzerland": str(parquet),
            "va": f"{lite}?table=visits",
        }


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Iterator[Hospitals]:
    with pytest.MonkeyPatch.context() as environment, postgres() as database:
        environment.setenv("PGPASSWORD", PASSWORD)
        with Hospitals(tmp_path_factory.mktemp("hospitals"), database).after_study() as hospitals:
            yield hospitals


@pytest.fixture(scope="module")
def here(finished):
    """The tables in one process, and what it learns from them under the same rules."""
    silos = [finished.study.silo(name, finished.tables[name]) for name in finished.names]
    silos = [replace(silo, minimum_cell=Policy().minimum_cell) for silo in silos]
    learner = finished.study.learner()
    with learner.in_process(silos) as federation:
        federation.minimum_sites = finished.study.federation.minimum_sites  # numbers of fewer sites are hidden
        learner.fit_federation(federation, silos[0].columns)
    return learner, silos


def test_the_graph_and_the_verdict_are_those_of_one_process(finished, here):
    run, (learner, silos) = Run.open(finished.folder / "run"), here
    assert run.result().graph_ == learner.graph_
    np.testing.assert_allclose(run.result().edge_scores_, learner.edge_scores_, rtol=1e-4, atol=1e-6)
    there, expected = run.assessment(), assess(learner, silos)
    assert (there.verdict, there.warnings) == (expected.verdict, expected.warnings)
    assert [each.graph for each in there.held_out] == [each.graph for each in expected.held_out]
    for name in ("score", "difference", "error"):
        found, wanted = ([getattr(each, name) for each in all_.held_out] for all_ in (there, expected))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-8)


def test_stability_and_effects_are_those_of_one_process(finished, here):
    run, (learner, silos) = Run.open(finished.folder / "run"), here
    sites = [StudyTable(finished.study, each, secret=draws_secret(finished.memory(each.name))) for each in silos]
    with InProcess(sites, 1) as federation:  # each site draws rows by a secret of its own
        fitted = learn(finished.study, federation, lambda status: None)
        expected = check_graph(finished.study, fitted, federation).stability.table()
    there = run.stability_table()
    assert there[["cause", "effect"]].equals(expected[["cause", "effect"]])
    for name in ("frequency", "direction_frequency"):
        np.testing.assert_allclose(there[name].astype(float), expected[name].astype(float))
    effect = run.effects_kept()[EFFECT]
    together = [each for each in total_effect(learner, silos, *EFFECT).estimates if each.site == "all sites"]
    by_adjustment = [each for each in together if each.adjusted_for in [one.adjusted_for for one in effect.estimates]]
    for ours, theirs in zip(effect.estimates, by_adjustment, strict=True):
        for name in ("slope", "error", "tau2", "pooled", "low", "high"):
            found, wanted = (np.array(getattr(each, name), dtype=float) for each in (ours, theirs))
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-8)


def test_the_report_has_all_that_was_found_and_what_left_a_site(finished):
    run, site = finished.folder / "run", "hungarian"
    made = finished.command(
        *("disclosure", "--log", finished.memory(site) / "audit.jsonl", "--out", run / "disclosure.json"),
    )
    assert made.returncode == 0, made.stderr
    shown = finished.command("report", run, "--out", finished.folder / "report.md")
    assert shown.returncode == 0, shown.stderr
    report = (finished.folder / "report.md").read_text()
    assert Run.open(run).assessment().verdict in report
    for words in (
        # of 920 and 69: a site counts rows that it leaves out if they are minimum_cell or more
        "All sites together: 918 rows read, 67 of them left out for missing values",
        "How often each edge comes back",
        "changes another in all",
        f"| {EFFECT[0]} | {EFFECT[1]} | all sites |",
        f"What the study has released about the table of {site}",
    ):
        assert words in report
