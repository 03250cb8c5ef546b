"""Hill climbing that goes on from other graphs of the same equivalence class.

Tables of discrete variables score all graphs of a class alike, and what helps one of them need not help another: an
edge between two causes of one effect is superfluous only once both point at the effect.
"""

from __future__ import annotations

import numpy as np

from feddag.graphs import to_cpdag
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.alternatives import equivalent_dag, is_admissible
from feddag.learners.search.refinement import Graph, joint_score, refine
from feddag.learners.search.scores import LEAST_GAIN, Scores


def refine_class(scores: Scores, knowledge: Knowledge, dag: Graph) -> Graph:
    """Reverse an edge within the class and climb from there, until that helps no more."""
    while True:
        better = _improve(scores, knowledge, dag)
        if better is None:
            return dag
        dag = better


def _improve(scores: Scores, knowledge: Knowledge, dag: Graph) -> Graph | None:
    cpdag, score = to_cpdag(dag), joint_score(scores, dag)
    for cause, effect in np.argwhere(dag & cpdag.T).tolist():
        start = equivalent_dag(cpdag, dag, effect, cause)
        if is_admissible(start, knowledge):
            found = refine(scores, knowledge, start)
            if joint_score(scores, found) < score - LEAST_GAIN:
                return found
    return None
