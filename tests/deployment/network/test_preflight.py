"""A study that cannot run over a network is refused before anybody joins; its terms are shown."""

from __future__ import annotations

import re

import pytest
from endpoints_by_call import LINEAR, NAMES, SIMULATION, Net, study_of

from feddag import FeddagError
from feddag.deployment.preflight import check_network, describe_terms
from feddag.deployment.site import check_site
from feddag.federation.policy import SHARING, Policy
from feddag.reports import write_report
from feddag.runs import Run

NOISE = "[privacy.differential]\nepsilon = 8.0\nrounds = 60\n"


@pytest.mark.parametrize("regime", ["all", "separate"])
def test_a_regime_that_needs_all_tables_is_refused(regime):
    study = study_of(f'name = "notears"\nregime = "{regime}"')
    with pytest.raises(FeddagError, match=f"the regime '{regime}' needs all tables in one process"):
        check_network(study)


def test_a_vote_is_counted_written_and_reported(tmp_path):
    study = study_of('name = "notears"\nregime = "voting"')
    check_network(study)
    result = Net(tmp_path / "net", study).learn()[0]
    brought = study.learner().restore(*result.snapshot())
    Run.start_federated(tmp_path / "run", study).learn_by(lambda progress: brought)
    assert "Each site learned alone" in write_report(tmp_path / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ['name = "notears"', 'name = "pc"\nregime = "voting"', LINEAR])
def test_methods_whose_answers_weigh_the_same_learn_with_noise(method):
    check_network(study_of(method.replace("seed = 1", 'seed = 1, weighting = "equal"'), more=NOISE))


@pytest.mark.parametrize("method", ["search", "feddag"])
def test_a_method_whose_answers_take_no_noise_is_refused(method):
    parameters = "" if method == "search" else '\nparameters = { weighting = "rows" }'
    with pytest.raises(FeddagError, match=re.escape(f"'{method}' cannot learn with [privacy.differential]")):
        check_network(study_of(f'name = "{method}"{parameters}', more=NOISE))


def test_a_policy_is_held_against_all_tasks_of_the_method_before_the_site_joins():
    policy = Policy(tasks=("moments.*",), sharing=SHARING)
    silo = SIMULATION.silos[0]
    with pytest.raises(FeddagError, match=r"tasks = \['moments.\*'\], but the study asks for 'feddag.solve'"):
        check_site(study_of(), silo, policy)
    check_site(study_of('name = "notears"'), silo, policy)


def test_a_policy_against_common_sums_refuses_the_default_search_and_names_the_choice():
    policy, silo = Policy(sharing=("graph", "none")), SIMULATION.silos[0]
    with pytest.raises(FeddagError, match=r"\['graph', 'none'\], but .* shares 'moments'.*sharing = \"graph\""):
        check_site(study_of('name = "search"'), silo, policy)
    check_site(study_of('name = "search"\nparameters = { sharing = "graph" }'), silo, policy)


def test_the_terms_name_quorum_protection_noise_and_knowledge():
    knowledge = '[knowledge]\nrequired = [["x0", "x1"]]\n'
    text = "\n".join(describe_terms(study_of(LINEAR, more=NOISE + knowledge)))
    assert f"quorum: 3 of {len(NAMES)} sites must answer, each within 600 seconds" in text
    assert "protection: secure sums" in text
    assert "noise: ε=8, δ=1e-05 for each site, over at most 60 rounds" in text
    assert "knowledge of the graph: 1 required" in text
    assert "moments.products" not in text
    assessed = "\n".join(describe_terms(study_of(more="[trust]\nassess = true\n")))
    assert f"quorum: 3 of {len(NAMES)} sites must answer (all of them: moments.sums, moments.products," in assessed
    search = "\n".join(describe_terms(study_of('name = "search"')))
    assert f"sites: all {len(NAMES)} must answer, since these sums mean nothing without one of them" in search
    open_study = "\n".join(describe_terms(study_of(secure=False)))
    assert "protection: none" in open_study
    assert "noise: none" in open_study
