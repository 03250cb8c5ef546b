"""A category that one patient has: a server that sums honestly learned all of that patient's values from it."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hostile_server import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from feddag.deployment.cells import check_cells
from feddag.deployment.server import check_graph, learn
from feddag.deployment.site import StudyTable, check_site
from feddag.deployment.study_tasks import federated_learner, study_tasks
from feddag.errors import FeddagError
from feddag.federation import InProcess
from feddag.federation.policy import SHARING, Policy
from feddag.learners.moments import FromMoments
from feddag.learners.search.mixed import MixedMechanisms
from feddag.learners.sortnregress import SortnRegress
from feddag.regression.features import ContrastFeatures
from feddag.silos import Silo
from feddag.silos.variable_types import CONTINUOUS, KINDS, Kind
from feddag.study import Study
from feddag.trust import assess as assess_here

SITES, PATIENT = ("a", "b", "c"), 17
SEARCH = 'name = "search"\nparameters = { restarts = 0, seed = 1 }'
MERGED = 'merge = { other = ["r", "x"] }'
NUMBERS = ("age", "bmi", "pressure")


def tables(rare="x"):
    """Clinical tables of three sites; at the second, the patient alone has the ward `rare`."""
    draw, found = np.random.default_rng(5), {}
    for site in SITES:
        age = draw.normal(55, 14, 150).round(1)
        bmi = (22 + 0.06 * age + draw.normal(0, 3.5, 150)).round(1)
        pressure = (90 + 0.5 * age + 0.8 * bmi + draw.normal(0, 10, 150)).round()
        ward = draw.choice(["p", "q", "r"], 150, p=[0.6, 0.2, 0.2])
        smoker = (draw.random(150) < 0.3).astype(int)
        found[site] = pd.DataFrame({"age": age, "bmi": bmi, "pressure": pressure, "smoker": smoker, "ward": ward})
    found["b"].loc[PATIENT, "ward"] = rare
    return found


def study_of(method, ward=', levels = ["p", "q", "r", "x"]', more="[trust]\nassess = true\n", kind="categorical"):
    numbers = "\n".join(f'{name} = "continuous"' for name in NUMBERS)
    return Study.parse(
        f'name = "test"\n[variables]\n{numbers}\nsmoker = "binary"\nward = {{ type = "{kind}"{ward} }}\n'
        f"[method]\n{method}\n" + "".join(f"[sites.{site}]\n" for site in SITES) + more,
        "study.toml",
    )


def merged_study(method=SEARCH):
    return study_of(method, f', levels = ["p", "q", "r", "x"], {MERGED}')


class Overheard(InProcess):
    """The sums of a study whose sites are the real ones, by task: all that an honest server sees."""

    def __init__(self, study, tables, minimum_cell=1):
        silos = [replace(study.silo(site, table), minimum_cell=minimum_cell) for site, table in tables.items()]
        super().__init__([StudyTable(study, silo) for silo in silos], 1)
        self.sums = {}

    def aggregate(self, task):
        mean = super().aggregate(task)
        self.sums.setdefault(task.name, []).append({name: array * self.summed for name, array in mean.items()})
        return mean


def overhear(study, tables, minimum_cell=1):
    with closing(Overheard(study, tables, minimum_cell)) as federation:
        learner = learn(study, federation, lambda status: None)
        told = []
        return federation.sums, learner, check_graph(study, learner, federation, told.append).assessment, told


def patients(first, second):
    """Whom a server would rebuild from moments, were a column of theirs that of a level which one patient has."""
    n, sums = float(first["rows"]), first["sum"]
    return second["products"] + np.outer(sums, sums) / n


SUMMED_LEVELS = ("notears", "var-sortnregress", "r2-sortnregress", "notears-admm", "feddag")
"""Methods that would sum products of what stands for levels."""


def rare_category(folder: Path) -> Result:
    """Take part in no study that shows the patient, and rebuild the patient from those that sites agree to."""
    data, agreed, declined = tables(), [], 0
    methods = (SEARCH, *(f'name = "{name}"' for name in SUMMED_LEVELS))
    for study in (*map(study_of, methods), *map(merged_study, methods)):
        try:
            for site, table in data.items():
                check_site(study, study.silo(site, table), Policy(sharing=SHARING))
            agreed.append(study)
        except FeddagError:
            declined += 1
    patient = data["b"].loc[PATIENT, list(NUMBERS)].to_numpy(float)
    heard = [overhear(study, data, Policy().minimum_cell)[0] for study in agreed]
    rebuilt = [patients(sums["moments.sums"][0], sums["moments.products"][0]) for sums in heard]
    found = sum(bool((np.abs(rows - patient) < 0.1 * np.abs(patient)).all(axis=1).any()) for rows in rebuilt)
    assert agreed, "sites take part once the rare level is merged"
    return Result(2 * len(methods), found, Counter({"not joined": declined}))


def test_no_study_that_sites_agree_to_shows_the_patient(tmp_path):
    result = rare_category(tmp_path)
    assert (result.recovered, result.refusals) == (0, {"not joined": result.tries - 1})


def test_a_level_of_one_row_is_refused_by_the_site_before_anything_leaves_it():
    study, data = study_of(SEARCH), tables()
    for site in "ac":
        check_site(study, study.silo(site, data[site]), Policy())
    with pytest.raises(FeddagError) as refused:
        check_site(study, study.silo("b", data["b"]), Policy())
    assert str(refused.value) == (
        "Refused by the default policy: minimum_cell = 5, but 'ward' has the level 'x' in 1 row. Agree with all sites "
        f"on a study that has {MERGED} for 'ward', or change the rule at the site."
    )


@pytest.mark.parametrize("method", SUMMED_LEVELS)
def test_methods_that_sum_what_stands_for_levels_are_refused_with_the_study(method):
    study = study_of(f'name = "{method}"')
    with pytest.raises(FeddagError, match=r"study.toml: .* learns from continuous variables.* 'smoker' \(binary\)"):
        federated_learner(study)
    for site, table in tables().items():
        with pytest.raises(FeddagError, match="'ward'"):
            check_site(study, study.silo(site, table), Policy())


def test_a_method_of_moments_that_would_take_categories_is_refused_too(monkeypatch):
    assert issubclass(SortnRegress, FromMoments)
    monkeypatch.setattr(SortnRegress, "kinds", frozenset(KINDS))
    with pytest.raises(FeddagError, match="sums products of all variables, and 'smoker', 'ward' is discrete"):
        federated_learner(study_of('name = "var-sortnregress"'))


def test_the_moments_of_the_checks_are_those_of_numbers_alone():
    """Even at sites whose policies allow cells of one row."""
    data = tables()
    sums, _, assessment, told = overhear(study_of(SEARCH), data)
    assert (assessment is not None, told) == (True, [])
    (first,), (second,) = sums["moments.sums"], sums["moments.products"]
    assert first["sum"].shape == (len(NUMBERS),)
    assert second["products"].shape == (len(NUMBERS),) * 2
    everyone = np.concatenate([table[list(NUMBERS)].to_numpy() for table in data.values()])
    np.testing.assert_allclose(patients(first, second), everyone.T @ everyone)


def test_with_merged_levels_the_patient_cannot_be_rebuilt():
    study, data = merged_study(), tables()
    for site, table in data.items():
        check_site(study, study.silo(site, table), Policy())
    sums, learner, assessment, _ = overhear(study, data, Policy().minimum_cell)
    assert learner.graph_.names == study.columns
    assert assessment is not None
    patient = data["b"].loc[PATIENT, list(NUMBERS)].to_numpy(float)
    rebuilt = patients(sums["moments.sums"][0], sums["moments.products"][0])
    assert np.abs(rebuilt - patient).max(axis=1).min() > 1e5  # sums over hundreds of rows
    asked = {"search.rows", "search.neighbourhoods", "search.scores", "search.comparisons", "search.checks"}
    asked |= {"search.dependences", "search.imprecision", "search.graph-fit"}
    assert {*sums} <= asked | {"moments.sums", "moments.products", "trust.rows", "trust.held-out"}


def test_one_process_learns_and_assesses_as_before():
    study, data = study_of(SEARCH), tables()
    silos = study.silos(data)
    learner = study.learner().fit(silos)
    _, over_sums, there, _ = overhear(study, data)
    here = assess_here(learner, silos)
    np.testing.assert_array_equal(over_sums.graph_.adjacency, learner.graph_.adjacency)
    assert [each.graph for each in here.held_out] == ["learned", "empty", "random"]
    assert (here.verdict, here.sortability) == (there.verdict, there.sortability)


@pytest.mark.parametrize("kept", [["smoker", "ward"], ["age", "smoker", "ward"]])
def test_without_two_numbers_no_moments_are_asked_for(kept):
    text = {"age": '"continuous"', "smoker": '"binary"', "ward": '{ type = "categorical", levels = ["p", "q", "r"] }'}
    variables = "\n".join(f"{name} = {text[name]}" for name in kept)
    sites = "".join(f"[sites.{site}]\n" for site in SITES)
    study = Study.parse(f'name = "test"\n[variables]\n{variables}\n[method]\n{SEARCH}\n{sites}[trust]\nassess = true\n')
    sums, _, assessment, told = overhear(study, tables("p"))
    assert not any(name.startswith("moments.") for name in {*sums, *study_tasks(study)})
    assert (assessment.sortability.varsortability, told) == (None, [])


def test_a_flag_that_was_declared_a_number_is_refused_too():
    data = tables("p")["b"].assign(age=0.0)
    data.loc[PATIENT, "age"] = 1.0
    study = merged_study()
    with pytest.raises(FeddagError, match=r"'age' has one value in all but 1 row\. Have the study leave out"):
        check_site(study, study.silo("b", data), Policy())
    data.loc[PATIENT : PATIENT + 4, "age"] = 1.0
    check_site(study, study.silo("b", data), Policy())


@pytest.mark.parametrize(("rows", "laid_aside"), [(22, 4), (23, 5)])
def test_rows_laid_aside_are_as_many_as_a_cell(rows, laid_aside):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(rows, 3)), columns=list(NUMBERS))
    frame = frame.assign(smoker=np.arange(rows) % 2, ward=["p", "q"] * (rows // 2) + ["p"] * (rows % 2))
    study = study_of(SEARCH)
    silo = study.silo("a", frame)
    check_site(study_of(SEARCH, more=""), silo, Policy())
    if laid_aside >= Policy().minimum_cell:
        check_site(study, silo, Policy())
    else:
        with pytest.raises(
            FeddagError, match=f"lay aside {laid_aside} rows of {rows}. Have the study do without trust.assess"
        ):
            check_site(study, silo, Policy())


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 9), min_size=3, max_size=4).filter(lambda counts: sum(counts) >= 12),
    st.sampled_from(["categorical", "ordinal"]),
    st.integers(1, 8),
)
def test_a_table_is_refused_just_if_a_level_is_rare_and_the_line_that_is_proposed_mends_it(counts, kind, minimum):
    names = ["p", "q", "r", "x"][: len(counts)]
    levels = f", levels = {names}".replace("'", '"')
    rows = sum(counts)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, 3)), columns=list(NUMBERS))
    frame = frame.assign(smoker=(np.arange(rows) < rows / 2).astype(int), ward=np.repeat(names, counts))
    policy, study = Policy(minimum_cell=min(minimum, rows // 2)), study_of(SEARCH, levels, "", kind)
    rare = [count for count in counts if 0 < count < policy.minimum_cell]
    if not rare:
        check_cells(study, study.silo("a", frame), policy)
        return
    with pytest.raises(FeddagError) as refused:
        check_cells(study, study.silo("a", frame), policy)
    line = re.search("has (merge = {.*}) for 'ward'", str(refused.value))
    if line is None:
        assert "leaves out 'ward'" in str(refused.value)
        return
    mended = study_of(SEARCH, f"{levels}, {line[1]}", "", kind)
    assert mended.digest != study.digest
    check_cells(mended, mended.silo("a", frame), policy)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 8), st.permutations(range(4)), st.integers(2, 4))
def test_no_function_of_several_parents_tells_small_combinations_of_levels_apart(seed, minimum, order, size):
    draw, levels = np.random.default_rng(seed), np.array([2, 3, 0, 2])
    # a number that is the same in all rows, so that functions differ by levels alone
    values = np.column_stack([draw.integers(each, size=60) if each else np.full(60, 0.7) for each in levels])
    parents, child = order[:size], order[-1] if size < 4 and levels[order[-1]] else None
    features, everything = ContrastFeatures(values, levels, minimum), ContrastFeatures(values, levels)
    used = features.joint(parents, 400)
    used[:, features.in_small_cells(parents, 400, child=child)] = 0.0
    products = np.flatnonzero(used.any(axis=0))
    products = products[products >= everything.additive(parents)]
    np.testing.assert_array_equal(used[:, products], everything.joint(parents, 400)[:, products])
    table = pd.DataFrame(values)
    for column in used[:, products].T:
        told = [node for node in parents if levels[node] and _varies_with(column, table[list(parents)], node)]
        told += [] if child is None or not told else [child]
        assert len(told) < 2 or table[told].value_counts().min() >= minimum


def _varies_with(column, parents, node):
    """Return whether rows that agree in all other parents differ in a function."""
    found = parents.assign(found=column).groupby([each for each in parents if each != node])["found"]
    return bool((found.max() - found.min() > 1e-9).any())


def family_score(x, flag):
    """Return a site's score of a number given a flag; with the flag constant at all other sites, a sum tells it."""
    kinds = (Kind("binary", (0, 1)), CONTINUOUS)
    site = MixedMechanisms(Silo("here", ("flag", "x"), np.column_stack([flag, x]), kinds))
    return site._views[0].fit(np.array([1]), np.array([[True, False]]), None).with_normal_noise[0]


