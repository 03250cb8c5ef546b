"""Whatever figures a learner tells are shown, and nothing else is known of it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from feddag.cli import progress
from feddag.cli.cell_progress import show_cells
from feddag.cli.progress import clock, shown_progress
from feddag.experiments.running import Standing
from feddag.learners import Status

STATUS = Status(None, {"moves_tried": 1200, "rho": 0.00012}, seconds=61, seconds_left=7)


@pytest.fixture
def shown(monkeypatch):
    """What stderr shows after some statuses, with a terminal or without."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)

    def show(*statuses: Status, terminal: bool = False, quiet: bool = False) -> str:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=100, color_system=None, highlight=False)
        with shown_progress(console, quiet=quiet, notice=lambda: "Stopping.") as tell:
            for status in statuses:
                tell(status)
        return stream.getvalue()

    return show


def test_a_log_gets_them_as_a_line(shown):
    assert shown(STATUS) == "moves tried 1,200, ρ 1.2·10⁻⁴, 1:01, about 0:07 left\n"


def test_a_line_names_the_site_that_learns_alone(shown):
    assert shown(Status("[Basel]", {"moves": 1}, 3.0)) == "[Basel]: moves 1, 0:03\n"


def test_a_terminal_gets_them_as_a_table(shown):
    text = shown(STATUS, terminal=True)
    assert "moves tried         ρ  time" in text
    assert "1,200  1.2·10⁻⁴  1:01, about 0:07 left" in text
    assert "Stopping." in text


def test_sites_that_learn_alone_have_a_row_each(shown):
    text = shown(Status("Basel", {"moves": 1}, 3.0), Status("Lyon", {"moves": 2, "stage": "end"}, 4.0), terminal=True)
    assert "site   moves  stage  time" in text
    assert "Basel      1         0:03" in text
    assert "Lyon       2    end  0:04" in text


def test_before_the_first_round_nothing_is_claimed_that_may_not_hold(shown):
    assert "Preparing, and learning the first round: 0:00  Stopping." in shown(terminal=True)


def test_quiet_shows_nothing(shown):
    assert shown(STATUS, terminal=True, quiet=True) == shown(STATUS, quiet=True) == ""


@pytest.mark.parametrize(("seconds", "shown_as"), [(6.6, "0:07"), (754, "12:34"), (3723, "1:02:03")])
def test_a_time_is_shown_as_a_clock_shows_it(seconds, shown_as):
    assert clock(seconds) == shown_as


@pytest.mark.parametrize("terminal", [False, True])
def test_cells_are_shown_from_the_beginning(monkeypatch, terminal):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, color_system=None, highlight=False)
    with show_cells(console, quiet=False) as tell:
        tell(Standing(2, 9, None, 600.0))
        if terminal:
            tell(Standing(3, 9, "PC of [linear]", 540.0))
    shown = stream.getvalue()
    if terminal:
        assert "3 of 9 cells, 0:00, about 9:00 left  PC of [linear]" in shown
    else:
        assert shown == "2 of 9 cells, 0:00, about 10:00 left\n"
