"""A window on rows: a `scale` so small that sums of functions of the variables are about one row.

Sites sum functions of standardised values. Whoever chooses the frame in which values are standardised may make such
functions windows, move them over the range, and read row after row. So the frame
must be that of the study's learner, on the sums that the sites have really made.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile_server import FOUR, SEARCH, VICTIM, HostileServer, Result, Sites, always, registries

from feddag.federation import course, site_endpoint
from feddag.federation.protocol import Task
from feddag.federation.secure.site import SecureSite

ROWS = (150, 150, 150, 60)
SEVEN = ("aarau", "basel", "bern", "chur", "genf", "lyon", "zug")
FEDDAG = 'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 3, it_fl = 20, seed = 1 }'


def has_frame(task: Task) -> bool:
    """Return whether a task brings the frame in which sites standardise."""
    return "scale" in task.arrays


def server_of(folder: Path, tables=None) -> HostileServer:
    server = HostileServer(Sites(folder, SEARCH, registries(ROWS) if tables is None else tables))
    assert server.join()
    return server


def with_arrays(task: Task, **arrays: np.ndarray) -> Task:
    return replace(task, arrays={**task.arrays, **arrays})


def crafted_scale(folder: Path) -> Result:
    """Ask for sums in a frame of the server's own."""
    server = server_of(folder)
    due = server.go_on_until(has_frame)
    scale, origin = due.arrays["scale"], due.arrays["origin"]
    one = np.where(np.arange(len(scale)) == 0, 1e-3, scale)
    crafted = [
        with_arrays(due, scale=np.full_like(scale, 1e-3)),
        with_arrays(due, scale=one),
        with_arrays(due, scale=one, origin=np.round(origin)),
        with_arrays(due, scale=1e6 * scale),
        with_arrays(due, scale=scale * (1 + 1e-5)),
        with_arrays(due, origin=origin + 0.1),
        with_arrays(due, rows=np.array(10**6)),
        replace(due, round=due.round + 1),
    ]
    recovered = sum(server.ask(task) is not None for task in crafted)
    if not recovered:
        assert server.go_on()  # the method's own question is answered still
    return server.result(recovered, len(crafted))


def crafted_scale_of_small_units(folder: Path) -> Result:
    """Let one column's units be so large that rounding seems to allow any scale of another."""
    tables = {site: table.assign(age=1e-8 * table.age, bmi=1e5 * table.bmi) for site, table in registries(ROWS).items()}
    server = server_of(folder, tables)
    due = server.go_on_until(has_frame)
    place = int(due.arrays["scale"].argmin())
    scales = [
        np.where(np.arange(4) == place, due.arrays["scale"] * factor, due.arrays["scale"]) for factor in (1e-3, 3)
    ]
    recovered = sum(server.ask(with_arrays(due, scale=scale)) is not None for scale in scales)
    return server.result(recovered, len(scales))


def forged_sum(folder: Path) -> Result:
    """Tell all sites of variances so small that the learner itself asks for the window."""
    tries = (1e-6, 1.0)
    recovered, server = 0, None
    for place, variance in enumerate(tries):
        server = server_of(folder / str(place))
        server.go_on_until(lambda task: "mean" in task.arrays and not has_frame(task))
        honest = server.ask()
        assert honest is not None
        mean = honest.total.mean["variance"]
        server.believe(server.forge(honest, {"variance": np.full_like(mean, variance)}))
        assert has_frame(server.due())
        recovered += server.ask() is not None
        server.close()
    assert server is not None
    return server.result(recovered, len(tries))


def invented_sums(folder: Path) -> Result:
    """Tell the sites of rounds that never were."""
    survivors = (FOUR, FOUR[:3], FOUR[1:])
    recovered, server = 0, None
    for place, named in enumerate(survivors):
        server = server_of(folder / str(place))
        for arrays, weight in (
            ({"rows": np.array(127.5)}, 4.0),
            ({"mean": np.array([60.0, 25.0, 130.0, 70.0])}, 510.0),
            ({"variance": np.full(4, 1e-6)}, 510.0),
        ):
            server.believe(server.invent(arrays, weight=weight, survivors=named))
        recovered += server.ask() is not None
        recovered += server.ask(members=[site for site in FOUR if site not in named]) is not None
        server.close()
    assert server is not None
    return server.result(recovered, 2 * len(survivors))


def unfinished_sum(folder: Path) -> Result:
    """Have the sites mask their numbers, give the round up, and tell them of a sum that the server made."""
    recovered, server = 0, None
    for place, phase in enumerate(("mask", "confirm", "reveal")):
        server = server_of(folder / str(place))
        server.go_on_until(lambda task: "mean" in task.arrays and not has_frame(task))
        assert server.ask(silent=dict.fromkeys(FOUR, phase)) is None
        server.believe(server.invent({"variance": np.full(4, 1e-6)}, weight=510.0))
        recovered += server.ask() is not None
        server.close()
    assert server is not None
    return server.result(recovered, 3)


