"""Search for the graph of greatest evidence, whatever the units of the columns."""

from feddag.learners.search.estimator import EvidenceSearch

__all__ = ["EvidenceSearch"]
