"""Structural models as pure functions on pytrees, and the functions that tell cyclic graphs from acyclic ones."""

from feddag.models.acyclicity import ACYCLICITY, log_determinant, trace_exponential
from feddag.models.base import Model, Parameters
from feddag.models.linear import Linear
from feddag.models.masked_mlp import MaskedMLP

__all__ = [
    "ACYCLICITY",
    "Linear",
    "MaskedMLP",
    "Model",
    "Parameters",
    "log_determinant",
    "trace_exponential",
]
