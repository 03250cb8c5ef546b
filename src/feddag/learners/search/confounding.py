"""Whether a hidden common cause explains an edge as well as a direct effect does.

An edge i -> j that is surely there, with a sure direction, may still stand for a hidden common cause of i and j. Three
things rule that out:

- **The noise.** In the other direction the data are surely less likely, and what the causes leave unexplained of i is
  as good as independent of what they leave unexplained of j. A hidden common cause is in both residuals. Straight
  lines with normal noise are as likely in both directions, so that this tells nothing about them.
- **Another cause.** Something points to i, has no edge to j, and tells about j unless i is known. If i and j had a
  hidden common cause, it would tell about j only once i is known.

Two things make a hidden common cause likely: residuals that surely go together; and a third variable that has edges to
both, and tells about j only once i is known, unless the noise rules a hidden common cause of i and j out. The edge from
this variable to j is then likely no effect, either. The directions of such edges are left open. Others hold if nothing
is hidden: residuals go together a little, too, where the mechanism or its noise is of a kind that the search lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np
from jaxtyping import Float

from feddag.graphs.marks import ARROW, TAIL
from feddag.learners.knowledge import Knowledge
from feddag.learners.search.ancestral_search import known_causes, orient, separators_of
from feddag.learners.search.checks import Checks
from feddag.learners.search.directions import (
    LIKELY,
    RULED_OUT,
    Change,
    Compared,
    Directions,
    Edge,
    EdgeEvidence,
    compare_changes,
    surely_worse,
)
from feddag.learners.search.refinement import Graph
from feddag.learners.search.scores import BY_INTERVENTIONS, SOURCES, Scores, families_of
from feddag.regression.residual_pairs import deviations

_TOLERATED = 1 / 15
"""Residuals that go together by at most this share of what the noise tells do not contradict the direction."""
_INDEPENDENT = 1 / 30
"""Up to this share they are as good as independent, so that a hidden common cause is ruled out."""
_LEAST_TOLD = 10.0
"""Log-evidence that noise must tell: where it tells nothing, priors of both directions still differ by a little."""
_LEAST_SHOWN = 20.0
"""Log-evidence from which on a hidden common cause would show in the residuals: below, chance often conceals it."""
_BY_CHANCE = 2.0
"""Log-evidence that the shapes of normal noise seem to tell at one site."""
_CLEAR = 5.0
"""Standard errors by which noise tells a direction so clearly that nobody asks once more."""
_DEPENDENT = 3.0
"""Standard deviations beyond chance from which on residuals surely go together."""
_SUSPECT = 1.0
"""Standard deviations from which on another cause does not rule out what rows could tell: the two contradict."""
_MOST_ASKED = 3
"""Third variables that are asked about an edge, those with the most evidence."""


class _Third(NamedTuple):
    """A variable with an edge to an edge's cause."""

    node: int
    edge: Edge


