"""Sums about few sites: all sites answer, and most of them have nothing to say about what is asked.

The server keeps to the study. Whoever wrote the study knows at which sites a variable varies.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hostile_server import FOUR, VICTIM, HostileServer, Result, Sites, always, registries

from feddag import FeddagError
from feddag.deployment import cells, site
from feddag.federation.policy import Policy
from feddag.federation.tables import TableMemory
from feddag.study import Study
from feddag.trust import effects

OWN = 'name = "search"\nparameters = { restarts = 0, sharing = "graph" }'


def experiments_at_all_sites_but_one(folder: Path) -> Result:
    """Have experiments set or change a variable at all sites but the victim, or set it in rows that a column names."""
    tables = registries()
    declared = Study.parse(_study(tables, lambda name: "" if name == VICTIM else 'intervened = ["age"]'))
    changed = Study.parse(_study(tables, lambda name: "" if name == VICTIM else 'changed = ["age"]'))
    undeclared = Study.parse(_study(tables, lambda name: 'targets = "set"'))
    refused = recovered = 0
    for study in (declared, changed, undeclared):
        before = refused
        for name, table in tables.items():
            marked = table.assign(set="" if name == VICTIM else "age")
            silo = study.silo(name, marked if study is undeclared else table)
            try:
                site.check_site(study, silo, Policy())
            except FeddagError as error:
                refused += "experiments set" in str(error) and "'age'" in str(error)
        recovered += refused == before
    return Result(3, recovered, Counter({"not joined": refused}))


def _study(tables, terms) -> str:
    variables = "".join(f'{column} = "continuous"\n' for column in next(iter(tables.values())))
    listed = "".join(f"[sites.{name}]\n{terms(name)}\n" for name in tables)
    return f'name = "experiments"\n[variables]\n{variables}[method]\n{OWN}\n{listed}'


def effect_of_what_varies_at_one_site(folder: Path) -> Result:
    """Ask for the effect of a flag that three of four sites have in no row, or in all: the mean is about the victim."""
    tables = registries()
    for place, (name, table) in enumerate(tables.items()):
        flag = (table["age"] > 55).astype(int) if name == VICTIM else place % 2
        tables[name] = table.assign(flag=flag)
    sites = Sites(folder, OWN, tables, kinds={"flag": "binary"}, more='[trust]\neffects = [["flag", "bmi"]]\n')
    server = HostileServer(sites)
    assert server.join()
    server.go_on_until(lambda task: task.name.startswith("trust."), most=200)
    recovered = 0
    try:
        while server.go_on().task.name != "trust.effects":
            continue
        mean = server.released[-1].total.mean
        recovered = int((mean["counted"] * len(FOUR)).max() == len(tables[VICTIM]))
    except FeddagError:
        server.refusals["question"] += 1  # sites know that the method asks nothing more
    return server.result(recovered, 1)


def experiments_at_one_site(folder: Path) -> Result:
    """Have an experiment set a variable at the victim alone: sums of all sites, less those of sites without any.

    Comparisons say how many rows sites without experiments have, and by how much those with them differ.
    """
    tables = registries()
    sites = Sites(folder, OWN, tables, of_sites={VICTIM: 'intervened = ["age"]'})
    server = HostileServer(sites)
    assert server.join()
    server.go_on_until(lambda task: task.name == "search.comparisons", most=200)
    mean = server.go_on().total.mean
    rows = sum(map(len, tables.values()))
    apart = np.sqrt(np.maximum(mean["site_rows"] - mean["alike_rows"], 0.0) * rows)  # each site's, weighted by its rows
    recovered = np.isclose(apart, len(tables[VICTIM])) & (np.abs(mean["by_design"]) > 0)
    return server.result(int(recovered.any()), 1)


def second_study_without_the_experiment(folder: Path) -> Result:
    """Have a first study say that the victim's experiment set a variable, and a second one that it did not, and
    subtract: the difference is the victim's own score.
    """
    tables, totals, server = registries(), [], None
    for name, experiment in (("first", {VICTIM: 'intervened = ["age"]'}), ("second", None)):
        try:
            server = HostileServer(Sites(folder, OWN, tables, name=name, of_sites=experiment))
        except FeddagError as error:
            refused = "in this study experiments set or changed a variable at no site" in str(error)
            return Result(1, int(not refused), Counter({"not joined": 1}))
        assert server.join()
        server.go_on_until(lambda task: task.name == "search.neighbourhoods", most=200)
        found = server.go_on()
        ages = found.task.arrays["children"] == sorted(tables[VICTIM].columns).index("age")
        totals.append(found.total.mean["scores"][ages])
    assert server is not None
    return server.result(int(totals[0].shape == totals[1].shape and not np.allclose(*totals)), 1)


def experiments_in_few_rows(folder: Path) -> Result:
    """Have experiments set a variable in three rows: sums over all rows, less those over the rows without them."""
    tables = registries()
    study = Study.parse(_study(tables, lambda name: 'targets = "set"'))
    marked = tables[VICTIM].assign(set=["age"] * 3 + [""] * (len(tables[VICTIM]) - 3))
    try:
        site.check_site(study, study.silo(VICTIM, marked), Policy())
    except FeddagError as error:
        refused = "experiments set 'age' in 3 rows" in str(error)
        return Result(1, 3 * (not refused), Counter({"not joined": int(refused)}))
    return Result(1, 3)


ATTACKS = (
    experiments_at_all_sites_but_one,
    experiments_at_one_site,
    experiments_in_few_rows,
    second_study_without_the_experiment,
    effect_of_what_varies_at_one_site,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_no_sum_is_about_few_of_its_sites(tmp_path, attack):
    result = attack(tmp_path)
    assert result.recovered == 0
    assert result.refusals or attack is experiments_at_one_site  # whose study goes on


@pytest.mark.parametrize(
    ("attack", "switched_off"),
    [
        (
            experiments_at_all_sites_but_one,
            [(site, "check_experiments"), (cells, "_check_own_experiments")],
        ),
        (experiments_at_one_site, [(site, "experiments_together")]),
        (experiments_in_few_rows, [(cells, "_check_own_experiments")]),
        (second_study_without_the_experiment, [(TableMemory, "_check_experiments")]),
        (effect_of_what_varies_at_one_site, [(effects, "_check_sites")]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch, attack, switched_off):
    for holder, name in switched_off:
        monkeypatch.setattr(holder, name, always(() if name == "experiments_together" else None))
    assert attack(tmp_path).recovered
