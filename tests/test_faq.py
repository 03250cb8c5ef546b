"""The messages on the page of error messages are those that feddag gives."""

from __future__ import annotations

import os
import re
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from feddag import FeddagError, Study, make_learner, read_silos
from feddag.cli import app
from feddag.federation.policy import Policy
from feddag.learners.knowledge import Knowledge
from feddag.runs import Run, load
from feddag.silos.outliers import outlier_warnings
from feddag.silos.reading import site_names
from feddag.study import check_obedience
from snippets import ROOT

PAGE = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^\| \*(.+?)\*", PAGE, re.MULTILINE)
ROWS = 30
draw = np.random.default_rng(0)


def table(**columns) -> pd.DataFrame:
    return pd.DataFrame({"age": draw.normal(size=ROWS), "dose": draw.normal(size=ROWS), **columns})


def with_values(*values) -> list:
    return [*values, *draw.normal(size=ROWS - len(values)).tolist()]


def study(more: str = "", variables: str = 'age = "continuous"\ndose = "continuous"', method: str = "search") -> Study:
    return Study.parse(f'name = "ward"\n[variables]\n{variables}\n[method]\nname = "{method}"\n{more}')


def learn(frame: pd.DataFrame, method: str) -> object:
    return make_learner(method).fit({"north": frame})


def write(content: bytes, name: str) -> str:
    with open(name, "wb") as stream:
        stream.write(content)
    return name


def start(folder: str = "run") -> Run:
    table().to_csv("north.csv", index=False)
    return Run.start(folder, make_learner("empty"), read_silos(["north.csv"]), ["north.csv"])


def resume_otherwise() -> str:
    start().learn()
    return CliRunner().invoke(app, ["learn", "--resume", "run", "--method", "ges"]).stderr


def learn_meanwhile() -> None:
    start().learn_by(lambda progress: Run.open("run").learn())


def change_the_table() -> None:
    start()
    table().to_csv("north.csv", index=False)
    Run.open("run").silos()


def write_loosely() -> None:
    write(b"minimum_sites = 3\n", "policy.toml")
    os.chmod("policy.toml", 0o666)
    Policy.load("policy.toml")


MANY_LEVELS = [f"level {k}" for k in range(ROWS)]
ORDINAL = f'age = "continuous"\nward = {{ type = "categorical", levels = {MANY_LEVELS} }}'
SEX = 'age = "continuous"\nsex = { type = "binary", levels = ["f", "m"] }'
NAMES = ("age", "dose")

PROVOKED = {
    "missing value…, the first": lambda: read_silos([table(dose=with_values(None))]),
    "no missing value": lambda: read_silos([table(dose=[None] * 25 + [1, 2, 3, 4, 5])], missing="drop"),
    "values are missing": lambda: read_silos([table(dose=[None] * ROWS)]),
    "not a number": lambda: read_silos([table(dose=with_values("<5"))]),
    "not a level": lambda: study(variables=SEX).silo("north", table(sex=["f", "x"] * 15)),
    "in every row": lambda: read_silos([table(dose=[1.0] * ROWS)]),
    "of the spread": lambda: f"Warning: {outlier_warnings(read_silos([table(dose=with_values(1e6))]))[0]}",
    "linear function": lambda: learn(table().assign(total=lambda frame: frame.age + frame.dose), "var-sortnregress"),
    "not finite": lambda: read_silos([table(dose=with_values(1e39))]),
    "rows are too few": lambda: read_silos([table()[:5]]),
    "compared with site": lambda: read_silos([table(bmi=with_values()), table()]),
    "lacks '…'. It has": lambda: study().silo("north", table().rename(columns={"dose": "DOSE"})),
    "SITE=SILO": lambda: site_names(["north=a.csv", "north=b.csv"]),
    "Check the path": lambda: read_silos(["nowhere.csv"]),
    "has the extension": lambda: read_silos([write(b"", "table.xlsx")]),
    "?table=NAME": lambda: read_silos([write(b"", "table.sqlite")]),
    "://... is none": lambda: read_silos(["postgresql://me:secret@host:port/db?table=visits"]),
    "Install it": lambda: read_silos([write(b"", "table.duckdb") + "?table=visits"]),
    "UTF-8": lambda: read_silos([write("größe,a\n1,2\n".encode("latin1"), "table.csv")]),
    "decimal comma": lambda: read_silos([write(b"a;b\n" + b"1,5;2\n2.5;1\n" * 10, "table.csv")]),
    "is not TOML": lambda: Study.parse("name = "),
    "is not known": lambda: study("[dta]\nscale = 'none'"),
    "there is no site": lambda: study("[sites.north]\n[sites.south]\n[sites.west]").site("nort"),
    "cannot obey": lambda: check_obedience("cam", ["forbidden"]),
    "is required, and": lambda: Knowledge.of(NAMES, [("age", "dose")], [("age", "dose")], (), ()),
    "form a cycle": lambda: Knowledge.of(NAMES, [("age", "dose"), ("dose", "age")], (), (), ()),
    "learns from": lambda: learn(table(sex=["f", "m"] * 15), "notears"),
    "takes at most": lambda: make_learner("search").fit(
        study(variables=ORDINAL).silos({"north": table(ward=MANY_LEVELS)})
    ),
    "secure_sum": lambda: study("[sites.north]\n[sites.south]\n[privacy]\nsecure_sum = true"),
    "holds a run already": lambda: (start(), start()),
    "has not finished": lambda: load(start().folder),
    "another process": learn_meanwhile,
    "has changed since the run": change_the_table,
    "--resume keeps it": resume_otherwise,
    "asked for beside": lambda: study("[privacy.differential]\nepsilon = 1.0\nrounds = 3\n[trust]\nassess = true"),
    "stayed at its sites": lambda: Run.start_federated("run", study("[sites.a]\n[sites.b]\n[sites.c]")).silos(),
    "must be one of": lambda: make_learner("fedag"),
    "does not take": lambda: make_learner("notears", alpha=1),
    "may write this policy": write_loosely,
}
"""By a part of the message that no other has, what a user does to get it."""


@pytest.mark.parametrize("part", PROVOKED)
def test_a_mistake_gets_the_message_on_the_page(part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "duckdb", None)  # as where an extra is not installed
    (on_page,) = [message for message in MESSAGES if part in message]
    try:
        given = str(PROVOKED[part]())
    except FeddagError as error:
        given = str(error)
    pattern = ".*?".join(re.escape(fragment.strip()) for fragment in on_page.split("…"))
    assert re.search(pattern, given), given


def test_the_other_messages_on_the_page_stand_in_the_source():
    """They take a network, or a fit that goes astray."""
    others = [message for message in MESSAGES if not any(part in message for part in PROVOKED)]
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    fragments = [fragment.strip(" '.") for message in others for fragment in message.split("…")]
    assert [fragment for fragment in fragments if len(fragment) > 10 and fragment not in source] == []
    assert len(others) < len(PROVOKED) / 2
