"""Simulators: random graphs, and tables at many sites that follow them."""

from __future__ import annotations

from feddag.silos.simulation.simulate import SIMULATOR_VERSION, Simulation, simulate

__all__ = ["SIMULATOR_VERSION", "Simulation", "simulate"]
