"""How strong the attacks of `feddag disclosure` are, and how long they take.

    .venv/bin/python benchmarks/disclosure.py

The search by what sites share, and covariances alone, over three sites of clinical-like tables of six variables. An
attack that was made for these tables, with tens of thousands of rows of the true law to learn from, reached an AUC of
0.59 for the first version's scores over 3 x 50 rows; and for its products over 3 x 150 rows an AUC of 0.87, and a
hidden value to 0.19 standard deviations (to 0.69 for new rows, whose other values it did not use). What is printed
rests on the made-up rows of one table alone. The last line shows the time for 10 variables and 5,000 rows. Processor
time is that of this process, so leave --jobs at 1 to see it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from feddag import simulate
from feddag.disclosure import disclose
from feddag.study import Study


def clinical(rows: int, seed: int) -> pd.DataFrame:
    """Six continuous variables with nonlinear relations, rounded as registries round them."""
    rng = np.random.default_rng(seed)
    age = rng.normal(55, 14, rows)
    bmi = 22 + 0.06 * age + rng.normal(0, 3.5, rows)
    pressure = 90 + 0.5 * age + 0.8 * bmi + rng.normal(0, 10, rows)
    glucose = 70 + 25 * np.tanh((bmi - 28) / 4) + rng.normal(0, 9, rows)
    cholesterol = 150 + 12 * np.sin(age / 9) + 0.3 * glucose + rng.normal(0, 15, rows)
    kidney = 110 - 0.6 * age - 0.005 * (pressure - 120) ** 2 + rng.normal(0, 8, rows)
    columns = {"age": age, "bmi": bmi, "pressure": pressure, "glucose": glucose, "chol": cholesterol, "kidney": kidney}
    return pd.DataFrame(columns).round(
        {"pressure": 0, "chol": 0} | dict.fromkeys(("age", "bmi", "glucose", "kidney"), 1)
    )


def study_of(table: pd.DataFrame, method: str) -> Study:
    variables = "\n".join(f'{name} = "continuous"' for name in table)
    sites = "\n".join(f"[sites.{name}]" for name in ("a", "b", "c"))
    return Study.parse(f'name = "benchmark"\n[variables]\n{variables}\n[method]\n{method}\n{sites}\n')


def show(name: str, table: pd.DataFrame, method: str, seed: int, jobs: int) -> None:
    started = time.process_time()
    study = study_of(table, method)
    found = disclose(study, study.silo("a", table), seed=seed, jobs=jobs)
    member, hidden = found.membership, found.hidden_value
    assert member is not None
    assert hidden is not None
    spent = time.process_time() - started
    print(
        f"| {name} | {found.numbers:,} | {found.numbers_per_value:.2g} | {member.auc:.2f} | "
        f"{member.true_positives:.2f} | {hidden.error:.2f} | {hidden.others:.2f} | {spent:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    graph, auto, everything = (
        f'name = "search"\nparameters = {{ sharing = "{each}" }}' for each in ("graph", "auto", "all")
    )
    print("| sums | numbers | per value | AUC | found at 5 % | hidden value, sd | of new rows | CPU seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, method, rows in (("graph", graph, 50), ("auto", auto, 150), ("all", everything, 150)):
        show(f'search, "{name}", 3 x {rows} rows', clinical(rows, given.seed), method, given.seed, given.jobs)
    show("covariances, 3 x 150 rows", clinical(150, given.seed), 'name = "notears"', given.seed, given.jobs)
    silo, *_ = simulate(10, mechanism="gp", sites=1, rows=5000, seed=given.seed).silos
    show('search, "auto", 10 variables, 3 x 5,000 rows', silo.to_frame(), auto, given.seed, given.jobs)


if __name__ == "__main__":
    main()
