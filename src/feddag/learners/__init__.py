"""The learners, one per file, named after the method."""

from feddag.learners.feddag import FedDAG
from feddag.learners.history import History, Round

__all__ = ["FedDAG", "History", "Round"]
