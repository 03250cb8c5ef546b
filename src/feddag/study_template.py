"""The text of a new study, with a word on each choice."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from feddag.errors import check_unique
from feddag.federation.policy import Policy
from feddag.learners.registry import find_method
from feddag.silos import Silo
from feddag.silos.cells import level_rows, merge_text, propose_merge, rare_levels, toml_key
from feddag.silos.checks import check_names
from feddag.silos.coding import MOST_LEVELS, code_column, infer_kind
from feddag.silos.sources import read_table, source_of
from feddag.silos.variable_types import Kind, Variable

_FEW = 10
"""Whole numbers of so few different values may be codes."""


def template(name: str, data: str | None, sites: Sequence[str], method: str) -> str:
    """Write a study that can be parsed as it stands; with `data`, the variables are its columns."""
    find_method(method)
    check_unique(sites, "Site", "Name each site once.")
    variables = _EXAMPLES if data is None else _variables(data)
    tables = "\n".join(map(_site, sites)) if sites else "# [sites.basel]\n"
    return _TEMPLATE.format(
        minimum_cell=Policy.minimum_cell,
        name=re.sub("[^a-z0-9-]+", "-", name.lower()).strip("-") or "study",
        variables="\n".join(variables),
        method=method,
        parameters="{ seed = 1 }" if "seed" in find_method(method).parameters() else "{}",
        sites=tables,
    )


def study_with_experiments(name: str, silos: Sequence[Silo]) -> str:
    """Write a study that says which variables experiments set at which site."""
    variables = "\n".join(f'{toml_key(column)} = "continuous"' for column in silos[0].columns)
    sites = [
        f"[sites.{toml_key(silo.name)}]\nintervened = {json.dumps(np.array(silo.columns)[silo.is_target].tolist())}\n"
        for silo in silos
    ]
    return "\n".join([f'name = "{name}"\n\n[method]\nname = "search"\n\n[variables]\n{variables}\n', *sites])


def _variables(data: str) -> list[str]:
    source = source_of(data)
    frame = check_names(source.name, read_table(source.name, source))
    return [_variable(name, frame[name]) for name in frame.columns]


def _variable(name: str, column: pd.Series) -> str:
    key, kind = toml_key(name), infer_kind([column])
    if kind.discrete:
        return f"{key} = {_declared(kind.name, kind.levels)}{_rare(Variable(name, kind), column)}"
    present = column.dropna()
    numbers = pd.to_numeric(present, errors="coerce")
    if column.dtype.kind in "mMc" or numbers.isna().any():
        return (
            f"# {key}: left out, since its {present.nunique()} texts are neither numbers nor up to {MOST_LEVELS} levels"
        )
    levels = sorted(numbers.unique().tolist())
    if set(levels) == {0, 1}:
        return f'{key} = "binary"{_rare(Variable(name, Kind("binary", (0, 1))), column)}'
    if 2 <= len(levels) <= _FEW and all(float(level).is_integer() for level in levels):
        return f'{key} = "continuous"  # if these are codes: {_declared("categorical", list(map(int, levels)))}'
    return f'{key} = "continuous"'


def _declared(kind: str, levels: Sequence[object], more: str = "") -> str:
    return f'{{ type = "{kind}", levels = {json.dumps(list(levels), ensure_ascii=False)}{more} }}'


def _rare(variable: Variable, column: pd.Series) -> str:
    """Propose in a comment what to do about levels that too few rows have for a site on a network."""
    counts = level_rows(code_column(variable.name, column, variable), variable.kind)
    if not rare_levels(counts, Policy.minimum_cell):
        return ""
    merge = propose_merge(variable, counts, Policy.minimum_cell)
    if merge is None:
        return "  # a level is rare here: to learn over a network, leave the variable out"
    merged = _declared(variable.kind.name, variable.kind.levels, f", {merge_text(merge)}")
    return f"  # levels are rare here; over a network: {merged}"


def _site(name: str) -> str:
    further = ('columns = { age = "AGE_YEARS" }', 'identity = "..."', 'intervened = ["age"]')
    return "\n# ".join([f"[sites.{toml_key(name)}]", *further]) + "\n"


_EXAMPLES = (
    'age = { type = "continuous", unit = "years" }',
    'sex = { type = "binary", levels = ["f", "m"] }',
    'pain = { type = "ordinal", levels = ["none", "some", "much"], missing = ["unknown"] }',
)

_TEMPLATE = """\
# A study: what all sites agree on before anything is learned. Check it with: feddag study check FILE

