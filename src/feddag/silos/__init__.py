"""The sites' tables: read, checked, prepared, or simulated."""

from feddag.silos.checks import CheckedSilos
from feddag.silos.preparation import Preparation
from feddag.silos.reading import read_silos, read_site
from feddag.silos.silo import Silo
from feddag.silos.simulation import Simulation, simulate

__all__ = ["CheckedSilos", "Preparation", "Silo", "Simulation", "read_silos", "read_site", "simulate"]