def true_words_read_otherwise(folder: Path) -> Result:
    """Show the true sum as numbers of another type or shape: the learner would read other variances."""
    layouts = ([["variance", "|u1", [4]]], [["variance", "<f2", [4]]], [["mean", "<f8", [4]]])
    recovered, server = 0, None
    for place, layout in enumerate(layouts):
        server = server_of(folder / str(place))
        server.go_on_until(lambda task: "mean" in task.arrays and not has_frame(task))
        honest = server.ask()
        assert honest is not None
        server.believe(honest.sum | {"layout": layout})
        recovered += server.call(FOUR[0], "work", server.question(3, honest.task)).get("refusal") != "course"
        server.close()
    assert server is not None
    return server.result(recovered, len(layouts))


def sum_forged_for_one_site(folder: Path) -> Result:
    """Show a false sum to one site alone: one that was in it, then one that had no part in it and cannot tell."""
    server = server_of(folder / "all")
    server.go_on_until(has_frame)
    step = server.steps[-1]
    false = step.__class__(step.task, step.decisions, server.forge(server.released[-1], {"variance": np.full(4, 1e-6)}))
    recovered = int(server.ask(steps={VICTIM: [*server.steps[:-1], false]}) is not None)
    server.close()

    tables = registries([40] * 7, SEVEN)
    some = HostileServer(Sites(folder / "some", FEDDAG, tables, more="[federation]\nquorum = 4\n"))
    assert some.join()
    for _ in range(2):
        some.go_on(SEVEN[:4])
    step = some.steps[-1]
    graph = some.released[-1].total.mean["graph"]
    false = step.__class__(step.task, step.decisions, some.forge(some.released[-1], {"graph": graph + 1.0}))
    recovered += some.ask(steps={SEVEN[6]: [*some.steps[:-1], false]}) is not None
    assert some.refusals["question"] == 1  # it would ask otherwise after that sum, and says so
    due_there = _due_after(some, false)
    recovered += some.ask(due_there, steps={SEVEN[6]: [*some.steps[:-1], false]}) is not None
    server.refusals += some.refusals
    some.close()
    return server.result(recovered, 3)


def _due_after(server: HostileServer, false) -> Task:
    """Return what a site would be asked that believes a false last step."""
    other = HostileServer(server.sites)
    for step in (*server.steps[:-1], false):
        other.course.add(step)
    due = other.due()
    other.course.close()
    return due


def course_of_another_study(folder: Path) -> Result:
    """Show the sites the sums of another study, of tables in which all values lie close together."""
    narrow = {site: 1e-3 * table + 60 for site, table in registries(ROWS).items()}
    other = HostileServer(Sites(folder / "other", SEARCH, narrow, name="other"))
    assert other.join()
    other.go_on_until(has_frame)
    server = server_of(folder / "study")
    for step, released in zip(other.steps, other.released, strict=True):
        server.believe(step.result, released.task)
    recovered = int(server.ask() is not None)
    assert np.abs(server.due().arrays["scale"]).max() < 0.1
    other.close()
    return server.result(recovered, 1)


@pytest.mark.parametrize(
    ("attack", "reasons"),
    [
        (crafted_scale, {"question"}),
        (crafted_scale_of_small_units, {"question"}),
        (forged_sum, {"course"}),
        (invented_sums, {"course"}),
        (unfinished_sum, {"course"}),
        (true_words_read_otherwise, {"course"}),
        (sum_forged_for_one_site, {"course", "question"}),
        (course_of_another_study, {"course"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_sum_leaves_for_a_frame_that_the_sites_own_sums_do_not_lead_to(tmp_path, attack, reasons):
    result = attack(tmp_path)
    assert result.recovered == 0
    assert reasons <= set(result.refusals)
    assert set(result.refusals) <= reasons | {"protocol", "roster"}


def close_by_the_largest(one: np.ndarray, other: np.ndarray) -> bool:
    one, other = one.astype(float), other.astype(float)
    return bool((np.abs(one - other) <= 1e-12 * np.abs(one).max()).all())


@pytest.mark.parametrize(
    ("attack", "holder", "name", "without"),
    [
        (crafted_scale, site_endpoint, "same_question", always(True)),
        (crafted_scale_of_small_units, course, "_close", close_by_the_largest),
        (forged_sum, SecureSite, "check_sum", always(None)),
        (invented_sums, SecureSite, "check_sum", always(None)),
        (unfinished_sum, SecureSite, "check_sum", always(None)),
        (true_words_read_otherwise, SecureSite, "check_sum", always(None)),
        (course_of_another_study, SecureSite, "check_sum", always(None)),
    ],
)
def test_without_its_protection_the_attack_succeeds(tmp_path, monkeypatch, attack, holder, name, without):
    monkeypatch.setattr(holder, name, without)
    assert attack(tmp_path).recovered
