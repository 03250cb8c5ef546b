"""Learn one causal graph from many private tables: only sums leave a site.

>>> simulation = feddag.simulate(heterogeneous=True)
>>> learned = feddag.FedDAG().fit(simulation)
>>> feddag.compare(learned.graph_, simulation.truth).shd
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feddag.errors import FeddagError
    from feddag.graphs import CausalGraph, GraphMetrics, compare, read_graph, write_graph
    from feddag.learners import FedDAG
    from feddag.runs import load
    from feddag.silos import Silo, Simulation, simulate

__version__ = version("feddag")

__all__ = [
    "CausalGraph",
    "FedDAG",
    "FeddagError",
    "GraphMetrics",
    "Silo",
    "Simulation",
    "__version__",
    "compare",
    "load",
    "read_graph",
    "simulate",
    "write_graph",
]

_HOMES = {
    "feddag.errors": ("FeddagError",),
    "feddag.graphs": ("CausalGraph", "GraphMetrics", "compare", "read_graph", "write_graph"),
    "feddag.learners": ("FedDAG",),
    "feddag.runs": ("load",),
    "feddag.silos": ("Silo", "Simulation", "simulate"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `import feddag` takes no time, its numerical libraries seconds."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