name = "{name}"                       # lower-case letters, digits and hyphens

# Each variable's type: continuous, binary, ordinal or categorical. Discrete ones have levels, which all sites code
# alike (binary: 0 and 1 unless given). A unit is a promise; values listed as missing stand for one not recorded.
# Tables with a value outside a range are refused; transform = "log" learns from logarithms; a label is for reports:
# dose = {{ type = "continuous", unit = "mg", range = [0.1, 500], transform = "log", label = "Dose per day" }}
# Sites on a network refuse a level that fewer than {minimum_cell} of their rows have, unless it is merged with others:
# ward = {{ type = "categorical", levels = ["a", "b", "x", "y"], merge = {{ other = ["x", "y"] }} }}
[variables]
{variables}

[method]
name = "{method}"                     # see: feddag methods
# regime = "federated"                # the method's own unless given
parameters = {parameters}

[data]
missing = "error"                     # error; drop: rows with missing values; impute: values that go with the row
scale = "none"                        # none; site: by each site's own moments; federated: by those of all together

# What is known of the graph beforehand.
[knowledge]
required = []                         # edges that must be there: [["age", "pain"]]
forbidden = []                        # edges that cannot be there
tiers = []                            # what comes later is no parent of what comes earlier: [["age", "sex"], ["pain"]]
exogenous = []                        # variables that nothing causes: ["age"]

# The sites that take part, each with what it calls its columns, where that differs, and its Ed25519 public key.
# Variables that an experiment set in all rows of a site: intervened = ["age"]. In some: targets = "COLUMN", the column
# that names each row's targets, separated by ";" and empty where nothing was set. Variables on which causes acted in
# another way than elsewhere: changed = ["age"].
{sites}
[federation]
# quorum = 3                          # sites that must answer; more than half of them, and at least 3, unless given
timeout = 600                         # seconds that a site may take for a task
# minimum_sites = 3                   # the fewest sites that any comparison of sums may tell about
# maximum_rows = 10_000_000           # the most rows that a site may claim

[privacy]
# secure_sum = true                   # only sums can be read; on for 3 or more sites unless given

# [privacy.rows]                      # noise that hides every row; needs the method private-search, and of each
# epsilon = 1.0                       # continuous variable a range of plausible values: {{ range = [0, 120] }}
# delta = 1e-6
# expected_rows = 10_000              # of all sites together, about; known beforehand
# rows_per_person = 1

# [privacy.differential]              # noise that hides whole sites, in the rounds of FedDAG
# epsilon = 8.0
# delta = 1e-5
# clip = 1.0
# rounds = 60

[trust]
assess = true                         # sites hold the graph against rows that they set aside, which takes sums of
                                      # moments and of scores; not with noise
# tables = true                       # before the fit: what is missing over all sites, and what looks unmeant; who
                                      # knows a whole table but one value can try values until the sums fit
# bootstraps = 50                     # sites draw half of their rows, so often, to see how stable the graph is
# leave_one_out = false               # learn without each site, too: needs minimum_sites = 1
# mechanisms = true                   # how many sites differ in how causes act; continuous variables alone
# effects = [["age", "pain"]]         # by how much a cause changes an effect
# grid = {{ l1 = [0.01, 0.1] }}         # parameters of the method to compare by rows laid aside
"""
