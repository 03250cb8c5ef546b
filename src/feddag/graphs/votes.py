"""Elect one graph from the sites' graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from feddag.errors import FeddagError
from feddag.graphs.causal_graph import CausalGraph
from feddag.graphs.dag import threshold_to_dag
from feddag.graphs.matrices import Adjacency, Scores


def ballot(adjacency: Adjacency) -> tuple[Scores, Scores]:
    """Split a graph into its directed and its undirected edges (both entries 1), as a vote counts them."""
    undirected = adjacency & adjacency.T
    return (adjacency - undirected).astype(np.float64), undirected.astype(np.float64)


def votable(graph: CausalGraph) -> CausalGraph:
    """Return the graph, if a vote can count all its edges.

    Raises:
        FeddagError: It has edges <->, o-> or o-o, for which there is no rule of majority here.
    """
    if graph.allows_hidden_causes:
        raise FeddagError(
            "Sites cannot vote on graphs with hidden common causes: a vote counts directed and undirected edges. Learn "
            "together (regime='federated'), or without hidden causes."
        )
    return graph


def support(directed: Scores, undirected: Scores) -> Scores:
    """Sum the votes for each direction: an undirected edge counts half for each of its two."""
    return directed + undirected / 2


def majority(directed: Scores, undirected: Scores, voters: int, names: Sequence[str]) -> CausalGraph:
    """Elect a graph from the sums of the voters' ballots; its scores are the shares of votes.

    A pair is joined if more than half of the voters join it, and takes the direction that has more support. A tie
    stays undirected if some voter left the pair undirected; otherwise it counts as a cycle of two. Of every directed
    cycle the edge with the least support is cut (`threshold_to_dag`), among equals the first by the names of its source
    and target: so the order of the variables does not matter.
    """
    order = sorted(range(len(names)), key=lambda k: names[k])
    directed, undirected = directed[np.ix_(order, order)], undirected[np.ix_(order, order)]
    votes = support(directed, undirected)
    joined = 2 * (votes + votes.T) > voters
    leading = joined & (votes >= votes.T)
    open_ = leading & leading.T & (undirected > 0)
    elected = threshold_to_dag(np.where(leading & ~open_, votes, 0), 0) | open_
    return CausalGraph(elected, [names[k] for k in order], votes / voters).reordered(names)
