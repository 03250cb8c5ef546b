"""PC (Spirtes, Glymour and Scheines, "Causation, Prediction, and Search", 2001): edges that no test can explain away.

causal-learn's, in the stable variant, with the Fisher-z test of partial correlations. It finds the equivalence class
of the graph: some edges stay undirected.

Assumes: no hidden common causes, faithfulness, relations linear enough for correlations to see them. Do not use it
with few rows and many variables, where one wrong test misleads all later ones; in finite samples its graph may even
hold a directed cycle.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from feddag.learners.base import PROPORTION
from feddag.learners.causal_learn import FromCausalLearn, causal_learn


class PC(FromCausalLearn):
    """Learn the equivalence class from tests of conditional independence.

    Args:
        alpha: The level of the tests.
    """

    parameter_constraints: ClassVar = {"alpha": PROPORTION}

    def __init__(self, alpha: float = 0.01) -> None:
        self.alpha = alpha

    def endpoints(self, values: np.ndarray) -> np.ndarray:
        """Run causal-learn's PC with Fisher's z test."""
        pc = causal_learn("causallearn.search.ConstraintBased.PC").pc
        return pc(values, self.alpha, "fisherz", show_progress=False).G.graph
