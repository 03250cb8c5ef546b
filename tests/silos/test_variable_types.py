"""What columns stand for: declared by a study, or inferred; all sites alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from feddag.errors import FeddagError
from feddag.learners.factory import make_learner
from feddag.silos import Silo, read_silos
from feddag.silos.coding import MOST_LEVELS, code_column
from feddag.silos.variable_types import CONTINUOUS, Kind, Variable
from refusals import refusal

rng = np.random.default_rng(0)
ROWS = 12
ORDERED = Kind("ordinal", ("lo", "mid", "hi"))


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame({"x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS), **columns})


def cycle(*values) -> list:
    return [values[k % len(values)] for k in range(ROWS)]


class TestInference:
    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ((0, 1), CONTINUOUS),
            ((1, 2, 3), CONTINUOUS),
            (("1", "2"), CONTINUOUS),
            ((True, False), Kind("binary", (0, 1))),
            (("yes", "no"), Kind("binary", ("no", "yes"))),
            (("up", "down", " up", "flat"), Kind("categorical", ("down", "flat", "up"))),
        ],
    )
    def test_only_texts_and_booleans_are_discrete(self, values, kind):
        (silo,) = read_silos([table(z=cycle(*values))])
        assert silo.kinds == (CONTINUOUS, CONTINUOUS, kind)

    def test_levels_are_those_of_all_sites_in_sorted_order(self):
        north, south = read_silos([table(z=cycle("b", "d")), table(z=cycle("a", "c"))])
        assert north.kinds[2] == south.kinds[2] == Kind("categorical", ("a", "b", "c", "d"))
        assert north.values[:2, 2].tolist() == [1, 3]
        assert south.values[:2, 2].tolist() == [0, 2]
        assert south.to_frame()["z"].tolist() == cycle("a", "c")

    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            (pd.Categorical(cycle(3, 1, 2)), Kind("categorical", (1, 2, 3))),
            (pd.Categorical(cycle(0, 1)), Kind("binary", (0, 1))),
            (pd.Categorical(cycle(True, False)), Kind("binary", (0, 1))),
            (pd.Categorical(cycle(1.0, 2.5, 7.0)), Kind("categorical", (1, 2.5, 7))),
            (pd.Categorical(cycle("b", "a", "c")), Kind("categorical", ("a", "b", "c"))),
            (pd.Categorical(cycle(1, 2, 4), [4, 2, 1, 9], ordered=True), Kind("ordinal", (4, 2, 1))),
            (pd.Categorical(cycle("lo", "hi", "mid"), ["lo", "mid", "hi"], ordered=True), ORDERED),
        ],
    )
    def test_a_category_of_pandas_has_the_levels_that_occur(self, values, kind):
        (silo,) = read_silos([table(z=values)])
        assert silo.kinds[2] == kind
        assert [kind.levels[int(code)] for code in silo.values[:, 2]] == list(values)

    def test_levels_that_are_neither_numbers_nor_texts_are_named_by_their_text(self):
        (silo,) = read_silos([table(z=pd.cut(np.arange(ROWS), [-1, 3, 7, 11]))])
        assert silo.kinds[2] == Kind("ordinal", ("(-1, 3]", "(3, 7]", "(7, 11]"))
        assert silo.values[:, 2].tolist() == [0] * 4 + [1] * 4 + [2] * 4

    def test_what_is_a_category_at_one_site_is_one_at_all(self):
        categories, numbers = pd.Categorical(cycle(1, 2)), cycle(2, 3)
        for silos in ([table(z=categories), table(z=numbers)], [table(z=numbers), table(z=categories)]):
            assert {silo.kinds[2] for silo in read_silos(silos)} == {Kind("categorical", (1, 2, 3))}

    def test_sites_agree_on_the_order_of_categories_that_they_share(self):
        upwards, fewer, downwards = (
            table(z=pd.Categorical([*cycle(*levels)], list(levels), ordered=True))
            for levels in ((1, 2, 3), (2, 3), (3, 2, 1))
        )
        assert {silo.kinds[2] for silo in read_silos([fewer, upwards])} == {Kind("ordinal", (1, 2, 3))}
        assert refusal(read_silos, [upwards, downwards]) == (
            "Column 'z': the order of its categories is 1 < 2 < 3 at one site and 3 < 2 < 1 at another. Give the sites "
            "one order, or declare the levels: kinds={...}."
        )

    def test_a_silo_comes_back_from_its_frame(self):
        kinds = {"z": "ordinal", "w": "categorical"}
        (silo,) = read_silos([table(z=cycle(1, 3, 2), w=cycle(7, 5))], kinds=kinds)
        assert read_silos([silo.to_frame()])[0].kinds[2:] == (Kind("ordinal", (1, 2, 3)), Kind("binary", (5, 7)))
        assert read_silos([silo.to_frame()])[0].values.tolist() == silo.values.tolist()

    def test_a_text_among_numbers_is_a_mistake(self):
        assert "'high' in row 1 is not a number" in refusal(read_silos, [table(z=cycle("high", "1", "2"))])

    def test_many_texts_are_no_levels(self):
        frame = pd.concat([table()] * 2, ignore_index=True)
        frame["z"] = [f"name {k}" for k in range(2 * ROWS)]
        assert 2 * ROWS > MOST_LEVELS
        assert "'name 0' in row 1 is not a number" in refusal(read_silos, [frame])

    def test_silos_keep_their_kinds(self):
        first = read_silos([table(z=cycle("a", "b", "c"))])
        again = read_silos(first)
        assert again[0].kinds == first[0].kinds
        assert again[0].digest() == first[0].digest()


class TestDeclaredByKinds:
    words = pd.Categorical(cycle("lo", "hi", "mid"), ["lo", "mid", "hi"], ordered=True)

    @pytest.mark.parametrize(
        ("values", "declared", "kind"),
        [
            (cycle(1, 2, 4), "ordinal", Kind("ordinal", (1, 2, 4))),
            (cycle(1, 2, 4), "categorical", Kind("categorical", (1, 2, 4))),
            (cycle(1, 2), "binary", Kind("binary", (1, 2))),
            (cycle(0.0, 1.0), "binary", Kind("binary", (0, 1))),
            (cycle("1", "2", "3"), "ordinal", Kind("ordinal", ("1", "2", "3"))),
            (pd.Categorical(cycle(1, 2, 4)), "continuous", CONTINUOUS),
            (words, "ordinal", ORDERED),
            (cycle("lo", "hi", "mid"), {"type": "ordinal", "levels": ["lo", "mid", "hi"]}, ORDERED),
            (cycle(1, 2), {"type": "categorical", "levels": (2, 1, np.int64(0))}, Kind("categorical", (2, 1, 0))),
        ],
    )
    def test_a_column_is_what_it_is_declared_to_be(self, values, declared, kind):
        (silo,) = read_silos([table(z=values)], kinds={"z": declared})
        assert silo.kinds == (CONTINUOUS, CONTINUOUS, kind)
        assert silo.digest() == read_silos([silo])[0].digest()

    def test_levels_are_those_of_all_sites(self):
        silos = read_silos([table(z=cycle(1, 5)), table(z=cycle(3, 4))], kinds={"z": "ordinal"})
        assert {silo.kinds[2] for silo in silos} == {Kind("ordinal", (1, 3, 4, 5))}

    @pytest.mark.parametrize(
        ("declared", "message"),
        [
            ({"w": "ordinal"}, "kinds has 'w', which is not a column. There are 'x', 'y', 'z'."),
            (["z"], "kinds must be a mapping from columns to types. Got ['z'] instead."),
            (
                {"z": "nominal"},
                "kinds['z'] must be one of 'continuous', 'binary', 'ordinal', 'categorical'",
            ),
            (
                {"z": {"levels": ["a"]}},
                "kinds['z'] must be one of 'continuous', 'binary', 'ordinal', 'categorical'",
            ),
            (
                {"z": {"type": "ordinal", "order": []}},
                "kinds['z'] has 'order'. It takes type and levels; a",
            ),
            ({"z": "ordinal"}, "kinds['z']: texts have no order of their own, and these occur: 'a', 'b', 'c'. Declare"),
            ({"z": "binary"}, "kinds['z']: a binary variable has two levels, and 3 occur: 'a', 'b', 'c'. Declare it"),
            ({"z": "continuous"}, "Site 'site-01', column 'z': 'a' in row 1 is not a number."),
            ({"z": {"type": "categorical", "levels": "abc"}}, "kinds['z']['levels'] must be a list of different texts"),
            ({"z": {"type": "binary", "levels": ["a"]}}, "kinds['z']['levels'] must be two. Got ['a'] instead."),
            (
                {"z": {"type": "ordinal", "levels": ["a", "b"]}},
                "Site 'site-01', column 'z': 'c' in row 3 is not a level of the ordinal variable. Its levels are",
            ),
        ],
    )
    def test_what_contradicts_the_tables_is_refused(self, declared, message):
        with pytest.raises(FeddagError) as caught:
            read_silos([table(z=cycle("a", "b", "c"))], kinds=declared)
        assert str(caught.value).startswith(message)

    def test_dates_are_no_levels(self):
        dates = table(z=pd.date_range("2020-01-01", periods=ROWS))
        with pytest.raises(FeddagError, match=r"Column 'z': Timestamp\(.*\) is neither a text nor a number"):
            read_silos([dates], kinds={"z": "categorical"})

    def test_the_kinds_of_a_silo_are_known(self):
        with pytest.raises(FeddagError, match="Site 'site-01' is a Silo, whose kinds are known"):
            read_silos(read_silos([table(z=cycle(1, 2))]), kinds={"z": "binary"})


class TestDeclared:
    ordinal = Variable("slope", Kind("ordinal", ("up", "flat", "down")), missing=("unknown", -9))

    def code(self, values, variable: Variable) -> list:
        return code_column("Here", pd.Series(values), variable).tolist()

    def test_levels_are_numbered_in_their_order(self):
        assert self.code(["down", "up", "flat "], self.ordinal) == [2, 0, 1]

    @pytest.mark.parametrize("values", [[4, 1], [4.0, 1.0], ["4", "1"], ["4.0", "1"], pd.Categorical([4, 1])])
    def test_a_number_is_the_same_in_every_spelling(self, values):
        assert self.code(values, Variable("cp", Kind("categorical", (1, 2, 3, 4)))) == [3, 0]
        assert self.code(values, Variable("cp", Kind("categorical", ("1", "2", "3", "4")))) == [3, 0]

    @pytest.mark.parametrize("levels", [(0, 1), ("false", "true"), ("False", "True")])
    @pytest.mark.parametrize("dtype", [bool, object])
    def test_booleans_are_levels(self, levels, dtype):
        assert self.code(np.array([True, False], dtype=dtype), Variable("sex", Kind("binary", levels))) == [1, 0]

    def test_values_may_stand_for_missing_ones(self):
        numbers = code_column("Here", pd.Series(["up", "unknown", None, "-9"]), self.ordinal)
        np.testing.assert_array_equal(numbers, [0, np.nan, np.nan, np.nan])
        numbers = code_column("Here", pd.Series([1.5, 0, 3]), Variable("chol", missing=(0,)))
        np.testing.assert_array_equal(numbers, [1.5, np.nan, 3])

    def test_a_value_that_is_no_level_is_refused(self):
        with pytest.raises(FeddagError) as caught:
            self.code(["up", "sideways"], self.ordinal)
        assert str(caught.value) == (
            "Here: 'sideways' in row 2 is not a level of the ordinal variable. Its levels are 'up', 'flat', 'down': "
            "correct the value, or the levels."
        )


class TestAgreement:
    def test_every_site_and_column_that_differs_is_told(self):
        numbers, words = table(z=rng.normal(size=ROWS)), table(z=cycle("a", "b", "c"))
        message = refusal(
            read_silos, {"north": numbers, "south": read_silos([words])[0], "east": numbers.rename(columns={"y": "Y"})}
        )
        assert message == (
            "Site 'south' has of another kind 'z' (categorical (a, b, c), not continuous), compared with site 'north'. "
            "Site 'east' lacks 'y' and has besides 'Y', compared with site 'north'. "
            "Give every site the same columns."
        )

    def test_all_that_is_wrong_with_all_tables_is_told_at_once(self):
        message = refusal(read_silos, {"north": table(x=1.0, z=np.inf), "south": table(y=2.0)})
        assert "Site 'north', column 'z': inf in row 1 is not finite" in message
        assert "Site 'south', column 'y': the value is 2 in every row" in message

    def test_a_silo_holds_the_numbers_of_its_levels(self):
        values = np.column_stack([rng.normal(size=ROWS), cycle(0.0, 1.0, 2.0)])
        silo = Silo("north", ("x", "z"), values, (CONTINUOUS, Kind("binary", (0, 1))))
        assert "a binary column holds the numbers of its 2 levels, from 0. Code it so." in refusal(read_silos, [silo])

    @pytest.mark.parametrize("levels", [("f", "m"), (True, False)])
    def test_one_level_will_do_at_a_site_but_not_at_all(self, levels):
        constant, other = table(z=cycle(levels[0])), table(z=cycle(levels[1]))
        assert [set(silo.values[:, 2]) for silo in read_silos([constant, other])] in ([{0}, {1}], [{1}, {0}])
        assert (
            f"Column 'z': the value is {levels[0] if levels[0] == 'f' else 1} in every row of every site."
            in refusal(read_silos, [constant, constant])
        )


class TestLearners:
    silos = (table(z=cycle("a", "b", "c"), w=cycle(True, False)),)

    @pytest.mark.parametrize("method", ["notears", "cam"])
    def test_a_learner_refuses_kinds_that_it_does_not_take_and_names_those_that_do(self, method):
        learner = make_learner(method)
        with pytest.raises(FeddagError) as caught:
            learner.check(self.silos)
        message = str(caught.value)
        assert "learns from continuous variables, and there are 'z' (categorical), 'w' (binary). " in message
        assert message.endswith("eclare them continuous (kinds, or a study), or leave them out.")

    def test_one_that_takes_them_is_suggested_and_learns(self, toy, monkeypatch):
        from toy_learner import Toy  # noqa: PLC0415

        monkeypatch.setattr(Toy, "kinds", frozenset({"continuous", "binary", "categorical"}))
        assert make_learner(toy).check(self.silos)[0].kinds[2].name == "categorical"
        with pytest.raises(FeddagError, match=r"Choose the method (.+ or )?toy( or .+)?, declare them continuous"):
            make_learner("notears").check(self.silos)
