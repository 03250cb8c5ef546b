"""Sessions and claims: what a server or a site merely says must not count.

Promises end with no session; noise is paid for in every sum that has it; and neither a claimed weight, nor a claimed
number of rows, nor a first answer of another layout, owns the mean.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile_server import AUTHORITY, FOUR, NOTEARS, SEARCH, VICTIM, HostileServer, Result, Sites, always, registries

from feddag import FeddagError
from feddag.deployment.server import build_server, run_study
from feddag.federation import site_endpoint
from feddag.federation.differential_privacy import Accountant
from feddag.federation.identities import Trust
from feddag.federation.secure import messages
from feddag.federation.secure.site import SecureSite

ADMM = 'name = "notears-admm"\nparameters = { it_max = 2 }'
FEW_ROWS = (20, 20, 20, 20)
PRIVATE = (
    'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 2, it_fl = 20, seed = 1 }\n'
    "[privacy.differential]\nepsilon = 1.0\nrounds = 10\n"
)


def sums_charged_as_one(folder: Path) -> Result:
    """Have one noisy answer in several sums, or several answers for the price of one."""
    server = HostileServer(Sites(folder, PRIVATE))
    assert server.join()
    task = server.due()
    server.ask(task)
    server.ask(task)
    server.join()
    server.ask(task)
    server.ask(replace(task, numbers={**task.numbers, "rho": task.numbers["rho"] * (1 + 1e-8)}))  # as if rounded
    server.ask(task, members=FOUR[:3])
    different = {released.sum["words"] for released in server.released}
    charged = json.loads((server.sites.memory(VICTIM) / "privacy.json").read_text())["noise_multipliers"]
    return server.result(max(0, len(different) - len(charged)), 5)


def a_million_rows(folder: Path) -> Result:
    """Tell sites of far more rows than there are: by a false sum, and in a question."""
    server = HostileServer(Sites(folder / "claimed", SEARCH, registries(FEW_ROWS)))
    assert server.join()
    honest = server.ask()
    assert honest is not None
    server.believe(server.forge(honest, {"rows": np.array(250_000.0)}))
    recovered = int(server.ask() is not None)
    other = HostileServer(Sites(folder / "asked", ADMM))
    assert other.join()
    due = other.go_on_until(lambda task: "rows" in task.numbers)
    recovered += other.ask(replace(due, numbers={**due.numbers, "rows": 1e6})) is not None
    server.refusals += other.refusals
    other.close()
    return server.result(recovered, 2)


def _learn_with_a_liar(folder: Path, lie) -> tuple[dict[str, str], str]:
    """Have one site lie to an honest server; return who was turned away, and how the study ended."""
    sites = Sites(folder, NOTEARS)
    honest = sites.ends[FOUR[0]]._site.answer
    sites.ends[FOUR[0]]._site.answer = lambda task: lie(honest(task))

    def call(site):
        return lambda request, content, timeout: sites.reply(site, request, content)

    calls, trust = {site: call(site) for site in FOUR}, Trust(AUTHORITY.root)
    server = build_server(sites.study, calls, folder / "server", trust, sites.told.append)
    try:
        run_study(sites.study, server, lambda status: None, sites.told.append)
        ended = "learned"
    except FeddagError as error:
        ended = str(error)
    finally:
        sites.close()
    return server.refused, ended


def a_weight_beyond_all_rows(folder: Path) -> Result:
    """Claim, as a site, a weight of 10¹²: the mean would be that site's own."""
    refused, ended = _learn_with_a_liar(folder, lambda answer: replace(answer, weight=1e12))
    recovered = int(ended == "learned" or "claim a weight of 1e+12, and the study allows 1e+07" not in ended)
    return Result(1, recovered, Counter({"weight": 1} if not refused and not recovered else {}))


def another_layout_first(folder: Path) -> Result:
    """Answer, as the first site, with arrays of another form: the honest ones must not be turned away for it."""
    refused, _ = _learn_with_a_liar(
        folder, lambda answer: replace(answer, arrays={name: array[None] for name, array in answer.arrays.items()})
    )
    return Result(1, sum(site != FOUR[0] for site in refused), Counter({"layout": int(FOUR[0] in refused)}))


ATTACKS = (sums_charged_as_one, a_million_rows, a_weight_beyond_all_rows, another_layout_first)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_claim_is_refused(tmp_path, attack):
    result = attack(tmp_path)
    assert result.recovered == 0
    assert result.refusals.total()


def test_without_its_protection_a_claimed_number_of_rows_is_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(site_endpoint, "same_question", always(True))
    assert a_million_rows(tmp_path).recovered


def test_without_its_protection_a_claimed_weight_owns_the_mean(tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "read_total", lambda message, most, read=messages.read_total: read(message, 1e30))
    monkeypatch.setattr("feddag.federation.steps.read_total", messages.read_total)
    assert a_weight_beyond_all_rows(tmp_path).recovered


def test_without_its_protection_one_charge_pays_for_two_sums(tmp_path, monkeypatch):
    honest = Accountant.spend
    charged = []

    def once(accountant: Accountant, multiplier: float) -> None:
        if id(accountant) not in charged:
            honest(accountant, multiplier)
            charged.append(id(accountant))

    monkeypatch.setattr(Accountant, "spend", once)
    monkeypatch.setattr(SecureSite, "stands_for", always(False))
    assert sums_charged_as_one(tmp_path).recovered
