"""A site's data: reading it, checking it, preparing it, agreeing on it, and simulating it."""

from feddag.silos.preparation import Preparation
from feddag.silos.reading import read_silos, read_site
from feddag.silos.silo import Silo
from feddag.silos.simulation import Simulation, simulate

__all__ = ["Preparation", "Silo", "Simulation", "read_silos", "read_site", "simulate"]