def mark_confounding(
    dag: Graph,
    directions: Directions,
    checks: Checks,
    scores: Scores,
    knowledge: Knowledge,
    confidence: float,
    *,
    equal_noise: bool,
) -> Directions:
    """Say for each edge whether a hidden common cause is ruled out, possible or likely; where it is likely, doubt it.

    Args:
        dag: The graph that was found.
        directions: The evidence of its edges.
        checks: How far residuals of an edge's variables go together, and whether errors of measurement explain it.
        scores: Scores of families.
        knowledge: What is known of the graph.
        confidence: What rules a hidden common cause out must be sure by so much.
        equal_noise: Whether directions follow from noise of equal variance: then they say nothing of hidden causes.
    """
    evidence = {(each.cause, each.effect): each for each in directions.evidence}
    together, explained = checks.together, checks.doubts(dag).imprecise
    sure = [edge for edge, each in evidence.items() if each.present and each.directed]
    apart = _thirds(dag, sure, evidence, joined=False)
    joined = _thirds(dag, list(evidence), evidence, joined=True)
    changes = [_turn(dag, *edge) for edge in evidence]
    changes += [_drop_third(dag, each) for each in (*apart, *joined)]
    compared = compare_changes(scores, changes) if changes else []
    turned, of_thirds = dict(zip(evidence, compared, strict=False)), compared[len(evidence) :]
    told = [] if equal_noise else [edge for edge in sure if np.isfinite(together[edge])]
    heard = {edge for edge in told if _rows_tell(turned[edge], scores.sites)}
    again = _turn_with_mediators(dag, [edge for edge in heard if not _is_clear(turned[edge])], scores, confidence)
    turned |= {edge: each for edge, each in again.items() if not _is_told(turned[edge], confidence)}
    by_noise = {edge for edge in told if _noise_tells(turned[edge], float(together[edge]), confidence)}
    by_experiments = {edge for edge in heard if _experiments_tell(turned[edge])}
    independent = {edge for edge in by_noise if _are_independent(turned[edge], float(together[edge]))}
    independent |= by_experiments
    by_noise |= by_experiments
    telling = {third for third, each in zip(apart, of_thirds, strict=False) if surely_worse(each.over_all, confidence)}
    silent = {third for third, each in zip(joined, of_thirds[len(apart) :], strict=True) if each.worse < 0}
    likely = _find_likely(turned, together, [third for third in silent if third.edge not in by_noise])
    imprecise = {edge for edge in evidence if explained[edge] and edge not in directions.unseen_by_lines}
    suspect = {edge for edge in heard if deviations(together[edge]) > _SUSPECT}
    reliable = {
        third
        for third in telling
        if third.edge not in imprecise | suspect and (third.node, third.edge[0]) not in imprecise
    }
    ruled_out = _follow(dag, sure, independent, reliable, knowledge)
    there = {edge for edge, each in evidence.items() if each.present} - imprecise
    ruled_out |= _follow_rules(dag, sure, there, ruled_out, knowledge) - heard
    states = dict.fromkeys(ruled_out, RULED_OUT) | dict.fromkeys(likely, LIKELY)
    return directions.with_confounding(states, imprecise, together, knowledge)


def _find_likely(
    turned: Mapping[Edge, Compared], together: Float[np.ndarray, "node node"], silent: Iterable[_Third]
) -> set[Edge]:
    """Return the edges of which residuals surely go together, and those that a silent third variable speaks against."""
    likely = {
        edge
        for edge, each in turned.items()
        if deviations(together[edge]) > _DEPENDENT and not _is_slight(float(together[edge]), each)
    }
    for node, (cause, effect) in silent:
        likely |= {(cause, effect), (node, effect)}
    return likely


def _noise_tells(turned: Compared, together: float, confidence: float) -> bool:
    """Say whether the noise tells the direction of an edge, and residuals do not contradict it."""
    return _is_told(turned, confidence) and _is_slight(together, turned)


def _are_independent(turned: Compared, together: float) -> bool:
    """Say whether residuals are as good as independent, and would not be if the cause were hidden."""
    return turned.worse > _LEAST_SHOWN and _is_slight(together, turned, _INDEPENDENT)


def _is_told(turned: Compared, confidence: float) -> bool:
    """Say whether an edge is surely worse once it is turned, by what rows tell.

    A log-likelihood ratio that rows tell varies by about twice its size. What varies less, all rows have alike: it
    comes from the prior, and tells nothing.
    """
    return turned.error**2 > turned.worse > _LEAST_TOLD and surely_worse(turned.over_all, confidence)


def _experiments_tell(turned: Compared) -> bool:
    """Say whether the effect follows a cause that experiments set, by far more than what rows vary."""
    return turned.parts[SOURCES.index(BY_INTERVENTIONS)] > _CLEAR * turned.error


def _is_clear(turned: Compared) -> bool:
    """Say whether noise tells the direction so clearly that nobody asks once more."""
    return turned.worse > _CLEAR * turned.error


def _is_slight(together: float, turned: Compared, share: float = _TOLERATED) -> bool:
    """Say whether residuals go together by less than a share of what the noise tells about the direction."""
    return together < share * turned.worse


def _rows_tell(turned: Compared, sites: int) -> bool:
    """Say whether rows vary as they do where the noise tells a direction, and not by chance at each site."""
    return turned.row_error**2 / 2 > max(_LEAST_TOLD, _BY_CHANCE * sites)


