"""A run: what was asked of which tables, and what came out. Its files stand in `feddag.runs.folder`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint
from feddag.files import atomic_write
from feddag.graphs import CausalGraph, write_graph
from feddag.learners.base import Learner
from feddag.learners.factory import make_learner, method_of
from feddag.learners.status import Progress, Status
from feddag.runs import folder as files
from feddag.runs.monitor import ProgressLog
from feddag.silos import CheckedSilos, Preparation, Silo, read_silos
from feddag.silos.preparation import Account
from feddag.silos.sources import source_of
from feddag.study import Study
from feddag.trust import (
    Assessment,
    Stability,
    TotalEffect,
    assess,
    edge_stability,
    mechanisms_by_site,
    total_effect,
)
from feddag.trust.graph_checks import GraphChecks

_LIBRARIES = ("jax", "numpy", "scipy", "scikit-learn")


@dataclass
class Run:
    """A fit that lives in a folder."""

    folder: Path
    record: dict[str, Any] = field(repr=False)
    """The content of `run.json`."""
    _silos: CheckedSilos | None = field(default=None, repr=False, compare=False)
    _result: Learner | None = field(default=None, repr=False, compare=False)

    @classmethod
    def start(
        cls,
        folder: str | os.PathLike[str],
        estimator: Learner,
        silos: Sequence[Silo],
        sources: Sequence[str | os.PathLike[str]],
        method: str | None = None,
        *,
        preparation: Preparation | None = None,
        study: Study | None = None,
    ) -> Run:
        """Claim a new or empty folder. Whatever is wrong with the input is found before the folder is touched.

        Args:
            folder: Where to write.
            estimator: The learner, with its parameters.
            silos: The sites' tables.
            sources: Where each of them was read from.
            method: The name that the learner was made by, where several stand for the same learner.
            preparation: How the tables were read.
            study: The study by which they were read, in place of `preparation`.
        """
        folder = Path(folder)
        silos = estimator.check(silos)
        _check_that_names_can_be_written(silos[0].columns)
        files.check_that_folder_is_free(folder)
        record = {
            **_new_record(estimator, method or method_of(estimator).name, silos[0].columns),
            "sites": [
                {
                    "name": silo.name,
                    "source": source_of(source).recorded,
                    "rows": silo.rows,
                    "sha256": silo.digest(),
                }
                for silo, source in zip(silos, sources, strict=True)
            ],
            "data": {
                **asdict(study.preparation if study else preparation or Preparation()),
                "sites": {silo.name: asdict(silo.account) for silo in silos},
            },
            "study": study and {"digest": study.digest, **study.document()},
        }
        return cls(folder, record, silos)._claim()

    @classmethod
    def start_federated(cls, folder: str | os.PathLike[str], study: Study) -> Run:
        """Claim a new or empty folder for a study on a network; go on with one that holds the same study."""
        folder = Path(folder)
        agreed = {"digest": study.digest, **study.document()}
        if (folder / files.RECORD).exists():
            run = cls.open(folder)
            if run.record.get("federated") and (run.record["study"] or {}).get("digest") == study.digest:
                return run
        files.check_that_folder_is_free(folder)
        record = {
            **_new_record(study.learner(), study.method.name, study.columns),
            "federated": True,
            "sites": [{"name": site.name} for site in study.sites],
            "data": asdict(study.preparation),
            "study": agreed,
        }
        return cls(folder, record)._claim()

    def _claim(self) -> Run:
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write_record(self.folder, self.record)
        return self

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Run:
        """Open the run in a folder, finished or not."""
        return cls(Path(folder), files.read_record(Path(folder)))

    @property
    def finished(self) -> bool:
        """Whether the results are written."""
        return files.is_finished(self.record)

    @property
    def preparation(self) -> Preparation:
        """How the tables were read."""
        data = self.record.get("data", {})
        return Preparation(**{name: data[name] for name in ("missing", "scale") if name in data})

    @property
    def study(self) -> Study | None:
        """The study that the sites agreed on, if there was one."""
        agreed = self.record.get("study")
        if agreed is None:
            return None
        content = {name: value for name, value in agreed.items() if name != "digest"}
        return Study.of(content, f"{self.folder / files.RECORD}: study")

    def accounts(self) -> dict[str, Account]:
        """Return how each site's table was prepared."""
        return {site: Account(**account) for site, account in self.record.get("data", {}).get("sites", {}).items()}

    def estimator(self) -> Learner:
        """Make the run's learner, not fitted."""
        parameters = {name: _as_tuples(value) for name, value in self.record["parameters"].items()}
        return make_learner(self.record["method"], self.record["regime"], **parameters)

    def silos(self) -> CheckedSilos:
        """Return the sites' tables, read once.

        Raises:
            FeddagError: If they are at the sites of a network, or have changed since the run started.
        """
        if self._silos is None:
            self._silos = self._read_silos()
        return self._silos

    def use_tables(self, sources: Mapping[str, Any]) -> None:
        """Work on the tables of those sites that are here, of a run whose tables stayed at its sites.

        Args:
            sources: A table, or where it is, for each of some of the study's sites. Units of all sites are not known
                here: where the study has them, each site's own take their place.

        Raises:
            FeddagError: If the run has its own tables, or a table does not keep to the study.
        """
        study = self.study
        if study is None or not self.record.get("federated"):
            raise FeddagError(f"{self.folder}: this run knows where its tables are. Leave out --data.")
        for site in sources:
            study.site(site)
        if study.preparation.scale == "federated":
            study = replace(study, preparation=replace(study.preparation, scale="site"))
        self._silos = study.silos(sources)

    def _read_silos(self) -> CheckedSilos:
        if self.record.get("federated"):
            raise FeddagError(
                f"{self.folder}: the tables of this run stayed at its sites. Ask them (feddag federation --help), or "
                "copy the folder to a site, and do this there: --data SITE=TABLE"
            )
        sources = {site["name"]: site["source"] for site in self.record["sites"]}
        silos = self.study.silos(sources) if self.study else read_silos(sources, **asdict(self.preparation))
        for silo, site in zip(silos, self.record["sites"], strict=True):
            if silo.digest() != site["sha256"]:
                raise FeddagError(
                    f"Site {silo.name!r}: {site['source']} has changed since the run started. "
                    "Restore the file, or start a new run."
                )
        return silos

    def learn(self, progress: Progress | None = None) -> Learner:
        """Start, or go on from the last checkpoint, and write the results."""
        silos, checkpoint = self.silos(), self.folder / files.CHECKPOINT
        return self.learn_by(lambda show: self.estimator().fit(silos, progress=show, checkpoint=checkpoint), progress)

    def learn_by(self, fit: Callable[[Progress], Learner], progress: Progress | None = None) -> Learner:
        """Write the results of `fit`, which returns a fitted learner of the run's method and parameters."""
        with files.locked(self.folder):
            latest = Run.open(self.folder)
            if latest.finished:  # by another process, since this one looked
                self.record = latest.record
                return self.result()
            estimator = fit(self._logged(progress))
            self._write_results(estimator)
            self.record |= {"status": "finished", "finished": _now()}
            files.write_record(self.folder, self.record)
            self.clear()
        self._result = estimator
        return estimator

    def clear(self) -> None:
        """Remove the files that only an unfinished run needs."""
        files.clear(self.folder)

    def _logged(self, progress: Progress | None) -> Progress:
        """Log every status for other processes, before `progress` may end the fit."""
        log = ProgressLog(self.folder / files.PROGRESS)

        def after_round(status: Status) -> None:
            log(status)
            if progress is not None:
                progress(status)

        return after_round

    def _write_results(self, estimator: Learner) -> None:
        _write_graph_files(estimator.graph_, self.folder)
        files.write_table(estimator.edge_scores_, self.folder / "edge_scores.csv", index=True)
        files.write_table(estimator.history_frame(), self.folder / "history.csv")
        for name, table in estimator.tables().items():
            files.write_table(table, self._table_path(name))
        save_checkpoint(self.folder / files.RESULT, *estimator.snapshot())

    def result(self) -> Learner:
        """Return the fitted learner of a finished run."""
        if self._result is None:
            if not self.finished:
                raise FeddagError(
                    f"{self.folder}: the run has not finished. Resume it with: {files.resume_command(self.folder)}"
                )
            self._result = self.estimator().restore(*load_checkpoint(self.folder / files.RESULT))
        return self._result

    def table(self, name: str) -> pd.DataFrame | None:
        """Read a table of the method, such as `edge_evidence`; `None` if it is not there."""
        return files.read_table(self._table_path(name))

    def _table_path(self, name: str) -> Path:
        return self.folder / f"{name}.csv"

    def assess(self) -> Assessment:
        """Compare the graph with rivals on held-out rows, once: a later call returns what the folder holds."""
        found = self.assessment()
        if found is None:
            found = assess(self.result(), self.silos())
            self.keep_checks(GraphChecks(assessment=found))
        return found

    def assessment(self) -> Assessment | None:
        """Read what `assess` has written; `None` if it was not called."""
        path = self.folder / files.ASSESSMENT
        try:
            return Assessment.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise FeddagError(f"{path} is not an assessment ({error}). Remove it: feddag writes it again.") from None

    def keep_checks(self, checks: GraphChecks) -> None:
        """Write what was found out about the graph, here or on a network."""
        if checks.assessment is not None:
            with atomic_write(self.folder / files.ASSESSMENT) as stream:
                stream.write(checks.assessment.to_json())
        if checks.stability is not None:
            files.write_table(checks.stability.table(), self.folder / files.STABILITY)
        if checks.mechanisms is not None:
            files.write_table(checks.mechanisms, self.folder / files.MECHANISMS)
        if checks.tuning is not None:
            files.write_table(checks.tuning, self.folder / files.TUNING)
        if checks.effects:
            kept = self.effects_kept() | {(each.cause, each.effect): each for each in checks.effects}
            files.write_json(self.folder / files.EFFECTS, [each.as_dict() for each in kept.values()])

    def stability(
        self, *, bootstraps: int = 20, jobs: int = 1, seed: int = 0, progress: Progress | None = None
    ) -> Stability:
        """Learn again from redrawn rows and without each site; see `feddag.trust.edge_stability`.

        Replicates stay in the folder: a later call does only those that are missing.
        """
        found = edge_stability(
            self.result(),
            self.silos(),
            bootstraps=bootstraps,
            jobs=jobs,
            seed=seed,
            folder=self.folder / files.REPLICATES,
            progress=progress,
        )
        self.keep_checks(GraphChecks(stability=found))
        return found

    def stability_table(self) -> pd.DataFrame | None:
        """Read the table of the last call of `stability`; `None` if it was not called."""
        return files.read_table(self.folder / files.STABILITY)

    def mechanisms(self) -> pd.DataFrame:
        """Compare the mechanisms of the sites, once; see `feddag.trust.mechanisms_by_site`."""
        found = self.mechanisms_table()
        if found is None:
            found = mechanisms_by_site(self.result().guessed_graph, self.silos())
            self.keep_checks(GraphChecks(mechanisms=found))
        return found

    def mechanisms_table(self) -> pd.DataFrame | None:
        """Read what `mechanisms` has written; `None` if it was not called."""
        return files.read_table(self.folder / files.MECHANISMS)

    def effects(self, cause: str, effect: str) -> TotalEffect:
        """Estimate a total effect, once for each pair; see `feddag.trust.total_effect`."""
        kept = self.effects_kept()
        if (cause, effect) not in kept:
            kept[cause, effect] = total_effect(self.result(), self.silos(), cause, effect)
            self.keep_checks(GraphChecks(effects=(kept[cause, effect],)))
        return kept[cause, effect]

    def effects_kept(self) -> dict[tuple[str, str], TotalEffect]:
        """Read the effects that were estimated so far, by cause and effect."""
        path = self.folder / files.EFFECTS
        try:
            found = [TotalEffect.from_dict(each) for each in files.read_json(path) or ()]
        except (TypeError, KeyError) as error:
            raise FeddagError(f"{path} does not hold effects ({error}). Remove it: feddag writes it again.") from None
        return {(each.cause, each.effect): each for each in found}


