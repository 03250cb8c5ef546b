from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import wilcoxon

from feddag.errors import FeddagError
from feddag.experiments import Cell, find_experiment
from feddag.experiments.comparison import compare_with_published, count_cells, signed_rank
from feddag.experiments.formats import FORMATS, render
from feddag.experiments.plots import plot
from feddag.experiments.published import Figure
from feddag.experiments.report import make_report, write_report
from feddag.experiments.result import compute
from feddag.experiments.settings import Simulated
from feddag.experiments.store import Tuned

LINEAR = find_experiment("linear").restrict(nodes=[10])
ER2 = Simulated("linear", "ER2", 10)
SEEDS = range(2021, 2027)


@pytest.fixture
def filled(store, made):
    """NOTEARS on pooled rows at 1 error more than linear AS-FedDAG, on six seeds, and two sanity rows."""
    rows = {row.in_regime: row for row in LINEAR.rows}
    for seed in SEEDS:
        ours = seed % 2
        for name, shd in {"linear AS-FedDAG, federated": ours, "NOTEARS, all": ours + 1}.items():
            store.keep(made(rows[name].cell(ER2, seed), shd=float(shd), tpr=0.9))
        store.keep(made(rows["empty, federated"].cell(ER2, seed), shd=19.0, tpr=0.0))
    return store


def _line(blocks, name):
    return next(line for line in blocks[0].lines if line.row.in_regime == name)


def test_ours_stands_beside_the_published(filled):
    line = _line(compare_with_published(LINEAR, filled), "NOTEARS, all")
    entry = line.entries["SHD"]
    assert (entry.mean, entry.deviation, line.seeds) == (1.5, 0.5, 6)
    assert (entry.published.mean, entry.published.deviation, entry.verdict) == (1.6, 1.6, "within")
    assert _line(compare_with_published(LINEAR, filled), "PC, all").entries["SHD"].published.mean == 9.0


@pytest.mark.parametrize(
    ("mean", "lower_is_better", "verdict"),
    [
        (1.0, True, "within"),
        (0.4, True, "better"),
        (0.4, False, "worse"),
        (2.0, True, "worse"),
        (2.0, None, "different"),
    ],
)
def test_a_mean_is_judged_by_the_published_deviation(mean, lower_is_better, verdict):
    assert Figure(1.0, 0.5, 0.05).judge(mean, lower_is_better=lower_is_better) == verdict


@pytest.mark.parametrize(("published", "deviation", "mean"), [(8.2, 0.8, 9.0), (1.5, 0.3, 1.8), (0.9, 0.1, 0.8)])
def test_a_mean_at_the_deviation_itself_is_within(published, deviation, mean):
    assert Figure(published, deviation, 0.05).judge(mean, lower_is_better=True) == "within"


def test_a_published_deviation_of_zero_allows_for_its_rounding():
    assert Figure(5.0, 0.0, 0.05).judge(5.04, lower_is_better=True) == "within"
    assert Figure(5.0, 0.0, 0.05).judge(5.06, lower_is_better=True) == "worse"


def test_a_difference_is_tested_over_the_shared_seeds(filled):
    blocks = compare_with_published(LINEAR, filled)
    assert blocks[0].reference == blocks[0].tested_against == "linear AS-FedDAG, federated"
    assert _line(blocks, "NOTEARS, all").p_value == pytest.approx(wilcoxon([1.0] * 6).pvalue)
    assert _line(blocks, "linear AS-FedDAG, federated").p_value is None
    assert _line(blocks, "PC, all").p_value is None


def test_where_the_reference_has_too_few_seeds_the_best_line_that_has_enough_stands_in(store, made):
    rows = {row.in_regime: row for row in LINEAR.rows}
    shds = {"linear AS-FedDAG, federated": [0.0] * 4, "NOTEARS, all": [2.0] * 6, "NOTEARS, separate": [3.0] * 6}
    shds |= {"NOTEARS-ADMM, federated": [1.0] * 3, "empty, federated": [0.5] * 6}
    for name, each in shds.items():
        for seed, shd in enumerate(each, 2021):
            store.keep(made(rows[name].cell(ER2, seed), shd=shd, tpr=0.9))
            by_hand = replace(rows["NOTEARS, all"].cell(ER2, seed), parameters={"l1": 0.5})
            store.keep(made(by_hand, "by hand", shd=0.0, tpr=1.0))
    blocks = compare_with_published(LINEAR, store)
    tested = {line.row.in_regime: line.p_value for line in blocks[0].lines if line.p_value is not None}
    assert tested.keys() == {"NOTEARS, separate", "empty, federated", "notears, l1=0.5, all"}
    told = "against NOTEARS, all, the best with 5 seeds or more; linear AS-FedDAG has fewer."
    assert told in render(LINEAR, blocks, "text")
    assert f"*p* {told}" in make_report(store).page
    assert blocks[1].reference is None  # nothing was run there


