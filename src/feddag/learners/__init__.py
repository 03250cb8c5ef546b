"""The learners, one per file, named after the method; `registry` lists them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feddag.lazy import names_from

if TYPE_CHECKING:
    from feddag.learners.base import Learner
    from feddag.learners.feddag import FedDAG
    from feddag.learners.feddag.history import FedDAGHistory, FedDAGRound
    from feddag.learners.private_search import PrivateSearch
    from feddag.learners.regimes import InRegime
    from feddag.learners.search import EvidenceSearch
    from feddag.learners.status import Progress, Status

__all__ = [
    "EvidenceSearch",
    "FedDAG",
    "FedDAGHistory",
    "FedDAGRound",
    "InRegime",
    "Learner",
    "PrivateSearch",
    "Progress",
    "Status",
]

_HOMES = {
    "feddag.learners.base": ("Learner",),
    "feddag.learners.feddag": ("FedDAG",),
    "feddag.learners.feddag.history": ("FedDAGHistory", "FedDAGRound"),
    "feddag.learners.regimes": ("InRegime",),
    "feddag.learners.private_search": ("PrivateSearch",),
    "feddag.learners.search": ("EvidenceSearch",),
    "feddag.learners.status": ("Progress", "Status"),
}

# the registry is here too, and must be readable without the numerical libraries
__getattr__ = names_from(_HOMES, __name__)
