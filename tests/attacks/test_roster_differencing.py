"""Roster differencing: two sums that differ by one site tell what that site sent.

A server repeats a task with other members, in whatever way it can, or compares sums of different rounds, sessions and
studies. What counts is linear algebra over all sums that it could read: no combination may be about fewer sites than
the policies allow.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hostile_server import (
    AVERAGING,
    FOUR,
    NOTEARS,
    PHASES,
    VICTIM,
    HostileServer,
    Result,
    Sites,
    always,
    isolated,
    registries,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feddag import FeddagError
from feddag.federation import tables as table_memory
from feddag.federation.rosters import RosterLedger
from feddag.federation.secure.site import SecureSite
from feddag.federation.site_endpoint import SiteEndpoint

OTHERS = FOUR[:3]
SEVEN = ("aarau", "basel", "bern", "chur", "genf", "lyon", VICTIM)
HALF_OF_SEVEN = "[federation]\nquorum = 4\n"


def server_of(folder: Path, method: str = NOTEARS, **options) -> HostileServer:
    server = HostileServer(Sites(folder, method, **options))
    assert server.join()
    return server


def same_session(folder: Path) -> Result:
    """Ask again without the victim, at once."""
    servers = [server_of(folder / method[8:15], method) for method in (NOTEARS, AVERAGING)]
    for server in servers:
        if "admm" in server.due().name:
            server.go_on()  # how many rows there are; the next question may do without some sites
        first = server.ask()
        assert first is not None
        server.ask(first.task, members=OTHERS)
        server.ask(first.task, members=OTHERS, round_=first.round + 1)
    return _result(servers, 4)


def new_session(folder: Path) -> Result:
    """Join again with all but the victim: no site may forget with a session what it has promised."""
    server = server_of(folder, AVERAGING)
    server.go_on()
    first = server.ask()
    assert first is not None
    server.join(OTHERS)
    server.ask(first.task, members=OTHERS)
    server.join()
    server.ask(first.task, members=OTHERS)
    return _result([server], 2)


def after_a_restart(folder: Path) -> Result:
    """Wait until all sites have been started anew."""
    server = server_of(folder, AVERAGING)
    server.go_on()
    first = server.ask()
    assert first is not None
    for site in FOUR:
        server.sites.start(site)
    server.join(OTHERS)
    server.ask(first.task, members=OTHERS)
    return _result([server], 1)


def second_study(folder: Path) -> Result:
    """Have the same tables in a study without the victim: under another kit, in other units, at the same time."""
    tables = registries()
    first = server_of(folder, tables=tables)
    others = {site: tables[site] for site in OTHERS}
    renamed = {site: (2.54 * table).rename(columns={"age": "years"}) for site, table in others.items()}
    waiting = server_of(folder, tables=others, name="waiting", kit="third")  # began before there was any sum
    first.go_on()
    later = [
        server_of(folder, tables=others, name="again", kit="second"),
        server_of(folder, tables=renamed, name="renamed"),
        waiting,
    ]
    for server in later:
        server.ask()
    return _result([first, *later], len(later))


def study_that_begins_anew(folder: Path) -> Result:
    """Have the study begin anew, under the next number or as one that follows, and ask then without the victim."""
    first = server_of(folder, AVERAGING)
    first.go_on()
    assert first.ask() is not None
    anew = ("attempt = 2", f'follows = "{first.terms.study}"')
    later = [server_of(folder, AVERAGING, first=line, kit=f"kit-{place}") for place, line in enumerate(anew)]
    for server in later:
        server.go_on()
        server.ask(members=OTHERS)
    return _result([first, *later], len(later))


def second_study_of_levels(folder: Path) -> Result:
    """Have tables of nothing but answers from 0 to 4 in a study without the victim, and without one of the columns."""
    tables = {site: (table.rank(pct=True) * 4).round() for site, table in registries().items()}
    first = server_of(folder, tables=tables)
    first.go_on()
    others = {site: tables[site].drop(columns="age") for site in OTHERS}
    second = server_of(folder, tables=others, name="fewer", kit="second")
    second.ask()
    return _result([first, second], 1)


def second_study_of_rows_in_another_order(folder: Path) -> Result:
    """Have the same rows in a study without the victim, as a database gives them that promises no order."""
    tables = registries()
    first = server_of(folder, tables=tables)
    first.go_on()
    shuffled = {site: tables[site].sample(frac=1, random_state=1) for site in OTHERS}
    second = server_of(folder, tables=shuffled, name="shuffled", kit="second")
    second.ask()
    return _result([first, second], 1)


def second_study_of_a_few_rows_less(folder: Path) -> Result:
    """Have a study of a variable that some rows lack, so that they are dropped: the rest is about these rows."""
    tables, tries, studies = registries(), (1, 4), []
    studies.append(server_of(folder, tables=tables))
    studies[0].go_on()
    refused = 0
    for lacking in tries:
        fewer = {site: table.iloc[lacking:] for site, table in tables.items()}
        try:
            studies.append(server_of(folder, tables=fewer, name=f"without-{lacking}", kit="second"))
        except FeddagError as error:
            refused += f"would tell about {lacking} row" in str(error)
    for server in studies:
        server.close()
    return Result(len(tries), len(studies) - 1, Counter({"not joined": refused}))


def third_study_of_columns_that_were_apart(folder: Path) -> Result:
    """Have all sites in a study of some columns, three in one of the others, and then in one of both."""
    tables = registries()
    all_sites = server_of(folder, tables={site: table[["age", "bmi"]] for site, table in tables.items()})
    all_sites.go_on()
    apart = [["pressure", "glucose"], ["age", "pressure"], ["bmi", "glucose"], ["age", "glucose"]]
    later = []
    for place, columns in enumerate(apart):
        some = {site: tables[site][columns] for site in OTHERS}
        later.append(server_of(folder, tables=some, name=f"study-{place}", kit=f"kit-{place}"))
        later[-1].ask()
    found = Result(len(apart) - 1, isolated(all_sites, *later[1:]))
    for server in (all_sites, *later):
        found.refusals.update(server.refusals)
        server.close()
    return found


def lost_at_each_phase(folder: Path) -> Result:
    """Say that the victim was lost, at each phase of the sum, before and after a sum with it."""
    servers = []
    for phase in PHASES:
        for victim_first in (True, False):
            server = server_of(folder / f"{phase}-{victim_first}", AVERAGING)
            server.go_on()
            for lost in ({}, {VICTIM: phase}) if victim_first else ({VICTIM: phase}, {}):
                server.ask(silent=lost)
            servers.append(server)
    return _result(servers, len(servers))


def over_rounds(folder: Path) -> Result:
    """Let members change from round to round of a method that averages: its answers change little."""
    server = server_of(folder, AVERAGING)
    tries = 0
    server.go_on()
    for members in (OTHERS, FOUR[1:], FOUR, OTHERS):
        found = server.ask(members=members)
        if found is not None:
            server.believe(found.sum, found.task)
        tries += 1
    return _result([server], tries)


def sums_that_no_site_knows_all_of(folder: Path) -> Result:
    """Choose members so that each site is in few of the sums, which together are about one site."""
    server = server_of(folder, AVERAGING, tables=registries([40] * 7, SEVEN), more=HALF_OF_SEVEN)
    server.go_on()
    a, b, c, d, e, f, _ = SEVEN
    tries = ((a, b, c, d), (a, b, e, f), (c, d, e, f))
    for members in tries:
        found = server.ask(members=members)
        if found is not None:
            server.believe(found.sum, found.task)
    return _result([server], len(tries))


def answers_of_two_rounds_in_one_sum(folder: Path) -> Result:
    """Open a sum, ask the victim the next question, and have its new answer summed with the others' old ones."""
    server = server_of(folder, AVERAGING)
    server.go_on()
    honest = server.ask()
    assert honest is not None
    again = server.open(honest.task)
    again.work(FOUR)
    server.believe(honest.sum, honest.task)
    server.call(VICTIM, "work", server.question(2, server.due()) | {"opening": {}})
    recovered = 0
    with suppress(FeddagError):
        again.mask(FOUR)
        again.confirm(FOUR)
        mixed = again.reveal(FOUR)
        recovered = int(
            any(np.abs(mixed.total.mean[name] - mean).max() > 0 for name, mean in honest.total.mean.items())
        )
    return server.result(recovered, 1)


