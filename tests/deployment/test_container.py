"""The container file: built from wheels on a bare system; run without rights, with a read-only root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from snippets import ROOT

CONTAINERFILE = ROOT / "packaging" / "Containerfile"


def test_it_is_rootless_and_has_a_volume_for_the_kit_and_one_for_the_data():
    text = CONTAINERFILE.read_text()
    assert 'VOLUME ["/kit", "/data"]' in text
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", text, re.MULTILINE)
    assert "--no-index" in text
    assert "--require-hashes" in text
    assert "FEDDAG_STATE=/kit/" in text  # all else is read-only


def done(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Build the image on a Debian that debootstrap makes; return the command of podman, and the image's name."""
    for program in ("podman", "debootstrap"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if os.geteuid() != 0:
        pytest.skip("debootstrap needs root")
    scratch = tmp_path_factory.mktemp("container")
    system, wheels = scratch / "system", scratch / "wheelhouse"
    gathered = done(sys.executable, ROOT / "packaging" / "wheelhouse.py", "--out", wheels, "--extras", "flare")
    if gathered.returncode:
        pytest.skip(f"wheels cannot be gathered here: {gathered.stderr.strip().splitlines()[-1]}")
    suite, mirror = debian()
    made = done("debootstrap", "--variant=minbase", "--include=python3,python3-venv", suite, system, *mirror)
    if made.returncode:
        pytest.skip(f"debootstrap fails here: {made.stdout.strip().splitlines()[-1]}")
    podman = [
        *("podman", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"),
        *("--root", scratch / "store", "--runroot", scratch / "run"),
    ]
    archive = scratch / "system.tar"
    for command in (
        ("tar", "-C", system, "-cf", archive, "."),
        (*podman, "import", archive, "localhost/base"),
        (
            *(*podman, "build", "--isolation", "chroot", "--network", "host", "--build-arg", "BASE=localhost/base"),
            *("--volume", f"{wheels}:/wheels:ro", "--file", CONTAINERFILE, "--tag", "localhost/feddag", "."),
        ),
    ):
        finished = done(*command, cwd=ROOT)
        assert finished.returncode == 0, finished.stderr[-2000:]
    return podman


def debian() -> tuple[str, list[str]]:
    """Return this system's suite and mirror: a base image cannot be fetched everywhere."""
    release = Path("/etc/os-release").read_text()
    found = re.search(r"^VERSION_CODENAME=(\S+)$", release, re.MULTILINE)
    if found is None or "ID=debian" not in release:
        pytest.skip("needs Debian")
    for sources in Path("/etc/apt/sources.list.d").glob("*.sources"):
        if mirror := re.search(r"^URIs: (\S+)", sources.read_text(), re.MULTILINE):
            return found[1], [mirror[1]]
    return found[1], []


@pytest.mark.slow
def test_it_is_built_from_wheels_that_no_layer_holds(image):
    (inspected,) = json.loads(done(*image, "inspect", "localhost/feddag").stdout)
    settings = inspected["Config"]
    assert settings["User"] == "65532:65532"
    assert set(settings["Volumes"]) == {"/kit", "/data"}
    assert settings["Entrypoint"] == ["feddag"]
    place = Path(done(*image, "image", "mount", "localhost/feddag").stdout.strip())
    assert (place / "opt" / "feddag" / "bin" / "feddag").exists()
    assert not any((place / "wheels").glob("*"))


@pytest.mark.slow
def test_it_runs_with_a_read_only_root_and_no_rights(image, tmp_path):
    kit = tmp_path / "kit"
    kit.mkdir(mode=0o777)
    kit.chmod(0o777)
    options = (
        *("run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "all"),
        *("--security-opt", "no-new-privileges", "--volume", f"{kit}:/kit", "localhost/feddag"),
    )
    shown = done(*image, *options, "--version")
    if shown.returncode != 0 and re.search(r"crun|runc|OCI|cgroup|netavark|CNI", shown.stderr):
        pytest.skip(f"no container starts here: {shown.stderr.strip().splitlines()[-1]}")
    assert shown.stdout.startswith("feddag "), shown.stderr
    made = done(*image, *options, "kit", "request", "basel", "--out", "/kit/basel")
    assert made.returncode == 0, made.stderr
    assert (kit / "basel" / "basel.request").exists()
