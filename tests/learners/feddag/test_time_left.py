from __future__ import annotations

import pytest

from feddag.learners import FedDAGRound
from feddag.learners.feddag.time_left import TimeLeft


def after(second: int, *, h: float, rho: float) -> FedDAGRound:
    position = {"round": second + 1, "sub_problem": second + 1, "step": second, "seconds": float(second)}
    return FedDAGRound(**position, rho=rho, alpha=0.0, h=h, edges=0)


def test_a_geometric_fall_of_h_is_extended_to_its_tolerance():
    time_left = TimeLeft(h_tol=1e-10, rho_max=1e14)
    estimates = [time_left.after(after(k, h=10.0**-k, rho=1.0)) for k in range(10)]
    assert estimates[0] is None
    assert estimates[1:] == pytest.approx([10 - k for k in range(1, 10)])


def test_a_geometric_rise_of_rho_is_extended_to_its_maximum():
    time_left = TimeLeft(h_tol=1e-10, rho_max=1e14)
    estimates = [time_left.after(after(k, h=1.0, rho=10.0**k)) for k in range(14)]
    assert estimates[1:] == pytest.approx([14 - k for k in range(1, 14)])


def test_whichever_comes_first_counts():
    time_left = TimeLeft(h_tol=1e-10, rho_max=1e4)
    time_left.after(after(0, h=1.0, rho=1.0))
    assert time_left.after(after(1, h=0.1, rho=10.0)) == pytest.approx(3)


def test_without_a_pace_there_is_no_estimate():
    time_left = TimeLeft(h_tol=1e-10, rho_max=1e14)
    time_left.after(after(0, h=1.0, rho=1.0))
    assert time_left.after(after(1, h=2.0, rho=1.0)) is None


def test_h_at_its_tolerance_leaves_half_a_sub_problem():
    time_left = TimeLeft(h_tol=1e-10, rho_max=1e14)
    time_left.after(after(0, h=1.0, rho=1.0))
    assert time_left.after(after(1, h=0.0, rho=1.0)) == 0.5
