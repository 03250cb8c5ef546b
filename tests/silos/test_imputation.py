"""Imputed values go with the rest of their rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from feddag.silos import read_silos

ROWS = 600


def complete(seed: int = 1) -> pd.DataFrame:
    """Draw a number, a bent effect of it, and two levels that depend on it."""
    rng = np.random.default_rng(seed)
    cause = rng.normal(size=ROWS)
    return pd.DataFrame(
        {
            "cause": cause,
            "effect": cause**2 + 0.2 * rng.normal(size=ROWS),
            "group": np.where(cause + 0.3 * rng.normal(size=ROWS) > 0, "high", "low"),
        }
    )


def with_gaps(frame: pd.DataFrame, share: float = 0.2) -> pd.DataFrame:
    gaps = np.random.default_rng(2).random(frame.shape) < share
    return frame.mask(gaps)


def imputed(frame: pd.DataFrame) -> pd.DataFrame:
    (silo,) = read_silos([frame], missing="impute")
    return silo.to_frame()


def test_relations_stay_as_strong_as_they_were():
    whole = complete()
    frame = with_gaps(whole)
    filled = imputed(frame)
    gap = frame.effect.isna() & frame.cause.notna()
    error = (filled.effect - filled.cause**2)[gap]
    assert error.abs().median() < 3 * (whole.effect - whole.cause**2).abs().median()
    assert filled.effect.std() > 0.9 * whole.effect.std()


def test_levels_go_with_numbers():
    frame = with_gaps(complete())
    gap = frame.group.isna() & frame.cause.notna()
    filled = imputed(frame)[gap]
    assert ((filled.cause > 0) == (filled.group == "high")).mean() > 0.7


def test_nothing_goes_wrong_where_a_column_is_nearly_empty():
    frame = complete()
    frame.loc[3:, "effect"] = np.nan
    assert not imputed(frame).isna().any().any()
