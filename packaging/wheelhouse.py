"""Gather all that an installation without internet needs: wheels, a lock file with their hashes, and an SBOM.

    python packaging/wheelhouse.py --out wheelhouse --extras flare,parquet,sql

What comes as source only is built here, so the machines that install it need no compiler. The wheels fit machines with
the same system and the same version of Python as this one. On such a machine, from the folder:

    python -m venv feddag
    feddag/bin/pip install --no-deps --no-index --find-links . --require-hashes -r requirements.lock

With --without-jax the wheels are fewer by JAX and what comes with it, two fifths of all bytes installed: enough for a
site, a server and an analyst of studies by the search, and of all methods that do not descend gradients.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import uuid
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

LOCK, SBOM = "requirements.lock", "sbom.cdx.json"
GRADIENTS = ("jax", "jaxlib", "ml-dtypes", "opt-einsum", "optax")
"""What nothing but the methods that descend gradients needs."""
_PROJECT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Wheel:
    """A wheel of the folder, by its own metadata."""

    file: Path
    metadata: Message
    sha256: str

    @classmethod
    def read(cls, file: Path) -> Wheel:
        """Read a wheel's metadata, and hash it."""
        with zipfile.ZipFile(file) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            metadata = BytesParser().parsebytes(archive.read(name))
        return cls(file, metadata, hashlib.sha256(file.read_bytes()).hexdigest())

    @property
    def name(self) -> str:
        """The name by which package indexes know it."""
        return str(self.metadata["Name"]).lower().replace("_", "-").replace(".", "-")

    @property
    def version(self) -> str:
        """The version."""
        return str(self.metadata["Version"])

    @property
    def licence(self) -> str | None:
        """The licence, where the metadata name one: an expression, else the classifier, else a short text."""
        if expression := self.metadata["License-Expression"]:
            return str(expression)
        for classifier in self.metadata.get_all("Classifier", []):
            if classifier.startswith("License ::"):
                return classifier.rpartition(" :: ")[2]
        lines = str(self.metadata["License"] or "").strip().splitlines()
        return lines[0] if len(lines) == 1 else None


def gather(out: Path, extras: str) -> None:
    """Download or build the wheels of feddag and of all that it needs."""
    wanted = f"{_PROJECT}[{extras}]" if extras else str(_PROJECT)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", out, wanted], check=True)


def leave_out(folder: Path, names: tuple[str, ...]) -> None:
    """Remove the wheels of some packages from a folder."""
    for wheel in read_wheels(folder):
        if wheel.name in names:
            wheel.file.unlink()


def read_wheels(folder: Path) -> list[Wheel]:
    """Read all wheels of a folder, by name; refuse two of one package."""
    wheels = sorted(map(Wheel.read, folder.glob("*.whl")), key=lambda wheel: wheel.name)
    names = [wheel.name for wheel in wheels]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SystemExit(
            f"{folder} has several wheels of {', '.join(sorted(twice))}. Empty the folder, and begin anew."
        )
    return wheels


def lock_text(wheels: list[Wheel]) -> str:
    """Return requirements that name each wheel's version and hash."""
    head = f"# Install with: pip install --no-deps --no-index --find-links . --require-hashes -r {LOCK}"
    return "\n".join([head, *(f"{each.name}=={each.version} --hash=sha256:{each.sha256}" for each in wheels)]) + "\n"


def sbom(wheels: list[Wheel], made: datetime) -> dict[str, Any]:
    """Return the bill of materials, in the layout of CycloneDX 1.5."""
    components = [_component(wheel) for wheel in wheels]
    own = next((each for each in components if each["name"] == "feddag"), None)
    digest = hashlib.sha256("".join(wheel.sha256 for wheel in wheels).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": made.isoformat(timespec="seconds"),
            **({} if own is None else {"component": own | {"type": "application"}}),
        },
        "components": [each for each in components if each is not own],
    }


def _component(wheel: Wheel) -> dict[str, Any]:
    address = f"pkg:pypi/{wheel.name}@{wheel.version}"
    licences = [] if wheel.licence is None else [{"license": {"name": wheel.licence}}]
    return {
        "type": "library",
        "bom-ref": address,
        "name": wheel.name,
        "version": wheel.version,
        "purl": address,
        "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
        **({"licenses": licences} if licences else {}),
    }


def write(folder: Path) -> list[Wheel]:
    """Write the lock file and the bill of materials beside the wheels of a folder."""
    wheels = read_wheels(folder)
    (folder / LOCK).write_text(lock_text(wheels), encoding="utf-8")
    (folder / SBOM).write_text(json.dumps(sbom(wheels, datetime.now(UTC)), indent=2) + "\n", encoding="utf-8")
    return wheels


def main() -> None:
    """Gather, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("wheelhouse"), help="the folder; new or empty")
    parser.add_argument("--extras", default="flare", help="of feddag, separated by commas; none: ''")
    parser.add_argument("--without-jax", action="store_true", help="leave out what only gradient methods need")
    given = parser.parse_args()
    if given.out.exists() and any(given.out.iterdir()):
        raise SystemExit(f"{given.out} is not empty. Remove it, or name another folder: --out")
    given.out.mkdir(parents=True, exist_ok=True)
    gather(given.out, given.extras)
    if given.without_jax:
        leave_out(given.out, GRADIENTS)
    wheels = write(given.out)
    size = sum(wheel.file.stat().st_size for wheel in wheels) / 1e6
    print(f"{len(wheels)} wheels, {size:.0f} MB, {LOCK} and {SBOM} in {given.out}")


if __name__ == "__main__":
    main()
