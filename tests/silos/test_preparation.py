"""Missing values and units: what is done to a table, and that it is told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import zscore

from feddag.errors import FeddagError
from feddag.federation import Task
from feddag.regression.moments import scale_site
from feddag.silos import Preparation, Silo, read_silos
from feddag.silos.variable_types import CONTINUOUS, Kind

rng = np.random.default_rng(0)
ROWS = 24


def table(scale: float = 1.0) -> pd.DataFrame:
    numbers = rng.normal(5, scale, size=(ROWS, 2))
    return pd.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "c": ["x", "y", "z", "z"] * (ROWS // 4)})


def with_gaps() -> pd.DataFrame:
    frame = table()
    frame.loc[[1, 5], "a"] = np.nan
    frame.loc[[5, 7, 8], "c"] = None
    return frame


class TestMissing:
    def test_they_are_refused_unless_asked_otherwise_in_every_column(self):
        with pytest.raises(FeddagError) as caught:
            read_silos({"north": with_gaps(), "south": table()})
        assert (
            "Site 'north', column 'a': 2 missing values, the first in row 2. "
            "Site 'north', column 'c': 3 missing values, the first in row 6. Drop or impute them"
        ) in str(caught.value)
        assert str(caught.value).count("Drop or impute them") == 1

    def test_drop_leaves_out_rows_that_have_any(self):
        frame = with_gaps()
        (silo,) = read_silos([frame], missing="drop")
        assert silo.to_frame().to_dict() == frame.dropna().reset_index(drop=True).to_dict()
        assert (silo.account.rows_read, silo.account.rows_dropped) == (ROWS, 4)
        assert silo.account.missing == {"a": 2, "c": 3}
        assert silo.account.imputed == {}
        assert str(silo.account) == "24 rows read, 4 with missing values dropped"

    def test_impute_puts_in_values_of_the_site(self):
        frame = with_gaps()
        (silo,) = read_silos([frame], missing="impute")
        filled, known = silo.to_frame(), frame.notna()
        for column in frame:
            assert filled[column][known[column]].tolist() == frame[column][known[column]].tolist()
            assert set(filled[column]) <= set(frame[column].dropna())
        assert filled.to_dict() == read_silos([frame], missing="impute")[0].to_frame().to_dict()
        assert silo.account.imputed == {"a": 2, "c": 3}
        assert str(silo.account) == "24 rows read, 5 values imputed (a 2, c 3)"

    @pytest.mark.parametrize("missing", ["error", "drop", "impute"])
    def test_a_column_without_any_value_is_refused(self, missing):
        frame = table().assign(b=np.nan)
        with pytest.raises(
            FeddagError, match=r"column 'b': all 24 values are missing\. Leave out the variable, or the"
        ):
            read_silos([frame], missing=missing)

    def test_too_few_rows_without_any_are_refused(self):
        frame = table()
        frame.loc[8:, "b"] = np.nan
        with pytest.raises(FeddagError) as caught:
            read_silos({"north": frame}, missing="drop")
        assert str(caught.value) == (
            "Site 'north': 8 of 24 rows have no missing value, which are too few. Give at least 10: impute, or leave "
            "out 'b', which 16 rows lack."
        )

    def test_a_column_that_does_not_vary_any_more_is_refused(self):
        frame = table().assign(b=[1.0] * (ROWS - 2) + [2.0, np.nan])
        frame.loc[ROWS - 2, "a"] = np.nan
        with pytest.raises(FeddagError, match="column 'b': the value is 1 in every row"):
            read_silos([frame], missing="drop")

    def test_complete_tables_are_left_as_they_are(self):
        silos = read_silos([table()], missing="drop")
        assert silos[0].account.untouched
        assert read_silos(silos, missing="impute")[0].account == silos[0].account

    def test_an_unknown_policy_is_refused(self):
        with pytest.raises(
            FeddagError, match=r"missing must be one of 'error', 'drop', 'impute'\. Got 'guess' instead"
        ):
            read_silos([table()], missing="guess")  # pyright: ignore[reportArgumentType]
        with pytest.raises(FeddagError, match="scale must be one of 'none', 'site', 'federated'"):
            Preparation(scale="big")  # pyright: ignore[reportArgumentType]


class TestScale:
    def test_by_each_sites_own_moments(self):
        frames = [table(1.0), table(30.0)]
        for frame, silo in zip(frames, read_silos(frames, scale="site"), strict=True):
            np.testing.assert_allclose(silo.values[:, :2], zscore(frame[["a", "b"]].to_numpy()))
            assert silo.account.scale == "site"

    def test_by_those_of_all_sites_as_if_rows_were_pooled(self):
        frames = [table(1.0), table(30.0).head(12), table(0.1)]
        silos = read_silos(frames, scale="federated")
        pooled = pd.concat(frames)[["a", "b"]].to_numpy()
        np.testing.assert_allclose(np.concatenate([silo.values[:, :2] for silo in silos]), zscore(pooled), rtol=1e-9)
        assert {silo.account.scale for silo in silos} == {"federated"}

    def test_a_large_offset_costs_no_digits(self):
        frames = [table(), table()]
        away = [frame.assign(a=frame["a"] + 2**20) for frame in frames]
        exact = [frame.assign(a=frame["a"] - 2**20) for frame in away]
        for one, other in zip(read_silos(exact, scale="federated"), read_silos(away, scale="federated"), strict=True):
            np.testing.assert_allclose(one.values, other.values, atol=1e-8)

    def test_discrete_columns_stay_and_are_not_sent(self):
        (silo,) = read_silos([table()], scale="federated")
        assert set(silo.values[:, 2]) == {0, 1, 2}
        site = scale_site(Silo("north", ("a", "b"), np.eye(10)[:, :2], (CONTINUOUS, Kind("binary", (0, 1)))))
        first = site.answer(Task("scale.sums", 1, {}, {}, (0,))).arrays
        assert {name: array.shape for name, array in first.items()} == {"rows": (), "sum": (1,)}

    def test_learners_take_prepared_silos_as_they_are(self):
        silos = read_silos([with_gaps(), table()], missing="drop", scale="site")
        for before, after in zip(silos, read_silos(silos), strict=True):
            assert before.account == after.account
            np.testing.assert_array_equal(before.values, after.values)
