"""The result of one cell, and how to compute it: in any process, on any machine, from the cell alone."""

from __future__ import annotations

import itertools
import json
import platform
import sys
import time
import traceback
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from feddag.errors import FeddagError
from feddag.experiments.cell import Cell
from feddag.experiments.seeds import role_of
from feddag.experiments.settings import Drawn, draw
from feddag.learners.registry import find_method

if TYPE_CHECKING:
    from feddag.graphs import CausalGraph
    from feddag.learners import Learner

METRICS = ("shd", "tpr", "fdr", "nnz", "missing", "extra", "reversed", "impossible")
"""`impossible` counts edges into variables that nothing can have caused."""


@dataclass(frozen=True)
class Result:
    """A row of the store."""

    key: str
    setting: dict[str, Any]
    data: str
    method: str
    regime: str
    parameters: dict[str, Any]
    seed: int
    role: str
    method_version: int
    setting_version: int
    shd: float | None
    tpr: float | None
    fdr: float | None
    nnz: float
    missing: float | None
    extra: float | None
    reversed: float | None
    impossible: float | None
    true_edges: int | None
    seconds: float
    peak_memory: int | None
    """Bytes of the process while it learned; None where the system does not say."""
    bytes_sent: int
    bytes_received: int
    graph: dict[str, Any]
    """Names, directed and undirected edges, for each site where sites learned alone; `guessed` lists the directed edges
    whose direction the learner left open, `doubtful` those that are not surely there. Older results lack these."""
    history: bytes | None
    data_digest: str
    feddag: str
    python: str
    machine: str
    started: str
    finished: str
    chosen: str = "declared"
    """How parameters were chosen: "declared" by an experiment, from a "grid", "tuned" on other seeds, or "by hand"."""

    @property
    def elapsed(self) -> float:
        """Return the seconds from the beginning of the cell to its end, with the draw of the data."""
        return elapsed(self.started, self.finished, self.seconds)

    def metric(self, name: str) -> float | None:
        """Return a metric by its name in a table, such as SHD."""
        return getattr(self, name.lower())


@dataclass(frozen=True)
class Failure:
    """A cell that could not be computed, and why."""

    cell: Cell
    reason: str
    trace: str = ""
    """Where in the code it was raised, unless feddag refused something."""