def question_worded_anew(folder: Path) -> Result:
    """Ask one site once more, with numbers that pass for rounding: the difference is a derivative of its own."""
    server = server_of(folder, NOTEARS)
    server.go_on()
    first = server.ask()
    assert first is not None
    anew = type(first.task)(
        first.task.name,
        first.task.round,
        first.task.numbers,
        {"mean": first.task.arrays["mean"] * (1 + 1e-8)},
        first.task.participants,
    )
    recovered = int(server.ask(anew) is not None)
    mixed = server.open(first.task)
    mixed.work(OTHERS)
    server.call(VICTIM, "work", server.question(1, first.task) | {"opening": mixed._round.opening()})
    server.call(VICTIM, "work", server.question(1, anew) | {"opening": {}})
    with suppress(FeddagError):
        for phase in (mixed.mask, mixed.confirm, mixed.reveal):
            phase(FOUR)
        recovered += server.released[-1].total.mean["products"].tolist() != first.total.mean["products"].tolist()
    return server.result(recovered, 2)


def _result(servers: list[HostileServer], tries: int) -> Result:
    found = Result(tries, isolated(*servers) if _one_table(servers) else sum(map(isolated, servers)))
    for server in servers:
        found.refusals.update(server.refusals)
        server.close()
    return found


def _one_table(servers: list[HostileServer]) -> bool:
    return len({server.sites.folder for server in servers}) == 1


