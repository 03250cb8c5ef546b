"""Further studies on the same kits: what is offered to a participant, and what it has accepted.

A kit comes with one study. An analyst may run others: a job carries the study's content, and each site decides by the
rule `studies` of its policy whether it takes part by itself.
"""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path

from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.federation.refusals import Refusal, RefusedError
from feddag.files import atomic_write
from feddag.study import Study

_MOST_CHARACTERS = 2**20


def to_offer(study: Study) -> str:
    """Return a study as a text that any configuration file can hold."""
    return base64.b64encode(json.dumps(study.document()).encode()).decode()


def read_offer(text: str, digest: str) -> Study | None:
    """Return the study that was offered; `None` where there is none, or another than its digest says."""
    try:
        content = json.loads(base64.b64decode(text, validate=True)) if 0 < len(text) <= _MOST_CHARACTERS else None
    except (binascii.Error, ValueError, RecursionError):
        return None
    study = Study.of(content, f"The study {digest[:12]}…") if isinstance(content, dict) else None
    return study if study is not None and study.digest == digest else None


class Studies:
    """The studies of a kit: that which came with it, and those that were accepted or offered since."""

    def __init__(self, kit: Path, own: Path) -> None:
        """Name the kit's folder, and the file of its own study."""
        self._kit = kit
        self._own = own
        self._accepted = kit / "studies"
        self._offered = kit / "feddag" / "offered"

    def agreed(self, digest: str) -> Study | None:
        """Return the study of that digest, if the participant has agreed to it."""
        files = [self._own, *sorted(self._accepted.glob("*.json")), *sorted(self._accepted.glob("*.toml"))]
        studies = (Study.load(path) for path in files if path.exists())
        return next((study for study in studies if study.digest == digest), None)

    def offered(self) -> list[Study]:
        """List what was offered and is not accepted yet."""
        found = [Study.load(path) for path in sorted(self._offered.glob("*.json"))]
        return [study for study in found if self.agreed(study.digest) is None]

    def accept(self, study: Study) -> Path:
        """Agree to a study: from now on the site takes part if the study is run."""
        return _write(self._accepted, study)

    def consider(self, site: str, study: Study | None, digest: str, policy: Policy) -> Study:
        """Decide by the site's policy about a study that it has not agreed to; raise where it does not take part."""
        if study is not None and policy.studies == "any":
            self.accept(study)
            return study
        remedy = "put its file into KIT/studies, if you agree"
        if study is not None and policy.studies == "ask":
            _write(self._offered, study)
            remedy = f"feddag kit accept {study.digest[:12]} --kit {self._kit}"
        name = "a study" if study is None else f"the study {study.name!r}"
        raise RefusedError(
            Refusal.STUDY,
            f"Site {site!r} was asked to take part in {name} ({digest[:12]}…), to which it has not agreed "
            f"(studies = {policy.studies!r} in {policy.source}). Give all participants the same study file; "
            f"or, to take part in this one: {remedy}",
        )


def find_offer(studies: Studies, named: str) -> Study:
    """Return the offered study whose name or digest begins as given, or the study in a file of that name."""
    found = [each for each in studies.offered() if each.name == named or each.digest.startswith(named)]
    if len(found) == 1:
        return found[0]
    if not found and Path(named).is_file():
        return Study.load(named)
    listed = ", ".join(f"{each.name} ({each.digest[:12]})" for each in studies.offered()) or "none"
    raise FeddagError(f"{named!r} is {'no' if not found else 'more than one'} offered study. Offered: {listed}.")


def _write(folder: Path, study: Study) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{study.name}-{study.digest[:12]}.json"
    with atomic_write(path) as stream:
        json.dump(study.document(), stream, indent=2, ensure_ascii=False)
        stream.write("\n")
    return path
