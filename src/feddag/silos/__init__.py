"""A site's data: reading it, checking it, agreeing on it, and simulating it."""

from feddag.silos.reading import as_silos
from feddag.silos.silo import Silo
from feddag.silos.simulation import Simulation, simulate

__all__ = ["Silo", "Simulation", "as_silos", "simulate"]