@pytest.mark.parametrize(
    ("name", "default"),
    [("participation", {"participation": 1.0}), ("sensitivity", {"it_fl": 200, "alpha_init": 0.0, "l1": 0.01})],
)
def test_variants_are_tested_against_the_published_values_and_not_against_the_best(store, made, name, default):
    experiment = find_experiment(name).restrict(nodes=[10], methods=["GS-FedDAG"])
    same = [row for row in experiment.rows if row.parameters[row.varied] == default[row.varied]]
    others = [row for row in experiment.rows if row not in same]
    setting = experiment.settings[0]
    for row in others:
        for seed in SEEDS:
            store.keep(made(row.cell(setting, seed), shd=1.0, tpr=0.9))
    assert compare_with_published(experiment, store)[0].reference is None
    for seed in SEEDS:
        store.keep(made(same[0].cell(setting, seed), shd=4.0, tpr=0.9))
    block = compare_with_published(experiment, store)[0]
    assert block.reference == f"{same[0].name}, federated"
    assert [line.row for line in block.lines if line.p_value is None] == same
    assert [line.p_value for line in block.lines if line.row in others] == [pytest.approx(1 / 32)] * len(others)


@pytest.mark.parametrize("seeds", [5, 8, 14])
def test_p_is_that_of_scipy(seeds):
    for draw in range(3):
        ours, theirs = np.random.default_rng(draw).integers(0, 5, (2, seeds)).astype(float)
        p = signed_rank(dict(enumerate(ours)), dict(enumerate(theirs)))
        assert p == pytest.approx(wilcoxon(ours, theirs, zero_method="pratt").pvalue)


def test_few_seeds_make_no_test_and_no_difference_is_none():
    few = dict.fromkeys(range(4), 1.0)
    assert signed_rank(few, few) is None
    many = dict.fromkeys(range(5), 1.0)
    assert signed_rank(many, many) == 1.0


def test_tuned_and_chosen_by_hand_are_told_apart(filled, made):
    row = next(row for row in LINEAR.rows if row.in_regime == "NOTEARS, all")
    cell = replace(row.cell(ER2, 2021), parameters={"l1": 0.5})
    filled.keep(made(cell, "by hand", shd=0.0, tpr=1.0))
    names = [line.name for line in compare_with_published(LINEAR, filled)[0].lines]
    assert "notears, l1=0.5 (by hand)" in names
    assert _line(compare_with_published(LINEAR, filled), "NOTEARS, all").seeds == 6


def test_a_tuned_line_stays_whoever_else_declares_its_parameters(store, made):
    experiment = find_experiment("gp").restrict(nodes=[10])
    setting = experiment.settings[0]
    row = next(row for row in experiment.rows if row.label == "GS-FedDAG")
    store.keep_tuned([Tuned("gp", row.in_regime, "raw", 10, {"l1": 0.05}, (1,), "SHD", 1.0, "now")])
    declared = next(each for each in find_experiment("sensitivity").rows if each.name.endswith("l1=0.05"))
    store.keep(made(declared.cell(setting, 2021), shd=1.0, tpr=0.9))
    lines = [line for line in compare_with_published(experiment, store)[0].lines if line.seeds]
    assert [line.name for line in lines] == ["feddag, l1=0.05 (tuned)"]


def test_a_further_method_is_shown_once_it_has_results(filled, made):
    assert "cam" not in {line.row.method for line in compare_with_published(LINEAR, filled)[0].lines}
    filled.keep(made(Cell(ER2, "cam", "all", 2021), shd=4.0, tpr=0.5))
    assert _line(compare_with_published(LINEAR, filled), "cam, all").entries["SHD"].mean == 4.0


