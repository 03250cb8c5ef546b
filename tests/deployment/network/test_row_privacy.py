"""Privacy of rows over a network: one release, charged to the table by every site, and nothing that wins it back."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from endpoints_by_call import NAMES, SIMULATION, Net, from_round, lose

from feddag import FeddagError
from feddag.federation.audit import read_entries
from feddag.federation.calls import PausedError
from feddag.federation.policy import Policy
from feddag.federation.row_privacy import RowPrivacy, epsilon_for, multiplier_for
from feddag.federation.site_endpoint import audit_log
from feddag.learners.private_search import FRAMED, ROUGH
from feddag.learners.search.released import frame_of
from feddag.regression.frames import FramedMap
from feddag.study import Study

EPSILON = 8.0


def private_study(name="test", *, parameters='mechanisms = "linear"', epsilon=EPSILON):
    variables = "\n".join(
        f"{each} = {{ type = 'continuous', range = [-8, 8] }}" for each in SIMULATION.silos[0].columns
    )
    sites = "\n".join(f"[sites.{each}]" for each in NAMES)
    return Study.parse(
        f'name = "{name}"\n[variables]\n{variables}\n[method]\nname = "private-search"\n'
        f"parameters = {{ {parameters} }}\n"
        f"{sites}\n[privacy.rows]\nepsilon = {epsilon}\ndelta = 1e-6\nexpected_rows = 300\n"
    )


def ledger(net, site):
    (path,) = (net.folder / site / "tables").glob("*/row-privacy.json")
    return path


def releases(net, site):
    return json.loads(ledger(net, site).read_text())["releases"]


def noise_of(learner, silos):
    """Return the noise of each release, over what was planned."""
    columns, features, left = silos[0].columns, learner.features(silos[0].columns), learner.release_
    for spec in (ROUGH, FRAMED):
        deviation = learner.plan(columns, len(silos), spec).share_deviation * np.sqrt(len(silos))
        entries, left = left[: features.entries], left[features.entries :]
        yield (entries - sum(features.products(silo.values) for silo in silos)) / deviation
        if spec is ROUGH:
            features = FramedMap.of(features, **frame_of(features, entries, deviation))


def test_the_releases_are_sums_of_all_rows_under_the_planned_noise_and_each_site_is_charged_for_both(tmp_path):
    net = Net(tmp_path, private_study())
    learner, _ = net.learn()
    assert (learner.release_ == np.rint(learner.release_)).all()
    for noise in noise_of(learner, SIMULATION.silos):
        assert 0 < np.abs(noise).max() < 5
        assert 0.5 < noise.std() < 1.7
    for site in NAMES:
        charged = releases(net, site)
        assert [each["study"] for each in charged] == [net.study.digest] * 2
        precision = sum(multiplier_for(each["epsilon"], each["delta"]) ** -2 for each in charged)
        assert epsilon_for(precision**-0.5, 1e-6) == pytest.approx(EPSILON, rel=1e-4)
        assert all(each["epsilon"] < EPSILON for each in charged)


def test_two_studies_of_one_table_draw_on_one_budget(tmp_path):
    Net(tmp_path, private_study()).learn()
    net = Net(tmp_path, private_study("another"))
    net.folder = tmp_path / "server-2"
    with pytest.raises((FeddagError, PausedError)):
        net.learn()
    assert any("does not fit the privacy budget of the site 'site-0" in each for each in net.told)
    for site in NAMES:
        (path,) = (tmp_path / site / "tables").glob("*/row-privacy.json")
        assert len(json.loads(path.read_text())["releases"]) == 2


def test_a_site_that_starts_again_sends_the_same_noise_and_is_charged_once(tmp_path):
    net = Net(tmp_path, private_study(parameters="restarts = 0"))
    net.before = lose("confirm", *NAMES[:2])
    with pytest.raises(PausedError):
        net.learn()
    first = releases(net, NAMES[0])
    answer = net.sites[NAMES[0]]._memory.answer
    net.let_through()
    net.start(SIMULATION.silos[0])
    net.learn()
    assert net.sites[NAMES[0]]._memory.answer == answer
    assert releases(net, NAMES[0]) == first


@pytest.mark.parametrize("request_", ["work", "mask"])
def test_the_noise_of_the_quorum_suffices_when_a_site_is_lost(tmp_path, request_):
    net = Net(tmp_path, private_study())
    net.before = lose(request_, NAMES[2])
    learner, server = net.learn()
    assert server.summed == net.study.federation.quorum == 3
    precision = 0.0
    for spec in (ROUGH, FRAMED):
        plan = learner.plan(SIMULATION.silos[0].columns, len(NAMES), spec)
        assert plan.shares == 2  # one of the three knows its own share
        precision += (plan.share_deviation * np.sqrt(2) / plan.sensitivity) ** -2
    assert epsilon_for(precision**-0.5, 1e-6) <= EPSILON


def test_a_site_that_is_lost_between_the_releases_must_come_back(tmp_path):
    """Sums of four sites and of three would tell about one; what was released is not released again."""
    net = Net(tmp_path, private_study())
    net.before = lose("work", NAMES[2], when=from_round(1))
    with pytest.raises((FeddagError, PausedError)):
        net.learn()
    first = releases(net, NAMES[0])
    net.let_through()
    net.learn()
    assert len(releases(net, NAMES[0])) == 2
    assert releases(net, NAMES[0])[:1] == first[:1]


def test_a_ledger_restored_from_a_backup_is_found_out(tmp_path):
    net = Net(tmp_path, private_study())
    before = tmp_path / "backup"
    shutil.copytree(tmp_path / NAMES[0] / "tables", before)
    net.learn()
    shutil.rmtree(tmp_path / NAMES[0] / "tables")
    shutil.copytree(before, tmp_path / NAMES[0] / "tables")
    with pytest.raises(FeddagError, match=r"holds 0 releases, and .* knows of 2: the ledger was restored"):
        Net(tmp_path, private_study("another"))


def test_a_ledger_that_was_changed_is_refused(tmp_path):
    net = Net(tmp_path, private_study())
    net.learn()
    path = ledger(net, NAMES[0])
    path.write_text(path.read_text().replace('"epsilon": ', '"epsilon": 0.0001'))
    with pytest.raises(FeddagError, match="does not tell what this table has spent"):
        net.start(SIMULATION.silos[0])


def test_the_audit_log_names_the_guarantee_and_the_state_of_the_ledger(tmp_path):
    net = Net(tmp_path, private_study())
    net.learn()
    entries = read_entries(audit_log(net.memory(NAMES[0])))
    words = dict.fromkeys(each["protection"] for each in entries if "row-dp" in str(each.get("protection", "")))
    for place, (each, charged) in enumerate(zip(words, releases(net, NAMES[0]), strict=True), start=1):
        assert f"secure sum + row-dp(ε=8, δ=1e-06) + ledger({place} of this table" in each
        assert charged["digest"][:16] in each


def test_a_policy_refuses_a_study_that_reveals_too_much(tmp_path):
    with pytest.raises(FeddagError, match=r"row_epsilon = 10.0, but the study releases within ε=20"):
        Net(tmp_path, private_study(epsilon=20))
    Policy(row_epsilon=25.0).check_row_privacy(RowPrivacy(20.0, 1e-6))


def test_noise_from_a_seed_is_refused_on_a_network(tmp_path):
    with pytest.raises(FeddagError, match="noise_seed is for simulations"):
        Net(tmp_path, private_study(parameters="noise_seed = 1"))


def test_a_table_that_narrower_ranges_have_changed_has_no_fresh_budget(tmp_path):
    """The attack: clamp every column anew, so that the table is not known again and its ledger begins anew."""
    Net(tmp_path, private_study()).learn()
    content = private_study("another").document()
    for name in content["variables"]:
        content["variables"][name]["range"] = [-0.5, 0.5]
    net = Net(tmp_path, Study.of(content))
    net.folder = tmp_path / "server-2"
    with pytest.raises((FeddagError, PausedError)):
        net.learn()
    assert any("does not fit the privacy budget of the site 'site-0" in each for each in net.told)
    assert len(list((tmp_path / NAMES[0] / "tables").glob("*/columns.json"))) == 2  # it does look new
