"""How long a run of FedDAG will still take, judged by its pace so far."""

from __future__ import annotations

import math

from feddag.learners.feddag.history import FedDAGRound


class TimeLeft:
    """A run ends when h has fallen to `h_tol`, or ρ has risen to `rho_max`, whichever comes first.

    Both move geometrically from one sub-problem to the next, so each logarithm is taken to go on at its mean
    pace. Of h the lowest value so far counts: it is an average over few random masks, and jumps. The sub-problem under
    way ends in any case, on average in half its time.
    """

    def __init__(self, h_tol: float, rho_max: float) -> None:
        self._h_tol = h_tol
        self._rho_max = rho_max
        self._first: FedDAGRound | None = None
        self._lowest_h = math.inf

    def after(self, round_: FedDAGRound) -> float | None:
        """Return the seconds left; None where there is no pace yet."""
        first = self._first = self._first or round_
        self._lowest_h = min(self._lowest_h, round_.h)
        elapsed = round_.seconds - first.seconds
        if round_.sub_problem == first.sub_problem:
            return None
        seconds = min(
            _until(_log(first.h), _log(self._lowest_h), _log(self._h_tol), elapsed),
            _until(_log(first.rho), _log(round_.rho), _log(self._rho_max), elapsed),
        )
        per_sub_problem = elapsed / (round_.sub_problem - first.sub_problem)
        return max(seconds, per_sub_problem / 2) if math.isfinite(seconds) else None


def _log(value: float) -> float:
    return math.log(max(value, 1e-300))


def _until(start: float, now: float, end: float, elapsed: float) -> float:
    """Return the seconds until a quantity is at `end`, if it goes on as it came from `start` to `now`."""
    done, missing = now - start, end - now
    if missing * (end - start) <= 0:
        return 0.0
    return missing / done * elapsed if done * missing > 0 else math.inf
