"""A study: parsed, known by its digest, refused by file, key, value and remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from feddag.errors import FeddagError
from feddag.silos.variable_types import CONTINUOUS, Kind, Variable
from feddag.study import Study, read_knowledge
from feddag.study.terms import DifferentialPrivacy
from refusals import refusal

KEY = "0123456789abcdef" * 4
TEXT = f"""
name = "heart"
[variables]
sex = {{ type = "binary" }}
age = "continuous"
chol = {{ type = "continuous", unit = "mg/dl", missing = [0] }}
cp = {{ type = "categorical", levels = [1, 2, 3, 4] }}
slope = {{ type = "ordinal", levels = ["up", "flat", "down"] }}
[method]
name = "search"
regime = "federated"
parameters = {{ sharing = "graph", seed = 1 }}
[data]
missing = "drop"
scale = "federated"
[knowledge]
required = [["age", "chol"]]
forbidden = []
tiers = [["age", "sex"], ["chol"]]
exogenous = ["age"]
[sites.lyon]
[sites.basel]
columns = {{ age = "AGE_YEARS" }}
identity = "{KEY}"
[sites.bern]
[federation]
quorum = 2
timeout = 60
[privacy]
secure_sum = true
[privacy.differential]
epsilon = 8
rounds = 60
"""
STUDY = Study.parse(TEXT)
MINIMAL = """
name = "s"
[variables]
a = "continuous"
b = "continuous"
[method]
name = "search"
"""


def refused(text: str) -> str:
    return refusal(Study.parse, text, "study.toml")


class TestContent:
    def test_variables_stand_in_the_order_of_their_names(self):
        assert STUDY.variables == (
            Variable("age", CONTINUOUS),
            Variable("chol", CONTINUOUS, "mg/dl", (0,)),
            Variable("cp", Kind("categorical", (1, 2, 3, 4))),
            Variable("sex", Kind("binary", (0, 1))),
            Variable("slope", Kind("ordinal", ("up", "flat", "down"))),
        )
        assert STUDY.columns == ("age", "chol", "cp", "sex", "slope")

    def test_all_else_is_there(self):
        assert (STUDY.name, STUDY.method.name, STUDY.method.regime) == ("heart", "search", "federated")
        assert (STUDY.preparation.missing, STUDY.preparation.scale) == ("drop", "federated")
        assert [site.name for site in STUDY.sites] == ["basel", "bern", "lyon"]
        assert STUDY.site("basel").identity == KEY
        assert STUDY.site_columns("basel") == {name: "AGE_YEARS" if name == "age" else name for name in STUDY.columns}
        assert (STUDY.federation.quorum, STUDY.federation.timeout) == (2, 60.0)
        assert STUDY.privacy.secure_sum
        assert STUDY.privacy.differential == DifferentialPrivacy(epsilon=8.0, rounds=60, delta=1e-5, clip=1.0)

    @pytest.mark.parametrize(
        ("sites", "quorum", "secure_sum"),
        [(0, 3, True), (1, 1, False), (2, 2, False), (3, 3, True), (5, 3, True), (8, 5, True)],
    )
    def test_the_quorum_is_more_than_half_and_at_least_three(self, sites, quorum, secure_sum):
        study = Study.parse(MINIMAL + "".join(f"[sites.s{k}]\n" for k in range(sites)))
        assert study.federation.quorum == quorum
        assert study.privacy.secure_sum == secure_sum

    def test_the_learner_has_parameters_and_knowledge(self):
        learner = STUDY.learner()
        assert type(learner).__name__ == "EvidenceSearch"
        kept = {name: learner.get_params()[name] for name in ("seed", "required", "tiers", "exogenous")}
        assert kept == {
            "seed": 1,
            "required": [["age", "chol"]],
            "tiers": [["age", "sex"], ["chol"]],
            "exogenous": ["age"],
        }

    def test_a_regime_is_one_of_the_method(self):
        study = Study.parse(MINIMAL + 'regime = "voting"\n')
        assert type(study.learner()).__name__ == "InRegime"


class TestMerge:
    LEVELS = "levels = [1, 2, 3, 4]"

    def merged(self, merge):
        return Study.parse(TEXT.replace(self.LEVELS, f"{self.LEVELS}, merge = {{ {merge} }}", 1))

    def test_merged_levels_are_one_where_the_first_of_them_was(self):
        study = self.merged("other = [4, 2]")
        assert study.variables[2] == Variable("cp", Kind("categorical", (1, "other", 3)), merge={"other": (2, 4)})
        table = pd.DataFrame({name: np.arange(12.0) for name in ("age", "chol")}).assign(
            chol=np.arange(1.0, 13), sex=[0, 1] * 6, slope=["up", "flat"] * 6, cp=["1", 2, 3, 4.0] * 3
        )
        silo = study.silo("lyon", table)
        assert silo.values[:4, 2].tolist() == [0, 1, 2, 1]
        assert silo.to_frame()["cp"][:4].tolist() == [1, "other", 3, "other"]
        np.testing.assert_array_equal(study.silo("lyon", silo).values, silo.values)

    def test_a_merge_is_part_of_what_sites_agree_on(self):
        study = self.merged("other = [4, 2]")
        assert study.digest != STUDY.digest
        assert study.digest == self.merged("other = [2, 4]").digest
        assert Study.of(study.document()) == study
        assert Study.of(study.document()).digest == study.digest

    def test_range_transform_and_label_are_part_of_what_sites_agree_on(self):
        more = 'age = { type = "continuous", range = [0, 120], transform = "log", label = "Age at visit" }'
        study = Study.parse(TEXT.replace('age = "continuous"', more))
        assert study.digest != Study.parse(TEXT).digest
        assert Study.of(study.document()) == study
        age = study.variables[study.columns.index("age")]
        assert (age.range, age.transform, age.label) == ((0.0, 120.0), "log", "Age at visit")

    def test_a_value_outside_the_range_is_refused_by_site_column_and_value(self):
        study = Study.parse(
            'name = "n"\n[variables]\nage = { type = "continuous", range = [0, 120] }\nb = "continuous"\n'
            '[method]\nname = "notears"\n[sites.basel]\ncolumns = { age = "YEARS" }'
        )
        frame = pd.DataFrame({"YEARS": [30.0, 31, 999] * 10, "b": np.arange(30.0)})
        with pytest.raises(
            FeddagError, match=r"Site 'basel', column 'age': 999 in row 3, and 9 more values, is outside"
        ):
            study.silo("basel", frame)
        frame["YEARS"] = frame["YEARS"].replace(999, 80)
        assert study.silo("basel", frame).values[:, 0].max() == 80

    def test_logarithms_are_taken_and_what_has_none_is_refused(self):
        study = Study.parse(
            'name = "n"\n[variables]\na = { type = "continuous", transform = "log", missing = [-1] }\n'
            'b = "continuous"\n[method]\nname = "notears"\n[data]\nmissing = "drop"'
        )
        frame = pd.DataFrame({"a": [-1.0, *np.arange(1.0, 30)], "b": np.arange(30.0)})
        np.testing.assert_allclose(study.silo("x", frame).values[:, 0], np.log(np.arange(1.0, 30)))
        frame.loc[4, "a"] = 0
        with pytest.raises(FeddagError, match=r"column 'a': 0 in row 5 has no logarithm"):
            study.silo("x", frame)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{ type = "binary", range = [0, 1] }', "range: a binary variable has levels, and no numbers"),
            ('{ type = "continuous", range = [5, 1] }', "must be two numbers, the smaller one first"),
            ('{ type = "continuous", transform = "sqrt" }', "transform must be"),
            ('{ type = "continuous", range = [-5, 0], transform = "log" }', "range has no value with a logarithm"),
        ],
    )
    def test_a_range_or_a_transform_that_cannot_be_is_refused(self, text, message):
        assert message in refused(TEXT.replace('age = "continuous"', f"age = {text}"))

    def test_a_study_that_begins_anew_has_another_digest_and_no_noise(self):
        plain = TEXT[: TEXT.index("[privacy")]
        assert Study.parse(f"attempt = 1\n{plain}").digest == Study.parse(plain).digest
        again = Study.parse(f"attempt = 2\n{plain}")
        assert again.digest != Study.parse(plain).digest
        assert Study.of(again.document()) == again
        assert "attempt cannot be 2 where sums have noise" in refused(f"attempt = 2\n{TEXT}")

    def test_neighbours_of_an_order_may_be_merged_under_the_name_of_one(self):
        text = TEXT.replace('"down"]', '"down"], merge = { down = ["flat", "down"] }')
        assert Study.parse(text).variables[4].kind == Kind("ordinal", ("up", "down"))
        assert "must be neighbours" in refused(text.replace('["flat", "down"] }', '["up", "down"] }'))

    @pytest.mark.parametrize(
        ("merge", "message"),
        [
            ("other = [1]", "variables.cp.merge.other must be a list of two or more of its levels"),
            ("other = [1, 9]", "each merged once. Got [1, 9] instead"),
            ("a = [1, 2], b = [2, 3]", "variables.cp.merge.b must be a list of two or more of its levels"),
            ("3 = [1, 2]", "variables.cp.merge.3: another level has that name. Choose a new one"),
            ("a = [1, 2], 1 = [3, 4]", "another level has that name"),
            ("other = [1, 2, 3, 4]", "leaves one level. Merge fewer, or leave the variable out"),
            ("other = 1", "variables.cp.merge.other must be a list"),
        ],
    )
    def test_what_cannot_be_merged_is_refused(self, merge, message):
        assert message in refused(TEXT.replace(self.LEVELS, f"{self.LEVELS}, merge = {{ {merge} }}", 1))

    def test_two_levels_or_none_are_not_merged(self):
        text = TEXT.replace('type = "binary"', 'type = "binary", merge = { all = [0, 1] }')
        assert "a binary variable has no levels to merge" in refused(text)


class TestDigest:
    def test_comments_layout_and_order_do_not_matter(self):
        head, variables, rest = MINIMAL.partition("[variables]")
        variables, method, rest = (variables + rest).partition("[method]")
        variables = "[variables]\n  b = { type = 'continuous' }\na = \"continuous\"\n[sites]"
        other = f"{head}# a note\n{method}{rest}\n\n{variables}"
        assert Study.parse(other).digest == Study.parse(MINIMAL).digest
        assert len(STUDY.digest) == 64

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("seed = 1", "seed = 2"),
            ("mg/dl", "mmol/l"),
            ("[1, 2, 3, 4]", "[2, 1, 3, 4]"),
            ("AGE_YEARS", "AGE"),
            ("= 60", "= 61"),
        ],
    )
    def test_everything_else_does(self, old, new):
        assert Study.parse(TEXT.replace(old, new)).digest != STUDY.digest

    def test_whether_the_graph_is_assessed_does(self):
        on, off = (Study.parse(f"{MINIMAL}[trust]\nassess = {each}\n") for each in ("true", "false"))
        assert on.trust.assess
        assert off.digest == Study.parse(MINIMAL).digest != on.digest

    def test_the_document_is_the_study(self):
        again = Study.of(STUDY.document())
        assert again == STUDY
        assert again.digest == STUDY.digest


class TestRefusals:
    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (
                'name = "heart"',
                'name = "Heart!"',
                "name must be a name of lower-case letters, digits and hyphens. Got 'Heart!'",
            ),
            ('name = "heart"', 'nmae = "heart"', "nmae is not known. There are "),
            ('name = "heart"', "", "name is missing. Give a name of lower-case letters"),
            (
                'age = "continuous"',
                'age = "real"',
                "variables.age must be one of 'continuous', 'binary', 'ordinal', 'categorical'",
            ),
            (
                'type = "binary"',
                'typ = "binary"',
                "variables.sex.typ is not known. There are type, levels, merge, unit, missing, label, range, "
                "transform. Did you mean 'type'?",
            ),
            (
                ", levels = [1, 2, 3, 4]",
                "",
                "variables.cp.levels must be at least two: all sites code them alike. Got []",
            ),
            (
                "levels = [1, 2, 3, 4]",
                'levels = [1, "1", 2]',
                "variables.cp.levels must be a list of different texts or numbers",
            ),
            (
                'type = "binary"',
                'type = "binary", levels = [1, 2, 3]',
                "variables.sex.levels must be two. Got [1, 2, 3]",
            ),
            (
                'unit = "mg/dl"',
                "levels = [1, 2]",
                "variables.chol.levels must be left out: a continuous variable has none",
            ),
            ('name = "search"', 'name = "serch"', "Got 'serch' instead. Did you mean 'search'?"),
            (
                '"federated"\nparam',
                '"together"\nparam',
                "method.regime must be one of 'federated', 'all', 'separate', 'voting'",
            ),
            (
                'missing = "drop"',
                'missing = "ignore"',
                "data.missing must be one of 'error', 'drop', 'impute'. Got 'ignore'",
            ),
            (
                'scale = "federated"',
                'scael = "none"',
                "data.scael is not known. There are missing, scale. Did you mean 'scale'?",
            ),
            (
                'required = [["age", "chol"]]',
                'required = ["age"]',
                "knowledge.required must be a list of (cause, effect) pairs",
            ),
            ('exogenous = ["age"]', 'exogenous = ["Age"]', "knowledge: exogenous names 'Age', which is not a variable"),
            ("forbidden = []", 'forbidden = [["age", "chol"]]', "knowledge: "),
            ('exogenous = ["age"]', 'exogenous = ["chol"]', "knowledge: "),
            ("columns = { age", "columns = { aeg", "sites.basel.columns.aeg is not a variable. There are"),
            (
                '"AGE_YEARS"',
                '"sex"',
                "sites.basel.columns has 'sex' for 2 variables. Give each variable its own column.",
            ),
            (
                KEY,
                "abc",
                "sites.basel.identity must be an Ed25519 public key of 64 hexadecimal digits. Got 'abc' instead.",
            ),
            (
                "quorum = 2",
                "quorum = 4",
                "federation.quorum must be a whole number from 2 to the number of sites, 3. Got 4",
            ),
            ("quorum = 2", "quorum = 1", "federation.quorum must be a whole number from 2"),
            ("[sites.bern]\n", "", "privacy.secure_sum needs at least 3 sites, and the study names 2. Set it to false"),
            ("epsilon = 8", "epsilon = 0", "privacy.differential.epsilon must be a positive number. Got 0 instead."),
            ("epsilon = 8\n", "", "privacy.differential.epsilon is missing. Give a positive number."),
            (
                "rounds = 60",
                "rounds = 60\n[trust]\nassess = true",
                "trust.assess cannot be asked for beside privacy.differential: its sums have no noise",
            ),
            ("name =", "name ", "study.toml is not TOML: "),
        ],
    )
    def test_a_mistake_is_told_by_file_key_value_and_remedy(self, old, new, message):
        assert old in TEXT
        found = refused(TEXT.replace(old, new, 1))
        assert found.startswith("study.toml")
        assert message in found

    def test_one_variable_is_no_graph(self):
        assert refused(MINIMAL.replace('b = "continuous"', "")) == (
            "study.toml: variables must be at least 2. Got 1 instead."
        )

    def test_a_required_cycle_is_refused(self):
        text = MINIMAL + '[knowledge]\nrequired = [["a", "b"], ["b", "a"]]\n'
        assert refused(text).startswith("study.toml: knowledge: ")

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(FeddagError, match=r"none\.toml does not exist\. Check the path, or write one with"):
            Study.load(tmp_path / "none.toml")

    def test_a_method_that_cannot_obey_knowledge_is_refused_with_those_that_can(self):
        text = MINIMAL.replace("search", "cam") + '[knowledge]\nrequired = [["a", "b"]]\n'
        with pytest.raises(
            FeddagError, match=r"study\.toml: The method 'cam' cannot obey knowledge \(required\).*search"
        ):
            Study.parse(text, "study.toml").learner()

    def test_a_parameter_that_the_method_does_not_take_or_accept_is_refused(self):
        for parameters, message in (("{ sede = 1 }", "does not take 'sede'"), ("{ seed = -1 }", "seed must be")):
            with pytest.raises(FeddagError, match=rf"^study\.toml: .*{message}"):
                Study.parse(f"{MINIMAL}parameters = {parameters}\n", "study.toml").learner()

    def test_an_unknown_site_is_refused(self):
        with pytest.raises(
            FeddagError, match=r"there is no site 'basle'\. It has basel, bern, lyon\. Did you mean 'basel'"
        ):
            STUDY.site_columns("basle")


class TestTables:
    rng = np.random.default_rng(0)

    def table(self, **changed) -> pd.DataFrame:
        rows = 16
        numbers = self.rng.normal(50, 10, size=(rows, 2))
        frame = pd.DataFrame(
            {
                "patient": [f"name {k}" for k in range(rows)],
                "slope": ["up", "down", "flat", "up"] * 4,
                "cp": [1, 2, 3, 4] * 4,
                "sex": [True, False] * 8,
                "chol": numbers[:, 0],
                "age": numbers[:, 1],
            }
        )
        return frame.assign(**changed)

    def test_sites_agree_whatever_the_order_and_names_of_their_columns(self, tmp_path):
        basel, lyon = (
            self.table().rename(columns={"age": "AGE_YEARS"}),
            self.table()[["age", "sex", "cp", "slope", "chol"]],
        )
        basel.to_csv(tmp_path / "basel.csv", index=False)
        silos = STUDY.silos({"basel": tmp_path / "basel.csv", "lyon": lyon})
        assert {silo.columns for silo in silos} == {STUDY.columns}
        assert {silo.kinds for silo in silos} == {tuple(variable.kind for variable in STUDY.variables)}
        assert silos[0].values[:4, 4].tolist() == [0, 2, 1, 0]
        ages = np.concatenate([silo.values[:, 0] for silo in silos])
        assert abs(ages.mean()) < 1e-12  # scaled by the moments of all
        assert silos[0].account.scale == "federated"

    def test_what_a_site_reads_alone_is_not_yet_scaled_by_all(self):
        table = self.table(chol=[0.0] * 4 + list(self.rng.normal(200, 10, size=12)))
        silo = STUDY.silo("lyon", table)
        assert silo.account.scale == "none"
        assert (silo.account.missing, silo.account.rows_dropped, silo.rows) == ({"chol": 4}, 4, 12)

    def test_every_disagreement_of_every_site_is_told(self):
        tables = {
            "basel": self.table().drop(columns=["cp", "sex"]),
            "lyon": self.table(cp=9, slope="steep"),
            "bern": self.table(),
            "paris": self.table(),
        }
        with pytest.raises(FeddagError) as caught:
            STUDY.silos(tables)
        message = str(caught.value)
        assert (
            "Site 'basel': the table lacks 'AGE_YEARS', 'cp', 'sex'. It has 'patient', 'slope', 'chol', 'age'"
            in message
        )
        assert "Site 'lyon', column 'cp': 9 in row 1 is not a level of the categorical variable" in message
        assert "Site 'lyon', column 'slope': 'steep' in row 1 is not a level" in message
        assert "there is no site 'paris'" in message
        assert "bern'," not in message


def test_a_file_of_knowledge_has_the_keys_of_the_table(tmp_path):
    path = tmp_path / "knowledge.toml"
    path.write_text('required = [["a", "b"]]\nforbidden = []\nexogenous = ["a"]\n', encoding="utf-8")
    assert read_knowledge(path) == {"required": [["a", "b"]], "exogenous": ["a"]}
    path.write_text("requird = []\n", encoding="utf-8")
    with pytest.raises(FeddagError, match=r"knowledge\.toml: requird is not known.*Did you mean 'required'"):
        read_knowledge(path)