def _as_tuples(value: Any) -> Any:
    """JSON has lists only, and the parameters' defaults are tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _library_versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):  # an installation may leave JAX out
            found[name] = version(name)
    return found


def _new_record(estimator: Learner, method: str, columns: Sequence[str]) -> dict[str, Any]:
    return {
        "feddag": version("feddag"),
        "versions": {"python": sys.version.split()[0]} | _library_versions(),
        "status": "running",
        "started": _now(),
        "finished": None,
        "method": method,
        "regime": estimator.regime,
        "parameters": estimator.inner.get_params(),
        "columns": columns,
    }


def load(folder: str | os.PathLike[str]) -> Learner:
    """Load the fitted learner of a finished run, such as `feddag learn` leaves in its folder.

    Examples:
        >>> import feddag
        >>> from feddag.runs import Run
        >>> feddag.simulate(3, sites=2, rows=50).write("data")
        >>> tables = ["data/site-01.csv", "data/site-02.csv"]
        >>> run = Run.start("run", feddag.make_learner("notears"), feddag.read_silos(tables), tables)
        >>> learned = run.learn()
        >>> feddag.load("run").graph_ == learned.graph_
        True
    """
    return Run.open(folder).result()


def _check_that_names_can_be_written(columns: Sequence[str]) -> None:
    """Let a name that some format cannot hold fail now, not when all is learned."""
    with TemporaryDirectory() as scratch:
        _write_graph_files(CausalGraph(np.zeros((len(columns), len(columns))), columns), Path(scratch))


def _write_graph_files(graph: CausalGraph, folder: Path) -> None:
    for name in files.GRAPHS:
        write_graph(graph, folder / name)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