def elapsed(started: str, finished: str, seconds: float) -> float:
    """Return the seconds by the clock, which counts whole ones, unless the fit alone took longer."""
    return max(seconds, (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds())


def describe_cell(cell: Cell) -> dict[str, Any]:
    """Return the part of a result that is known before anything is computed."""
    return {
        "key": cell.key,
        "setting": cell.setting.identity(),
        "data": cell.setting.data,
        "method": cell.method,
        "regime": cell.regime,
        "parameters": cell.all_parameters,
        "seed": cell.seed,
        "role": role_of(cell.seed),
        "method_version": find_method(cell.method).version,
        "setting_version": cell.setting.version,
    }


def compute(cell: Cell, chosen: str = "declared", workers: int | None = None, folder: Path | None = None) -> Result:
    """Draw the data, learn, and only then look at the truth."""
    cell.check()
    started = _now()
    known = draw(cell.setting, cell.seed, folder)
    learner = cell.learner(workers)
    _reset_peak_memory()
    begun = time.monotonic()
    learner.fit([silo if learner.takes_interventions else replace(silo, targets=None) for silo in known.silos])
    seconds = time.monotonic() - begun
    return Result(
        **describe_cell(cell),
        **_judge(learner, known),
        seconds=seconds,
        peak_memory=_peak_memory(),
        bytes_sent=sum(learner.communication_.sent.values()),
        bytes_received=sum(learner.communication_.received.values()),
        graph=_describe_graph(learner),
        history=_pack_history(learner),
        data_digest=known.digest(),
        feddag=version("feddag"),
        python=platform.python_version(),
        machine=f"{platform.node()} {platform.machine()} {platform.system()}",
        started=started,
        finished=_now(),
        chosen=chosen,
    )


def compute_or_fail(
    cell: Cell, chosen: str, workers: int | None = None, folder: Path | None = None
) -> Result | Failure:
    """Compute a cell; return a failure instead of raising, so that the other cells go on."""
    try:
        return compute(cell, chosen, workers, folder)
    except FeddagError as error:
        return Failure(cell, str(error))
    except Exception as error:  # whatever a method dies of, the table goes on
        return Failure(cell, f"{type(error).__name__}: {error}", traceback.format_exc())


def history_of(result: Result) -> dict[str, Any]:
    """Unpack the rounds of a fit by column, and the graph's parameters after each sub-problem."""
    return json.loads(zlib.decompress(result.history)) if result.history else {"rounds": {}, "graphs": []}


def _judge(learner: Learner, known: Drawn) -> dict[str, Any]:
    from feddag.graphs import compare  # noqa: PLC0415

    # a learner that leaves directions open, but has a guess for each, is judged by its guesses
    graphs = [guessed for _, guessed in learner.results]
    judged: dict[str, Any] = dict.fromkeys(METRICS)
    judged["nnz"] = fmean(graph.edge_count for graph in graphs)
    judged["true_edges"] = None
    if known.exogenous:
        judged["impossible"] = fmean(sum(edge[1] in known.exogenous for edge in graph.edges) for graph in graphs)
    if (truth := known.truth) is not None:
        metrics = [compare(graph, truth).as_dict() for graph in graphs]
        judged |= {name: fmean(each[name] for each in metrics) for name in METRICS if name in metrics[0]}
        judged["true_edges"] = len(truth.edges)
    return judged


def _describe_graph(learner: Learner) -> dict[str, Any]:
    results = learner.results
    return {
        "names": list(learner.graph_.names),
        "edges": [judged.edges for _, judged in results],
        "undirected": [judged.undirected_edges for _, judged in results],
        "guessed": [[edge for edge in judged.edges if _is_open(edge, reported)] for reported, judged in results],
        "doubtful": [[edge for edge in judged.edges if not _joins(edge, reported)] for reported, judged in results],
    }


def _is_open(edge: tuple[str, str], graph: CausalGraph) -> bool:
    return edge in graph.undirected_edges or edge[::-1] in graph.undirected_edges


def _joins(edge: tuple[str, str], graph: CausalGraph) -> bool:
    cause, effect = (graph.names.index(name) for name in edge)
    return bool(graph.adjacency[cause, effect] or graph.adjacency[effect, cause])


def reported_graphs(result: Result) -> list[CausalGraph] | None:
    """Rebuild the graphs as reported: guessed directions open, doubtful edges out; None if the store does not say."""
    import numpy as np  # noqa: PLC0415

    from feddag.graphs import CausalGraph  # noqa: PLC0415

    if not {"guessed", "doubtful"} <= result.graph.keys():
        return None
    names = result.graph["names"]
    graphs = []
    for parts in zip(*(result.graph[name] for name in ("edges", "undirected", "guessed", "doubtful")), strict=True):
        adjacency = np.zeros((len(names), len(names)), int)
        directed, *both_ways, doubtful = [[(names.index(i), names.index(j)) for i, j in part] for part in parts]
        for i, j in directed:
            adjacency[i, j] = 1
        for i, j in itertools.chain(*both_ways):
            adjacency[i, j] = adjacency[j, i] = 1
        for i, j in doubtful:
            adjacency[i, j] = 0
        graphs.append(CausalGraph(adjacency, names))
    return graphs


def _pack_history(learner: Learner) -> bytes | None:
    """Pack the course of FedDAG's optimisation, without the sites' own losses."""
    from feddag.learners.feddag.history import FedDAGHistory  # noqa: PLC0415

    if not isinstance(learner.history_, FedDAGHistory):
        return None
    frame = learner.history_.to_frame()
    frame = frame[[name for name in frame.columns if "[" not in name]]
    packed: dict[str, Any] = {
        "rounds": {name: [_short(value) for value in frame[name].tolist()] for name in frame.columns},
        "graphs": [graph.round(2).tolist() for graph in learner.history_.graphs if graph.ndim == 2],
    }
    return zlib.compress(json.dumps(packed, separators=(",", ":")).encode(), 9)


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _reset_peak_memory() -> None:
    with suppress(OSError):  # then the peak is that of the process so far
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        try:
            import resource  # noqa: PLC0415 - not on Windows
        except ImportError:
            return None
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def result_from_row(row: Mapping[str, Any]) -> Result:
    """Make a result of a row of the store."""
    read = dict(row)
    for name in ("setting", "parameters", "graph"):
        read[name] = json.loads(read[name])
    return Result(**read)
