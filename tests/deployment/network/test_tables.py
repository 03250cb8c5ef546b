"""Before the fit, sums over sites warn of what is seldom meant, and name no site; the site itself is told."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from endpoints_by_call import NAMES, SIMULATION, Net, in_process, study_of

from feddag import FeddagError
from feddag.federation.policy import Policy
from feddag.trust.tables import COMPARISON, COUNTS

COLUMNS = SIMULATION.silos[0].columns
TABLES = "[trust]\ntables = true\n"


class NetOf(Net):
    """A network of the simulated sites, some of whose tables are changed first."""

    def __init__(self, folder, study, **changed):
        self.changed = {name.replace("_", "-"): change for name, change in changed.items()}
        super().__init__(folder, study)

    def start(self, silo):
        frame = silo.to_frame()
        if silo.name in self.changed:
            frame = self.changed[silo.name](frame)
        super().start(SimpleNamespace(name=silo.name, to_frame=lambda: frame))


def findings(net) -> list[str]:
    """Return the account of the tables, and the warnings, of the record; the server reports them, too."""
    found = net.run(net.server()).record["federation"]["tables"]
    assert found["account"] in net.told
    assert all(f"Warning: {warning}" in net.told for warning in found["warnings"])
    return [found["account"], *found["warnings"]]


def own(net, site) -> str:
    return " ".join(text for text in net.told if text.startswith(f"{site}: "))


def with_column(name, change):
    return lambda frame: frame.assign(**{name: change(frame)})


@pytest.mark.parametrize("secure", [True, False])
def test_tables_as_they_should_be_are_only_counted(tmp_path, secure):
    net = NetOf(tmp_path, study_of('name = "notears"', secure=secure, more=TABLES))
    result = net.run(net.server())
    account = "All sites together: 300 rows read; missing values: none"
    assert result.record["federation"]["tables"] == {"account": account, "warnings": []}
    assert result.learner.graph_.edges == in_process(study_of('name = "notears"')).graph_.edges
    assert not any("its spread" in text or "same table" in text for text in net.told)


def test_missing_values_are_summed_over_sites_and_what_they_cost_is_told(tmp_path):
    def holes(frame):
        changed = frame.copy()
        changed.loc[changed.index[:-12], COLUMNS[1]] = np.nan
        changed.loc[changed.index[:5], COLUMNS[2]] = np.nan
        return changed

    more = f'{TABLES}[data]\nmissing = "drop"\n'
    told = findings(NetOf(tmp_path, study_of('name = "notears"', more=more), **dict.fromkeys(map(safe, NAMES), holes)))
    assert told[0] == (
        "All sites together: 300 rows read, 252 of them left out for missing values; missing values: "
        f"{COLUMNS[1]!r} 252, {COLUMNS[2]!r} 20"
    )
    assert told[1].startswith("252 of 300 rows of all sites are dropped for missing values.")
    assert f"leave {COLUMNS[1]!r} out, or impute" in told[1]


def safe(name: str) -> str:
    return name.replace("-", "_")


def test_a_column_in_another_unit_is_told_and_its_site_by_itself_alone(tmp_path):
    odd = NAMES[2]
    change = with_column(COLUMNS[0], lambda frame: frame[COLUMNS[0]] / 1000)
    net = NetOf(tmp_path, study_of('name = "notears"', more=TABLES), **{safe(odd): change})
    (warning,) = findings(net)[1:]
    assert warning.startswith(f"Column {COLUMNS[0]!r} is more than 50 times smaller at a site than")
    assert not any(name in warning for name in NAMES)
    assert f"column {COLUMNS[0]!r}: its spread is 0.00" in own(net, odd)
    assert not any("its spread" in own(net, name) for name in NAMES if name != odd)


@pytest.mark.parametrize(
    ("sites", "where"),
    [pytest.param(NAMES, "at all sites", marks=pytest.mark.slow), (NAMES[:3], "at some sites")],
)
def test_a_column_that_is_twice_another_is_told(tmp_path, sites, where):
    change = with_column(COLUMNS[3], lambda frame: 3 - 2 * frame[COLUMNS[1]])
    net = NetOf(
        tmp_path,
        study_of('name = "search"\nparameters = { restarts = 0 }', more=TABLES),
        **{safe(name): change for name in sites},
    )
    warnings = findings(net)[1:]
    expected = f"Column {COLUMNS[3]!r} is a straight line of column {COLUMNS[1]!r} in every row {where}."
    assert warnings[0].startswith(expected)


def test_doubled_rows_are_told(tmp_path):
    change = lambda frame: frame.loc[np.repeat(frame.index, 2)].reset_index(drop=True)  # noqa: E731
    net = NetOf(tmp_path, study_of('name = "notears"', more=TABLES), **{safe(NAMES[1]): change})
    (warning,) = findings(net)[1:]
    assert warning.startswith("Every row stands at least twice at some sites.")


def test_one_table_under_two_names_is_told_to_the_two(tmp_path):
    twin = SIMULATION.silos[0].to_frame()
    net = NetOf(tmp_path, study_of('name = "notears"', more=TABLES), **{safe(NAMES[3]): lambda frame: twin})
    (warning,) = findings(net)[1:]
    assert warning.startswith("Sites have the same table, value by value (at some sites)")
    for name in NAMES:
        assert ("another site has the same table" in own(net, name)) == (name in (NAMES[0], NAMES[3]))


def test_a_policy_that_forbids_it_keeps_its_site_out_before_it_joins(tmp_path):
    net = NetOf(tmp_path, study_of('name = "notears"', more=TABLES))
    net.policy = Policy(tasks=("moments.*",), sharing=net.policy.sharing)
    with pytest.raises(FeddagError, match="tables"):
        net.start(SIMULATION.silos[0])


def test_no_mark_is_made_of_levels_alone_and_another_study_makes_others(tmp_path):
    from feddag.federation import Task  # noqa: PLC0415
    from feddag.silos import Silo  # noqa: PLC0415
    from feddag.silos.variable_types import Kind  # noqa: PLC0415
    from feddag.trust.tables import TableSite  # noqa: PLC0415

    table = np.arange(40.0).reshape(20, 2) % 2
    marks = []
    for kinds, salt in (((Kind("binary", (0, 1)),) * 2, "one"), ((), "one"), ((), "two")):
        site = TableSite(Silo("here", ("a", "b"), table, kinds), 3, salt, lambda message: None)
        marks.append(site.answer(Task(COUNTS.name, 0, {}, {}, (0,))).arrays["marks"])
    assert not marks[0].any()
    assert (marks[1].sum(axis=1) == 1).all()
    assert (marks[1] != marks[2]).any()
    assert COMPARISON.every_site
