"""Structural models as pure functions on pytrees, and the functions that tell cyclic graphs from acyclic ones."""

from feddag.models.acyclicity import ACYCLICITY, log_determinant, polynomial, trace_exponential
from feddag.models.admg import ADMG
from feddag.models.base import Model, Parameters
from feddag.models.dag_gnn import DAGGNN
from feddag.models.linear import Linear
from feddag.models.masked_mlp import MaskedMLP
from feddag.models.notears_mlp import NOTEARSMLP

__all__ = [
    "ACYCLICITY",
    "ADMG",
    "DAGGNN",
    "NOTEARSMLP",
    "Linear",
    "MaskedMLP",
    "Model",
    "Parameters",
    "log_determinant",
    "polynomial",
    "trace_exponential",
]
