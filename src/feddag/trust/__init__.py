"""How far to trust a learned graph: checks after every fit, stability, mechanisms by site, effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feddag.lazy import names_from

if TYPE_CHECKING:
    from feddag.trust.assessment import Assessment, assess, warnings_before
    from feddag.trust.dowhy import write_dowhy
    from feddag.trust.effects import TotalEffect, total_effect
    from feddag.trust.mechanisms import mechanisms_by_site
    from feddag.trust.stability import EdgeStability, Stability, edge_stability

__all__ = [
    "Assessment",
    "EdgeStability",
    "Stability",
    "TotalEffect",
    "assess",
    "edge_stability",
    "mechanisms_by_site",
    "total_effect",
    "warnings_before",
    "write_dowhy",
]

_HOMES = {
    "feddag.trust.assessment": ("Assessment", "assess", "warnings_before"),
    "feddag.trust.dowhy": ("write_dowhy",),
    "feddag.trust.effects": ("TotalEffect", "total_effect"),
    "feddag.trust.mechanisms": ("mechanisms_by_site",),
    "feddag.trust.stability": ("EdgeStability", "Stability", "edge_stability"),
}

__getattr__ = names_from(_HOMES, __name__)
