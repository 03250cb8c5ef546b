"""Straight lines in a frame where numbers are nearly uncorrelated: noise then drowns no direction more than another.

Noise of one size for all products drowns what hardly varies, such as what is left of a variable once its causes are
known. A first, rough release tells a frame; in it a second release has little noise where there is little to drown.
Whatever the frame, rows are clipped to the same length in it, so that privacy does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Float

from feddag.regression.bounded_features import FeatureMap

_CLIP = 0.8
"""The squared length that a row may have in its frame, over what it has on average (tuned on simulations)."""


@dataclass(frozen=True, eq=False)
class FramedMap(FeatureMap):
    """Functions of straight lines, as combinations of numbers about a centre."""

    center: Float[np.ndarray, " node"]
    frame: Float[np.ndarray, "node node"]

    @classmethod
    def of(cls, features: FeatureMap, *, center: np.ndarray | None = None, frame: np.ndarray | None = None) -> Self:
        """Take numbers, as `features` scales them, into a frame; into one in which they stay as they are, if none."""
        center = np.zeros(features.nodes) if center is None else center
        frame = np.eye(features.nodes) if frame is None else frame
        return cls(features.ranges, features.levels, features.functions, features.paired, center, frame)

    @cached_property
    def back(self) -> Float[np.ndarray, "node node"]:
        """Return what leads from the frame back to numbers."""
        return np.linalg.inv(self.frame)

    @property
    def _clip(self) -> float:
        return _CLIP

    def _functions(self, values: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row function"]:
        return (super()._functions(values) - self.center) @ self.frame.T

    def values_at(self, numbers: Float[np.ndarray, "row node"]) -> Float[np.ndarray, "row node"]:
        """Return the values of which these are the functions."""
        return super().values_at(self.center + numbers @ self.back.T)
