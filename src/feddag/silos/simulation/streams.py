"""Random numbers by address: which stream, which site, which node.

A stream is addressed, never consumed in turn, so one choice does not disturb another: more rows keep the
graph, and one more site keeps the sites before it.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """The numbers are part of what a seed means: add new ones at the end."""

    GRAPH = 0
    ROWS = 1
    SITE = 2
    MECHANISM = 3
    NOISE = 4
    OWN_MECHANISM = 5
    OWN_NOISE = 6
    TARGETS = 7
    HIDDEN = 8


def generator(seed: int, stream: Stream, *address: int) -> np.random.Generator:
    """Make the generator of a stream, independent of all others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, *address)))