def _thirds(dag: Graph, edges: Sequence[Edge], evidence: Mapping[Edge, EdgeEvidence], *, joined: bool) -> list[_Third]:
    """List for each edge variables with an edge to its cause: those that act on its effect, too, or have no edge to it.

    Those with the most evidence come first.
    """
    adjacent, found = dag | dag.T, []
    for i, j in edges:
        if joined:
            near = np.flatnonzero(dag[:, j] & adjacent[:, i]).tolist()
        else:
            near = [k for k, effect in edges if effect == i and not adjacent[k, j]]
        near = sorted(near, key=lambda k: -evidence[(k, i) if dag[k, i] else (i, k)].absent)
        found += [_Third(k, (i, j)) for k in near[:_MOST_ASKED]]
    return found


def _turn_with_mediators(
    dag: Graph, edges: Collection[Edge], scores: Scores, confidence: float
) -> dict[Edge, Compared]:
    """Compare edges once more, with what lies between cause and effect among the parents; return those that this tells.

    Without them all that acts along other paths counts as noise of the effect, which hides what its own noise tells.
    """
    changes = {edge: _turn(dag, *edge, mediators=True) for edge in sorted(edges)}
    changes = {edge: change for edge, change in changes.items() if change != _turn(dag, *edge)}
    compared = compare_changes(scores, list(changes.values())) if changes else []
    return {edge: each for edge, each in zip(changes, compared, strict=True) if _is_told(each, confidence)}


def _turn(dag: Graph, cause: int, effect: int, *, mediators: bool = False) -> Change:
    """Turn an edge while both its ends have the same other parents: independences do not change, and the noise tells.

    What the cause acts on is left out of these, unless `mediators` are to stay.
    """
    later = {cause, effect} if mediators else nx.descendants(nx.DiGraph(dag), cause) | {cause}
    others = sum(1 << node for node in np.flatnonzero(dag[:, cause] | dag[:, effect]).tolist() if node not in later)
    return {
        (effect, others): 1,
        (cause, others | 1 << effect): 1,
        (cause, others): -1,
        (effect, others | 1 << cause): -1,
    }


def _drop_third(dag: Graph, third: _Third) -> Change:
    """Leave out the third variable from what explains the effect without its cause."""
    cause, effect = third.edge
    others = families_of(dag)[effect][1] & ~(1 << cause) & ~(1 << third.node)
    return {(effect, others): 1, (effect, others | 1 << third.node): -1}


def _follow(
    dag: Graph, sure: Collection[Edge], by_noise: set[Edge], telling: set[_Third], knowledge: Knowledge
) -> set[Edge]:
    """Return the edges that are no hidden common cause, by their noise or by another cause that surely points there.

    It does so if its own edge is no hidden common cause, if knowledge says so, or if a further cause without an edge to
    it points there, too: then the two are independent, whatever is hidden.
    """
    adjacent = dag | dag.T
    ruled_out = set(by_noise)

    def points(third: _Third) -> bool:
        node, (cause, _) = third
        meets = any(effect == cause and k != node and not adjacent[k, node] for k, effect in sure)
        return (node, cause) in ruled_out or meets or bool(knowledge.impossible[cause, node])

    while True:
        found = {each.edge for each in telling if each.edge not in ruled_out and points(each)}
        if not found:
            return ruled_out
        ruled_out |= found


def _follow_rules(
    dag: Graph, sure: Collection[Edge], there: Collection[Edge], ruled_out: Collection[Edge], knowledge: Knowledge
) -> set[Edge]:
    """Return the sure edges whose tail follows by FCI's rules from the independences of the graph, whoever is hidden.

    What points to the cause and has no edge to the effect must surely be there, or one such variable at least.
    """
    marks = orient(dag | dag.T, separators_of(dag), [*ruled_out, *known_causes(knowledge)], knowledge)
    apart = (dag | dag.T) == 0

    def is_borne(cause: int, effect: int) -> bool:
        pointing = [(k, cause) for k in np.flatnonzero(dag[:, cause] & apart[:, effect]).tolist()]
        return not pointing or not set(pointing).isdisjoint(there)

    return {(i, j) for i, j in sure if marks[i, j] == ARROW and marks[j, i] == TAIL and is_borne(i, j)}
