"""Learn one causal graph from many private tables: only sums leave a site.

>>> import feddag
>>> simulation = feddag.simulate(4, mechanism="mim", sites=3, rows=300, seed=2)
>>> learned = feddag.EvidenceSearch().fit(simulation)
>>> feddag.compare(learned.graph_, simulation.truth).shd
0
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from feddag.lazy import names_from

if TYPE_CHECKING:
    from feddag.errors import AssumptionWarning, FeddagError
    from feddag.graphs import CausalGraph, GraphMetrics, compare, read_graph, write_graph
    from feddag.learners import EvidenceSearch, FedDAG, PrivateSearch
    from feddag.learners.factory import make_learner, methods
    from feddag.runs import load
    from feddag.silos import Silo, Simulation, read_silos, simulate
    from feddag.study import Study

__version__ = version("feddag")

__all__ = [
    "AssumptionWarning",
    "CausalGraph",
    "EvidenceSearch",
    "FedDAG",
    "FeddagError",
    "GraphMetrics",
    "PrivateSearch",
    "Silo",
    "Simulation",
    "Study",
    "__version__",
    "compare",
    "load",
    "make_learner",
    "methods",
    "read_graph",
    "read_silos",
    "simulate",
    "write_graph",
]

_HOMES = {
    "feddag.errors": ("AssumptionWarning", "FeddagError"),
    "feddag.graphs": ("CausalGraph", "GraphMetrics", "compare", "read_graph", "write_graph"),
    "feddag.learners": ("EvidenceSearch", "FedDAG", "PrivateSearch"),
    "feddag.learners.factory": ("make_learner", "methods"),
    "feddag.runs": ("load",),
    "feddag.silos": ("Silo", "Simulation", "read_silos", "simulate"),
    "feddag.study": ("Study",),
}


# `import feddag` takes no time, its numerical libraries seconds
__getattr__ = names_from(_HOMES, __name__)


def __dir__() -> list[str]:
    return __all__
