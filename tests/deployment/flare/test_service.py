"""A unit file of systemd, with no more rights than a participant needs."""

from __future__ import annotations

import getpass
import shutil
import subprocess

import pytest

pytest.importorskip("nvflare", reason="needs feddag[flare]")

from typer.testing import CliRunner

from feddag.cli import app
from feddag.deployment.flare.provisioning import provision

STUDY = (
    'name = "asthma"\n[variables]\nage = "continuous"\ndose = "continuous"\n[method]\nname = "notears"\n'
    "[sites.basel]\n[sites.bern]\n[sites.lyon]\n"
)


@pytest.fixture
def kits(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    return provision(tmp_path / "study.toml", tmp_path / "my kits", "localhost", 8002)


def printed(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def units(kits, tmp_path) -> dict[str, str]:
    site = ("site", "--kit", kits["basel"], "--data", tmp_path / "basel 100%.csv", "--health", 9100, "--systemd")
    return {
        "feddag-server": printed("server", "--kit", kits["server"], "--log-format", "json", "--systemd"),
        "feddag-site-basel": printed(*site),
    }


def test_a_unit_runs_the_command_as_the_kit_s_owner_and_writes_only_where_it_must(kits, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDDAG_STATE", str(tmp_path / "state"))
    found = units(kits, tmp_path)
    server, site = found.values()
    assert f'-m feddag server --kit "{kits["server"]}" --log-format json\n' in server
    assert f'-m feddag site --kit "{kits["basel"]}" --health 9100 --data "{tmp_path}/basel 100%%.csv"\n' in site
    assert f'ReadWritePaths="{kits["basel"]}" -{tmp_path}/state\n' in site
    for text in found.values():
        assert f"User={getpass.getuser()}\n" in text
        assert all(f"{key}\n" in text for key in ("NoNewPrivileges=yes", "ProtectSystem=strict", "UMask=0077"))


def test_a_password_does_not_get_into_a_unit(kits):
    given = [
        "site",
        "--kit",
        str(kits["basel"]),
        "--data",
        "postgresql://me:secret@db/clinic?table=visits",
        "--systemd",
    ]
    refused = CliRunner().invoke(app, given)
    assert refused.exit_code == 2
    assert "has a password, and a unit file is no place for one" in refused.stderr
    assert "secret" not in refused.stderr + refused.stdout
    assert "postgresql://me@db" in printed(*given[:4], "postgresql://me@db/clinic?table=visits", "--systemd")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_it(kits, tmp_path):
    for name, text in units(kits, tmp_path).items():
        file = tmp_path / f"{name}.service"
        file.write_text(text)
        verified = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
        about_it = [line for line in verified.stderr.splitlines() if name in line]
        assert not about_it
        rated = ["systemd-analyze", "security", "--offline=yes", "--threshold=40", file]
        assert subprocess.run(rated, capture_output=True, check=False).returncode == 0  # 40 is 4.0, "OK"
