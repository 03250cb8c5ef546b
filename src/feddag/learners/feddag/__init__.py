"""FedDAG: gradient descent at every site on one shared graph, pressed step by step to be acyclic."""

from feddag.learners.feddag.estimator import FedDAG

__all__ = ["FedDAG"]