def rebuilt_by_its_score(score, rows):
    """Find the standardised value of a single flagged row that gives this score, with a table of one's own."""
    others = np.random.default_rng(9).normal(size=rows - 1)
    others = (others - others.mean()) / others.std()

    def difference(value):
        mean = -value / (rows - 1)
        spread = np.sqrt((rows - value**2) / (rows - 1) - mean**2)
        return family_score(np.append(mean + spread * others, value), np.arange(rows) == rows - 1) - score

    return brentq(difference, 0.0, 8.0)


def test_a_score_tells_the_value_of_a_single_row_but_not_those_of_a_cell():
    """This is why levels are counted although no task counts them."""
    x = np.random.default_rng(1).normal(size=150)
    values = np.abs(x - x.mean()) / x.std()
    assert rebuilt_by_its_score(family_score(x, np.arange(150) == PATIENT), 150) == pytest.approx(
        values[PATIENT], abs=1e-6
    )
    cell = np.argsort(x)[-20:-15]  # five rows above the mean
    found = rebuilt_by_its_score(family_score(x, np.isin(np.arange(150), cell)), 150)
    assert np.abs(values[cell] - found).min() > 0.5


def test_a_site_s_search_leaves_out_what_rests_on_one_row():
    rows = np.arange(200)
    one, other = rows < 40, (rows >= 39) & (rows < 90)  # row 39 alone has both
    x = np.random.default_rng(3).normal(size=200)
    kinds = (Kind("binary", (0, 1)), Kind("binary", (0, 1)), CONTINUOUS)

    def used(minimum_cell):
        silo = Silo("here", ("one", "other", "x"), np.column_stack([one, other, x]), kinds, minimum_cell=minimum_cell)
        return np.linalg.matrix_rank(MixedMechanisms(silo)._contrasts.joint((0, 1), 200))

    assert (used(1), used(2), used(5)) == (4, 3, 3)  # each of the four combinations, or a constant and each flag