def test_rows_that_are_chosen_are_shown_alone(filled, made):
    filled.keep(made(Cell(ER2, "cam", "all", 2021), shd=4.0, tpr=0.5))
    by_hand = Cell(ER2, "random", "federated", 2021, {"edges_per_node": 2.0})
    filled.keep(made(by_hand, "by hand", shd=20.0, tpr=0.1))
    assert {"empty", "cam", "random"} <= {line.row.method for line in compare_with_published(LINEAR, filled)[0].lines}
    for chosen in (["NOTEARS"], ["notears"], ["NOTEARS", "cam"]):
        lines = compare_with_published(LINEAR.restrict(methods=chosen), filled)[0].lines
        assert {line.row.method for line in lines} == {name.lower() for name in chosen}
    sanity = compare_with_published(LINEAR.restrict(methods=["empty", "random"]), filled)[0].lines
    assert [(line.name, line.row.sanity) for line in sanity] == [
        ("empty", True),
        ("random", True),
        ("random, edges_per_node=2.0 (by hand)", True),
    ]


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_has_ours_and_the_published(filled, format_):
    text = render(LINEAR, compare_with_published(LINEAR, filled), format_)
    if format_ == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        row = next(row for row in rows if (row["row"], row["regime"], row["metric"]) == ("NOTEARS", "all", "SHD"))
        assert (float(row["mean"]), float(row["published_mean"]), row["verdict"]) == (1.5, 1.6, "within")
        assert (row["reference"], int(row["seeds"])) == ("linear AS-FedDAG, federated", 6)
        return
    sign = r" \$\\pm\$ " if format_ == "latex" else " ± "
    if format_ == "html":
        parser = _Cells()
        parser.feed(text)
        text = " ".join(parser.texts)
    assert re.search(rf"NOTEARS\W+1\.5{sign}0\.5\W+1\.6{sign}1\.6", text)
    assert "0.031" in text
    if format_ == "latex":
        assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
        needs, _, rest = text.partition("\n")
        assert needs == r"% needs \usepackage{booktabs}, \usepackage{amssymb} and \usepackage{adjustbox}"
        assert not re.search(r"(?<!\\)[_%#]|[▲▼±²<>](?!\$)", rest)
    for below in ("better,", "against linear AS-FedDAG, federated.", "Seeds 2021-2026."):
        assert below in text


def test_a_table_of_seeds_that_parameters_are_chosen_on_says_so(filled, made):
    filled.keep(made(LINEAR.rows[0].cell(ER2, 3), shd=1.0, tpr=0.9))
    text = render(LINEAR, compare_with_published(LINEAR, filled, [3, 2021, 2022]), "text")
    assert "Seeds 3, 2021-2022. Parameters are chosen on 3." in text


@pytest.mark.parametrize(("name", "usual"), [("rows", "600 rows per site"), ("sites", "10 sites")])
def test_a_title_tells_what_is_varied_even_where_it_is_as_usual(store, name, usual):
    experiment = find_experiment(name)
    titles = [
        block.title
        for block in compare_with_published(replace(experiment, settings=(Simulated("mixed", "ER2", 20),)), store)
    ]
    assert titles == [f"mixed ER2, 20 nodes, {usual}"]


def test_the_report_tells_what_is_there(filled):
    page = make_report(filled).page
    assert "| [linear](#linear-models-homogeneous-data-table-1) | Table 1 | 12 of 320 | " in page
    assert "| all | NOTEARS | 1.5 ± 0.5 | 1.6 ± 1.6 | = |" in page
    assert "| gp | Table 2 | 0 of 600 |" in page
    assert page.count("\n## ") == 2  # linear, and figure 8, which shares its cells
    assert "![" not in page


def test_the_report_heads_other_data_as_beyond_the_paper(filled, made):
    cell = next(LINEAR.restrict(methods=["PC"], data="standardised").cells([2021]))
    filled.keep(made(cell, shd=1.0, tpr=0.9))
    page = make_report(filled).page
    assert "\n## Linear models, homogeneous data, standardised (Beyond the paper)\n" in page
    assert page.count("**linear ER2, 10 nodes, standardised**") == 1  # though figure 8 shares the cell
    assert page.count("(Table 1)") == 1
    assert "(methods.md)" in page


def test_a_cell_counts_once_and_sanity_rows_do_not(store, made):
    experiment = find_experiment("sensitivity")
    setting = experiment.settings[0]
    published = [row for row in experiment.rows if row.name.endswith(("it_fl=200", "alpha_init=0.0", "l1=0.01"))]
    assert len({row.cell(setting, 2021).key for row in published}) == 1 < len(published)
    for row in (*published, *(row for row in experiment.rows if row.sanity)):
        store.keep(made(row.cell(setting, 2021), shd=1.0, tpr=0.9))
    values, defaults = 5 + 4 + 5, 3
    wanted = len(experiment.settings) * len(experiment.seeds) * (values - defaults + 1)
    assert count_cells(experiment, store) == (1, wanted)
    assert count_cells(experiment, None) == (0, wanted)
    assert f"| sensitivity | Figure 5 | 1 of {wanted} |" in make_report(store).page