ATTACKS = (
    same_session,
    new_session,
    after_a_restart,
    second_study,
    study_that_begins_anew,
    second_study_of_levels,
    second_study_of_rows_in_another_order,
    second_study_of_a_few_rows_less,
    third_study_of_columns_that_were_apart,
    lost_at_each_phase,
    over_rounds,
    sums_that_no_site_knows_all_of,
    answers_of_two_rounds_in_one_sum,
    question_worded_anew,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_no_site_is_isolated(tmp_path, attack):
    result = attack(tmp_path)
    assert result.recovered == 0
    assert set(result.refusals) & {"roster", "course", "question", "protocol", "not joined"}


_confirm, _enter = SecureSite.confirm, RosterLedger.enter


def _of_own_sums(ledger: RosterLedger, site: str, answer: str, members, minimum_sites: int, *of_others) -> None:
    del of_others
    _enter(ledger, site, answer, members, minimum_sites)


def _promising_nothing(site: SecureSite, *arguments):
    site._awaited = None
    return _confirm(site, *arguments)


_all_folders = table_memory.table_folders


def _first_folder(*arguments):
    """Return one of the memories of a table: the one that knows least, as it may happen to be."""
    return min(([folder] for folder in _all_folders(*arguments)), key=lambda each: _rosters_known(each[0]))


def _rosters_known(folder: Path) -> int:
    path = folder / "rosters.json"
    return max(map(len, json.loads(path.read_bytes())["rosters"])) if path.exists() else 0


FORGETFUL = [(RosterLedger, "enter", always(None)), (SecureSite, "confirm", _promising_nothing)]


@pytest.mark.parametrize(
    ("attack", "switched_off"),
    [
        (same_session, FORGETFUL),
        (new_session, FORGETFUL),
        (after_a_restart, FORGETFUL),
        (lost_at_each_phase, FORGETFUL),
        (question_worded_anew, [*FORGETFUL, (SecureSite, "stands_for", always(False))]),
        (second_study, [(RosterLedger, "enter", always(None))]),
        (study_that_begins_anew, [(RosterLedger, "enter", always(None))]),
        (second_study_of_levels, [(table_memory, "_TELLING_CHANGES", 100)]),
        (second_study_of_rows_in_another_order, [(table_memory, "_is_alike", always(False))]),
        (second_study_of_a_few_rows_less, [(table_memory.TableMemory, "_check_rows", always(None))]),
        (third_study_of_columns_that_were_apart, [(table_memory, "table_folders", _first_folder)]),
        (over_rounds, [(RosterLedger, "enter", always(None))]),
        (sums_that_no_site_knows_all_of, [(RosterLedger, "enter", _of_own_sums)]),
        (answers_of_two_rounds_in_one_sum, [(SiteEndpoint, "_check_sum_of_last_answer", always(None))]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch, attack, switched_off):
    for holder, name, without in switched_off:
        monkeypatch.setattr(holder, name, without)
    assert attack(tmp_path).recovered


def test_a_quorum_of_half_the_sites_is_refused_since_two_groups_could_go_on_without_each_other(tmp_path):
    with pytest.raises(FeddagError, match=r"the study's quorum is 3 of 7 sites.* Agree on a quorum of 4"):
        Sites(tmp_path, AVERAGING, registries([40] * 7, SEVEN), more="[federation]\nquorum = 3\n")


MEMBERS = st.sets(st.sampled_from(SEVEN[:5]), min_size=2)
ACTIONS = st.one_of(
    st.tuples(
        st.just("ask"), MEMBERS, st.dictionaries(st.sampled_from(SEVEN[:5]), st.sampled_from(PHASES), max_size=2)
    ),
    st.tuples(st.just("join"), MEMBERS, st.just({})),
    st.tuples(st.just("restart"), MEMBERS, st.just({})),
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=st.lists(ACTIONS, min_size=4, max_size=9))
def test_whatever_a_server_does_in_whatever_order_no_combination_of_sums_is_about_too_few_sites(
    tmp_path_factory, actions
):
    tables = registries([30] * 5, SEVEN[:5])
    server = server_of(tmp_path_factory.mktemp("sites"), AVERAGING, tables=tables)
    server.go_on()
    for kind, members, silent in actions:
        if kind == "ask" and len(members) > 1:
            try:
                found = server.ask(members=members, silent=silent)
            except AssertionError:
                found = None
            if found is not None:
                server.believe(found.sum, found.task)
        elif kind == "join":
            server.join(members)
        else:
            for site in members:
                server.sites.start(site)
    assert not isolated(server)
    server.close()
