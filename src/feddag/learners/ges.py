"""GES (Chickering, "Optimal structure identification with greedy search", JMLR 2002): classes of graphs by score.

causal-learn's, with the Gaussian BIC: edges are added as long as the score rises, then removed as long as it does.
Some edges of the class stay undirected.

Assumes: linear mechanisms, Gaussian noise, no hidden common causes. Do not use it where mechanisms are not linear: it
then joins too many variables.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from feddag.learners.causal_learn import FromCausalLearn, causal_learn


class GES(FromCausalLearn):
    """Learn the equivalence class that greedy search finds to have the best BIC."""

    parameter_constraints: ClassVar = {}

    def endpoints(self, values: np.ndarray) -> np.ndarray:
        """Run causal-learn's GES with the Gaussian BIC."""
        ges = causal_learn("causallearn.search.ScoreBased.GES").ges
        return ges(values, "local_score_BIC")["G"].graph
