"""An installation without internet: a lock file with hashes that pip obeys, and a bill of materials."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "packaging" / "wheelhouse.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("wheelhouse", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["wheelhouse"] = module  # where its dataclass looks for its annotations
    spec.loader.exec_module(module)
    return module


def make_wheel(folder: Path, name: str, version: str, *, needs: str = "", more: str = "") -> Path:
    """Write a wheel with one module."""
    info, needed = f"{name}-{version}.dist-info", f"Requires-Dist: {needs}\n" if needs else ""
    parts = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}{more}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text)}\n"
        for path, text in parts.items()
    )
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in {**parts, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return file


@pytest.fixture
def wheels(tmp_path, script):
    make_wheel(tmp_path, "feddag", "0.1", needs="other_package>=2", more="License-Expression: Apache-2.0\n")
    make_wheel(tmp_path, "other_package", "2.5", more="Classifier: License :: OSI Approved :: MIT License\n")
    script.write(tmp_path)
    return tmp_path


def from_the_folder(folder: Path) -> list[object]:
    lock = folder / "requirements.lock"
    return ["--no-deps", "--no-index", "--find-links", folder, "--require-hashes", "-r", lock]


def install(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", out, *from_the_folder(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_pip_installs_from_the_folder_alone(wheels, tmp_path):
    installed = install(wheels, tmp_path / "site")
    assert installed.returncode == 0, installed.stderr
    assert (tmp_path / "site" / "other_package.py").read_text() == "VERSION = '2.5'\n"


def test_pip_installs_without_what_was_left_out(wheels, tmp_path, script):
    script.leave_out(wheels, ("other-package",))
    script.write(wheels)
    installed = install(wheels, tmp_path / "site")
    assert installed.returncode == 0, installed.stderr
    assert [path.name for path in (tmp_path / "site").glob("*.py")] == ["feddag.py"]


def test_a_wheel_that_was_changed_is_refused(wheels, tmp_path):
    make_wheel(wheels, "other_package", "2.5", more="Summary: changed\n")
    refused = install(wheels, tmp_path / "site")
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def test_the_bill_of_materials_names_every_wheel_with_version_hash_and_licence(wheels):
    document = json.loads((wheels / "sbom.cdx.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert document["metadata"]["component"]["name"] == "feddag"
    (other,) = document["components"]
    assert (other["name"], other["version"]) == ("other-package", "2.5")
    assert other["licenses"] == [{"license": {"name": "MIT License"}}]
    file = wheels / "other_package-2.5-py3-none-any.whl"
    assert other["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}]


def test_two_versions_of_one_package_are_refused(wheels, script):
    make_wheel(wheels, "other_package", "3.0")
    with pytest.raises(SystemExit, match="has several wheels of other-package"):
        script.write(wheels)


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    """All wheels of a site: needs an index to gather from; what follows cannot reach any."""
    folder = tmp_path_factory.mktemp("gathered") / "wheelhouse"
    gathering = [sys.executable, SCRIPT, "--out", folder, "--extras", "flare"]
    done = subprocess.run(gathering, capture_output=True, text=True, check=False)
    if "Could not find a version" in done.stderr or "Connection" in done.stderr:
        pytest.skip(f"no package index is in reach: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert "requirements.lock and sbom.cdx.json" in done.stdout
    return folder


class Machine:
    """An environment of Python for which no index is in reach, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, folder / "venv"
        nowhere = "http://127.0.0.1:9"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_CONFIG_FILE")},
            "PIP_CONFIG_FILE": os.devnull,
            "HTTPS_PROXY": nowhere,
            "HTTP_PROXY": nowhere,
        }
        subprocess.run([sys.executable, "-m", "venv", self.place], check=True)

    def tried(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(self.place / "bin" / program), *map(str, arguments)]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )

    def run(self, program: str, *arguments: object) -> str:
        done = self.tried(program, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


STUDY = """\
name = "asthma"
[variables]
age = "continuous"
dose = "continuous"
[method]
name = "search"
[sites.basel]
[sites.bern]
[sites.lyon]
"""


@pytest.mark.slow
def test_a_site_is_installed_from_the_gathered_wheels_alone(gathered, tmp_path):
    machine = Machine(tmp_path)
    machine.run("pip", "install", "--quiet", *from_the_folder(gathered))
    machine.run("pip", "check")
    assert str(machine.place) in machine.run("python", "-c", "import feddag, nvflare; print(feddag.__file__)")
    (tmp_path / "study.toml").write_text(STUDY)
    assert "feddag site" in machine.run("feddag", "federation", "provision", "study.toml", "--out", "kits")
    listed = {each["name"] for each in json.loads((gathered / "sbom.cdx.json").read_text())["components"]}
    assert {"nvflare", "pyhocon"} <= listed


@pytest.mark.slow
def test_a_site_without_jax_searches_and_says_what_other_methods_need(gathered, tmp_path, script):
    light = tmp_path / "light"
    shutil.copytree(gathered, light)
    script.leave_out(light, script.GRADIENTS)
    listed = {wheel.name for wheel in script.write(light)}
    assert "nvflare" in listed
    assert not listed & set(script.GRADIENTS)
    machine = Machine(tmp_path)
    machine.run("pip", "install", "--quiet", *from_the_folder(light))
    (tmp_path / "study.toml").write_text(STUDY)
    assert "feddag site" in machine.run("feddag", "federation", "provision", "study.toml", "--out", "kits")
    machine.run("feddag", "simulate", "data", "--nodes", 3, "--sites", 3, "--rows", 60)
    tables = sorted((tmp_path / "data").glob("site-*.csv"))
    machine.run("feddag", "learn", *tables, "--out", "run", "--quiet")
    refused = machine.tried("feddag", "learn", *tables, "--out", "other", "--method", "feddag")
    assert refused.returncode == 2
    assert "The method 'feddag' needs jax, which is not installed here" in refused.stderr
