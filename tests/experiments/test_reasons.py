from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind

from feddag.errors import FeddagError
from feddag.experiments import experiments, find_experiment, reasons
from feddag.experiments.comparison import Entry, compare_with_published
from feddag.experiments.experiment import Row
from feddag.experiments.formats import render
from feddag.experiments.published import Figure
from feddag.experiments.report import make_report
from feddag.experiments.settings import Simulated

LINEAR = find_experiment("linear").restrict(nodes=[10])
ER2, SF2 = Simulated("linear", "ER2", 10), Simulated("linear", "SF2", 10)


def _keep(store, made, name: str, shds: list[float], setting=SF2) -> None:
    row = next(row for row in LINEAR.rows if row.in_regime == name)
    for seed, shd in enumerate(shds, 2021):
        store.keep(made(row.cell(setting, seed), shd=shd, tpr=None))


def _notes(store, setting=SF2) -> list[str]:
    return next(reasons.notes(block) for block in compare_with_published(LINEAR, store) if block.setting == setting)


def test_a_reason_that_is_known_is_told(store, made):
    _keep(store, made, "NOTEARS, all", [9.0] * 6, ER2)
    (note,) = _notes(store, ER2)
    assert note.startswith("NOTEARS, all (SHD worse): it ends in local optima")
    _keep(store, made, "NOTEARS, all", [1.0] * 6, ER2)
    assert _notes(store, ER2) == []


def test_a_deviation_without_a_reason_is_told_as_such(store, made):
    _keep(store, made, "NOTEARS, all", [20.0, 21.0, 20.0, 21.0, 20.0])
    assert _notes(store) == ["NOTEARS, all (SHD worse): no reason found."]


def test_few_seeds_are_no_reason_to_look_for_one(store, made):
    _keep(store, made, "NOTEARS, all", [20.0] * 4)
    assert _notes(store) == ["NOTEARS, all (SHD worse): 4 seeds only."]


def test_a_method_without_chance_has_no_more_seeds_on_real_data(store, made):
    experiment = find_experiment("hippocampus")
    row = next(row for row in experiment.rows if row.in_regime == "PC, all")
    (setting,) = experiment.settings
    store.keep(made(row.cell(setting, 2021), shd=99.0, tpr=None))
    (block,) = compare_with_published(experiment, store)
    assert reasons.notes(block) == ["PC, all (SHD worse): no reason found."]


def test_what_may_be_chance_is_told_as_such(store, made):
    _keep(store, made, "linear AS-FedDAG, federated", [0.0, 0.0, 0.0, 0.0, 14.0])
    assert _notes(store) == ["linear AS-FedDAG, federated (SHD worse): may be chance (Welch's test, p = 0.69)."]


def test_chance_is_that_of_welchs_test_on_the_figures_themselves():
    random = np.random.default_rng(1)
    ours, theirs = random.normal(2, 1, 7), random.normal(3, 2, reasons.PUBLISHED_GRAPHS)
    figure = Figure(float(theirs.mean()), float(theirs.std()), 0.05)
    p = reasons.chance_p_value(Entry(float(ours.mean()), float(ours.std()), figure), len(ours))
    assert p == pytest.approx(ttest_ind(ours, theirs, equal_var=False).pvalue)
    assert reasons.chance_p_value(Entry(0.0, 0.0, Figure(5.0, 0.0, 0.05)), 5) == 0.0


def test_reasons_stand_below_tables_and_are_counted(store, made):
    _keep(store, made, "NOTEARS, all", [20.0] * 5)
    for format_ in ("text", "markdown", "html", "latex"):
        assert "NOTEARS, all (SHD worse): no reason found." in render(
            LINEAR, compare_with_published(LINEAR, store), format_
        )
    page = make_report(store).page
    assert "\n- NOTEARS, all (SHD worse): no reason found.\n" in page
    (summary,) = [line for line in page.splitlines() if line.startswith("| [linear]")]
    assert summary.endswith("| 1 |  |  | 1 | 1 |")


def test_the_summary_counts_figures_of_all_metrics(store, made):
    row = next(row for row in LINEAR.rows if row.in_regime == "NOTEARS, all")
    for seed in range(2021, 2026):
        store.keep(made(row.cell(SF2, seed), shd=20.0, tpr=0.92))
        store.keep(made(row.cell(ER2, seed), shd=1.6, tpr=0.1))
    page = make_report(store).page
    header = next(line for line in page.splitlines() if line.startswith("| experiment"))
    assert header.endswith("| published figures measured | better | within | worse | no reason found |")
    (summary,) = [line for line in page.splitlines() if line.startswith("| [linear]")]
    unexplained = page.partition("(Table 1)")[2].partition("(Figure 8)")[0].count("no reason found")
    assert summary.endswith(f"| 4 |  | 2 | 2 | {unexplained} |")
    assert "Of the 920 published figures (8 are NaN) 4 are measured: 0 better, 2 within, 2 worse." in page


def test_every_known_reason_is_of_a_row_and_setting_that_is_published():
    for reason in reasons.reasons():
        metric = (*reason.metrics, "SHD")[0]
        assert any(
            experiment.figure(setting, row, metric)
            for experiment in experiments().values()
            for setting in experiment.settings
            for row in experiment.rows
            if reason.fits(setting, _Line(row), metric, reason.verdict)
        ), reason


class _Line:
    def __init__(self, row: Row) -> None:
        self.row = row


def test_a_reason_may_be_of_some_settings_and_metrics_alone():
    text = """
        [[reason]]
        row = "PC"
        regime = "all"
        settings = { graph = ["ER2", "ER4"] }
        metrics = ["TPR"]
        why = "so it is"
    """
    (reason,) = reasons.read(text)
    line = _Line(Row("PC", "pc", "all"))
    assert reason.fits(ER2, line, "TPR", "better")
    assert not reason.fits(SF2, line, "TPR", "better")
    assert not reason.fits(ER2, line, "SHD", "better")
    assert not reason.fits(ER2, _Line(Row("PC", "pc", "voting")), "TPR", "better")


def test_a_mistake_in_a_reason_is_named():
    with pytest.raises(FeddagError, match=r"must have regime, row, why and may have .* Got row, because instead"):
        reasons.read('[[reason]]\nrow = "PC"\nbecause = "x"')
