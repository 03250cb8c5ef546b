"""A fitted learner plots its graph, its scores and its history."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from feddag import CausalGraph, EvidenceSearch, FeddagError, make_learner
from feddag.graphs import Edge

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import patches, pyplot  # noqa: E402 - after the choice of what draws


def learn(method, names, **parameters):
    draw = np.random.default_rng(1)
    tables = {
        site: pd.DataFrame(draw.normal(size=(60, len(names))).cumsum(axis=1), columns=list(names))
        for site in ("Basel", "Lyon")
    }
    return make_learner(method, **parameters).fit(tables)


@pytest.fixture(scope="module")
def random():
    return learn("random", [f"x{k}" for k in range(11)], edges_per_node=1.3, seed=3)


@pytest.fixture(scope="module")
def notears():
    return learn("notears", [f"x{k}" for k in range(5)])


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def test_the_graph_is_drawn_whole(random):
    ax = random.plot()
    arrows = [each for each in ax.patches if isinstance(each, patches.FancyArrowPatch)]
    boxes = [each for each in ax.patches if isinstance(each, patches.FancyBboxPatch)]
    assert (len(boxes), len(arrows)) == (11, len(random.graph_.edges))
    assert {text.get_text() for text in ax.texts} == set(random.graph_.names)
    ax.figure.canvas.draw()


def test_a_graph_draws_itself_with_or_without_scores(notears):
    names = notears.graph_.names
    for scores, widths in ((notears.graph_.scores, 2), (None, 1)):
        ax = CausalGraph(notears.adjacency_, names, scores).plot()
        arrows = [each for each in ax.patches if isinstance(each, patches.FancyArrowPatch)]
        assert len(arrows) == len(notears.graph_.edges)
        assert (len({arrow.get_linewidth() for arrow in arrows}) > 1) == (widths > 1)


def test_axes_that_are_given_are_used(notears):
    for draw in (notears.plot, notears.plot_adjacency, notears.plot_history):
        _, ax = pyplot.subplots()
        assert draw(ax) is ax
        ax.figure.canvas.draw()


def test_the_adjacency_shows_the_scores_of_the_edges(notears):
    ax = notears.plot_adjacency()
    image = ax.images[0].get_array()
    assert (~image.mask).sum() == notears.adjacency_.sum()
    order = [text.get_text() for text in ax.get_yticklabels()]
    row, column = (order.index(name) for name in notears.graph_.edges[0])
    assert image[row, column] == pytest.approx(notears.edge_scores_.at[notears.graph_.edges[0]])


def test_each_figure_of_the_history_has_its_axes(notears):
    axes = notears.plot_history()
    assert [ax.get_title() for ax in axes] == ["ρ, the weight of acyclicity", "h, the distance from a DAG"]
    rows = notears.history_.to_frame().dropna(subset=["h"])
    assert axes[1].lines[0].get_ydata() == pytest.approx(rows["h"].to_numpy())
    with pytest.raises(FeddagError, match="one axes or 2"):
        notears.plot_history(list(pyplot.subplots(1, 3)[1]))


def test_a_method_without_a_course_says_so(random):
    with pytest.raises(FeddagError, match="nothing to plot"):
        random.plot_history()


def test_names_are_no_formulas():
    names = ["$x^{", "a$b", "$\\frac$"]
    learner = learn("random", names)
    drawn, matrix = learner.plot(), learner.plot_adjacency()
    for axes in (drawn, matrix):
        axes.figure.canvas.draw()
    assert set(names) <= {text.get_text().replace("\\$", "$") for text in drawn.texts}
    labels = {label.get_text().replace("\\$", "$") for label in matrix.get_xticklabels()}
    assert set(names) <= labels


def test_only_a_fitted_learner_can_be_drawn():
    for name in ("plot", "plot_history", "plot_adjacency"):
        with pytest.raises(ValueError, match="not fitted"):
            getattr(EvidenceSearch(), name)()


def test_without_matplotlib_the_extra_is_named(notears, monkeypatch):
    for module in ("patches", "pyplot"):
        monkeypatch.setitem(sys.modules, f"matplotlib.{module}", None)
    for draw in (notears.plot, notears.plot_adjacency, notears.plot_history):
        with pytest.raises(FeddagError, match=r"pip install '\.\[report\]'"):
            draw()


@pytest.fixture
def mixed():
    kinds = [("a", "b", "tail", "arrow"), ("a", "b", "arrow", "arrow"), ("c", "b", "circle", "arrow")]
    return CausalGraph.from_edges(Edge(*ends) for ends in [*kinds, ("c", "d", "circle", "circle")])


def test_every_end_is_drawn_with_its_mark(mixed):
    text = mixed._repr_svg_()
    assert text.count("<polygon") == 4
    assert text.count("<circle") == 3
    assert [symbol in text for symbol in ("a → b", "a ↔ b", "c o→ b", "c o–o d")] == [True] * 4
    lines = [part.split('"')[0] for part in text.split('d="M')[1:]]
    assert len(set(lines)) == 4  # both edges of a and b can be seen


def test_a_plot_has_a_ring_for_each_circle_and_a_line_for_each_edge(mixed):
    drawn = mixed.plot().patches
    assert sum(type(patch).__name__ == "Circle" for patch in drawn) == 3
    assert sum(type(patch).__name__ == "FancyArrowPatch" for patch in drawn) == 4