def test_a_curve_of_one_point_is_left_out(store, made):
    experiment = find_experiment("participation").restrict(nodes=[10])
    *_, half, _, one = [row for row in experiment.rows if not row.sanity]
    for setting in find_experiment("participation").settings:
        for row in (one, *(row for row in experiment.rows if row.sanity)):
            store.keep(made(row.cell(setting, 2021), shd=1.0, tpr=0.9))
    assert experiment.title not in make_report(store).page
    store.keep(made(half.cell(experiment.settings[0], 2021), shd=1.0, tpr=0.9))
    assert f"## {experiment.title} (Appendix D)" in make_report(store).page


def test_the_report_shows_pictures_that_stand_beside_it(filled, made, tmp_path):
    pytest.importorskip("matplotlib")
    figures = tmp_path / "figures" / "page"
    figures.mkdir(parents=True)
    (figures / "gp.svg").write_text("of an older page")
    (figures / "mine.svg").write_text("of the user")
    for cell in find_experiment("participation").restrict(nodes=[10], methods=["GS-FedDAG"]).cells([2021]):
        filled.keep(made(cell, shd=2.0, tpr=0.9))
    write_report(filled, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    shown = re.findall(r"!\[.*?\]\((.*?)\)", page)
    assert shown == ["figures/page/linear.svg", "figures/page/participation.svg"]
    assert {path.name for path in figures.iterdir()} == {"linear.svg", "participation.svg", "mine.svg"}
    drawn = [(tmp_path / path).read_bytes() for path in shown]
    write_report(filled, tmp_path / "page.md")
    assert [(tmp_path / path).read_bytes() for path in shown] == drawn


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_table_can_be_drawn(filled, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"linear.{suffix}"
    plot(LINEAR, filled, path)
    assert path.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_a_curve_can_be_drawn(store, made, tmp_path):
    pytest.importorskip("matplotlib")
    experiment = find_experiment("participation").restrict(nodes=[10])
    for cell in experiment.restrict(methods=["GS-FedDAG"]).cells([2021, 2022]):
        store.keep(made(cell, shd=2.0, tpr=0.9))
    plot(experiment, store, tmp_path / "curve.svg")
    assert {"gp ER2, 10 nodes", "participation", "GS-FedDAG", "published"} <= _texts(tmp_path / "curve.svg")


def test_the_course_of_an_optimisation_can_be_drawn(store, made, tmp_path):
    pytest.importorskip("matplotlib")
    experiment = find_experiment("optimisation")
    quick = {"model": "linear", "sharing": "all", "it_inner": 20, "it_fl": 10, "rho_max": 10.0}
    small = Simulated("linear", "ER2", nodes=4, rows=20, sites=2)
    course = compute(Cell(small, "feddag", "federated", 1, quick)).history
    for cell in experiment.restrict(methods=["GS-FedDAG"]).cells():
        store.keep(replace(made(cell, shd=1.0, tpr=0.9), history=course))
    plot(experiment, store, tmp_path / "course.svg")
    assert {"after sub-problem 1", "ρ", "SHD between sites"} <= _texts(tmp_path / "course.svg")


def _texts(path) -> set[str]:
    return set(re.findall(r"<text [^>]*>(.*?)</text>", path.read_text()))


def test_points_stand_in_the_order_of_the_axis_whichever_line_has_them(store, made, tmp_path):
    pytest.importorskip("matplotlib")
    experiment = find_experiment("rows").restrict(methods=["GS-FedDAG", "evidence search"])
    for setting in experiment.settings:
        for row in experiment.rows:
            if row.method == "search" or setting.rows in (100, 900):
                store.keep(made(row.cell(setting, 2021), shd=1.0, tpr=0.9))
    plot(experiment, store, tmp_path / "rows.svg")
    ticks = re.findall(r">(100|300|600|900)</text>", (tmp_path / "rows.svg").read_text())
    assert ticks == ["100", "300", "600", "900"]


def test_a_curve_without_a_line_is_refused(store, made, tmp_path):
    pytest.importorskip("matplotlib")
    experiment = find_experiment("participation")
    empty = next(row for row in experiment.rows if row.label == "empty")
    store.keep(made(empty.cell(experiment.settings[0], 2021), shd=19.0, tpr=0.0))
    with pytest.raises(FeddagError, match="no result of this part of participation to plot"):
        plot(experiment, store, tmp_path / "curve.svg")


def test_what_cannot_be_drawn_is_refused(filled, tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(FeddagError, match="no result of this part of gp to plot"):
        plot(find_experiment("gp"), filled, tmp_path / "gp.svg")
    with pytest.raises(FeddagError, match="extension 'doc'"):
        plot(LINEAR, filled, tmp_path / "linear.doc")
    assert list(tmp_path.glob("*.doc")) == []
