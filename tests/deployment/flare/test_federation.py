"""Real processes over real sockets with certificates: what they learn, what they refuse, and what stays where."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from flare_processes import PATIENCE, Federation, wait_until

import feddag
from feddag.deployment.flare.analyst import Analyst
from feddag.deployment.flare.job import write_job
from feddag.deployment.flare.kits import Kit
from feddag.federation.audit import verify
from feddag.trust import Assessment, assess

pytestmark = pytest.mark.slow  # .ci/run runs it

STUDY = {
    "method": 'name = "feddag"\nparameters = { sharing = "all", model = "linear", it_max = 4, it_fl = 500 }',
    "privacy": "[trust]\nassess = true",
}


def test_four_sites_learn_what_one_process_learns(finished):
    there = feddag.load(finished.folder / "run")
    here = finished.study.learner().fit(finished.simulation)
    np.testing.assert_allclose(there.U_, here.U_, rtol=1e-5, atol=1e-7)
    assert there.graph_.edges == here.graph_.edges


def test_the_graph_is_held_against_the_sites_rows_as_one_process_does(finished):
    there = Assessment.from_json((finished.folder / "run" / "trust.json").read_text())
    here = assess(feddag.load(finished.folder / "run"), finished.simulation)
    assert (there.verdict, there.warnings) == (here.verdict, here.warnings)
    assert there.verdict in finished.log("analyst")


def test_every_site_sends_one_protected_matrix_a_round_and_its_log_says_so(finished):
    rounds = finished.rounds - 4  # of the checks
    participations = 0
    for name in finished.names:
        summary = verify(finished.memory(name) / "audit.jsonl")
        sent = [flow for flow in summary.flows if flow.direction == "out" and flow.task == "feddag.solve"]
        assert {(flow.protection, flow.sites) for flow in sent} == {("secure sum", 4)}
        assert {shape for flow in sent for shape in flow.arrays["graph"]} == {("float32", 4, 4)}
        participations += sum(flow.messages for flow in sent)
        # 16 bytes for each of 4 x 4 numbers, for the weight, and for the count of clamped numbers
        assert sum(flow.bytes for flow in sent) == 18 * 16 * sum(flow.messages for flow in sent)
    assert participations == 4 * rounds


def test_no_value_of_any_table_is_on_the_server_s_or_the_analyst_s_disk(finished):
    stored = b"".join(
        path.read_bytes()
        for folder in (finished.kits["server"], finished.kits["analyst"], finished.folder / "run")
        for path in Path(folder).rglob("*")
        if path.is_file()
    )
    for silo in finished.simulation.silos:
        for value in silo.values.ravel():
            assert np.float64(value).tobytes() not in stored
            assert repr(float(value)).encode() not in stored


def test_the_analyst_reads_that_the_study_starts_before_it_has_begun(finished):
    log = finished.log("analyst")
    assert all(name in log[log.index("Starting at") : log.index("4 of 4 sites take part")] for name in finished.names)


def test_the_status_names_every_site(finished):
    shown = finished.command("federation", "status", "--kit", finished.kits["analyst"])
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in finished.names)


def test_the_audit_of_a_site_reads_in_plain_words(finished):
    shown = finished.command("audit", finished.memory(finished.names[0]) / "audit.jsonl")
    assert shown.returncode == 0
    assert "secure sum" in shown.stdout


def test_a_job_that_carries_code_is_refused(finished, tmp_path):
    job = tmp_path / "evil"
    write_job(job, "evil", finished.study.digest, finished.names, 3, 60.0)
    marker = tmp_path / "marker"
    custom = job / "app" / "custom"
    custom.mkdir()
    (custom / "evil.py").write_text(
        f"class Evil:\n    def __init__(self):\n        open({str(marker)!r}, 'w').close()\n"
    )
    config = job / "app" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text())
    content["components"].append({"id": "evil", "path": "evil.Evil"})
    config.write_text(json.dumps(content))
    assert _ended(finished, job) != "FINISHED:COMPLETED"
    assert not marker.exists()


def test_a_job_that_names_another_class_is_refused(finished, tmp_path):
    job = tmp_path / "other"
    write_job(job, "other", finished.study.digest, finished.names, 3, 60.0)
    config = job / "app" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text())
    content["components"].append({"id": "other", "path": "nvflare.app_common.np.np_trainer.NPTrainer"})
    config.write_text(json.dumps(content))
    assert _ended(finished, job) != "FINISHED:COMPLETED"


def _ended(federation: Federation, job: Path) -> str:
    """How a job ends that somebody submits with the analyst's own kit; also a refusal to take it."""
    analyst = Analyst(Kit.open(federation.kits["analyst"], "analyst"), federation.study, print)
    try:
        number = analyst._once(lambda session: session.submit_job(str(job)))
        outcome = analyst._once(lambda session: session.wait_for_job(number, timeout=PATIENCE))
        return str(outcome.get("status"))
    except feddag.FeddagError as error:
        return str(error)
    finally:
        analyst.close_quietly()


def test_a_finished_study_is_not_run_again(finished):
    again = finished.run()
    assert again.wait(PATIENCE) == 0
    assert "has this study's result already" in finished.log("analyst")
    assert feddag.load(finished.folder / "run").sites_ == tuple(finished.names)


def test_the_last_words_of_a_job_reach_the_analyst_and_the_run(finished):
    first = json.loads((finished.folder / "run" / "run.json").read_text())["federation"]
    assert any("4 of 4 sites take part" in message for message in first["messages"])
    assert first["from_journal"] == 0
    assert finished.run("again").wait(PATIENCE) == 0
    second = json.loads((finished.folder / "again" / "run.json").read_text())["federation"]
    assert second["from_journal"] == first["rounds"]
    told = f"All {first['rounds']} rounds come from the server's journal"
    assert any(told in message for message in second["messages"])
    assert told in finished.log("analyst")
    report = finished.command("report", finished.folder / "again", "--format", "md")
    assert report.returncode == 0, report.stderr
    assert told in (finished.folder / "again" / "report.md").read_text()


def test_a_second_process_on_a_kit_is_refused(finished):
    name = finished.names[0]
    kit, table = finished.kits[name], finished.table(name)
    shown = finished.command("site", "--kit", kit, "--data", table, *finished.options)
    assert shown.returncode == 2
    assert "another process runs this kit" in shown.stderr


def test_kits_are_for_their_owners_eyes_only(finished):
    for folder in finished.kits.values():
        assert folder.stat().st_mode & 0o077 == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in (folder / "startup").iterdir())


def test_a_kit_of_another_federation_is_not_let_in(finished, tmp_path):
    stranger = Federation(tmp_path, STUDY["method"])
    site = finished.names[0]
    kit = stranger.kits[site]
    # the address of the server, but a foreign certificate
    shutil.copyfile(finished.kits[site] / "startup" / "fed_client.json", kit / "startup" / "fed_client.json")
    stranger.start(site)
    try:
        refused = "A connection was refused: the other side's certificate is not valid here"
        wait_until(lambda: refused in stranger.log(site))
        wait_until(lambda: "The other side refuses a certificate: unknown authority" in finished.log("server"))
    finally:
        stranger.close()
    assert "Successfully registered" in (finished.kits[site] / "log.txt").read_text()  # so does one that is let in
    assert "Successfully registered" not in (kit / "log.txt").read_text()
