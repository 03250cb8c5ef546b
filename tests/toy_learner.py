"""The least that a learner with a federation and a checkpoint must be: it joins variables that are correlated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from feddag import constraints
from feddag.federation import Answer, Federation, Task
from feddag.graphs import CausalGraph
from feddag.learners.base import SEED
from feddag.learners.federated import FederatedLearner
from feddag.learners.status import Status


@dataclass
class Site:
    name: str
    correlations: np.ndarray

    def answer(self, task):
        return Answer(1.0, {"correlations": self.correlations})

    def snapshot(self):
        return {}

    def restore(self, state):
        pass


@dataclass
class History:
    edges: list[int] = field(default_factory=list)

    def to_frame(self):
        return pd.DataFrame({"edges": self.edges})


class Server:
    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.history = History()
        self.scores = np.zeros((0, 0))

    def round(self, threshold: float) -> None:
        everyone = tuple(range(len(self.federation.sites)))
        mean = self.federation.aggregate(Task("toy.correlate", len(self.history.edges), {}, {}, everyone))
        self.scores = np.abs(mean["correlations"]) * (1 - np.eye(len(mean["correlations"])))
        self.history.edges.append(int((self.scores > threshold).sum()) // 2)

    def snapshot(self):
        return {"edges": self.history.edges}, {"scores": self.scores}

    def restore(self, document, arrays):
        self.history, self.scores = History(document["edges"]), arrays["scores"]


class Toy(FederatedLearner):
    parameter_constraints: ClassVar = {
        "it_max": constraints.whole(1),
        "threshold": constraints.positive,
        "weighting": constraints.one_of(("equal",)),
        "seed": SEED,
    }

    def __init__(
        self, *, it_max: int = 3, threshold: float = 0.5, weighting: Literal["equal"] = "equal", seed: int = 0
    ) -> None:
        self.it_max = it_max
        self.threshold = threshold
        self.weighting = weighting
        self.seed = seed

    def site(self, silo, position):
        return Site(silo.name, np.corrcoef(silo.values.T))

    def learn(self, federation, columns, context):
        server = Server(federation)
        checkpointer = context.checkpointer(server, federation)
        while len(server.history.edges) < self.it_max:
            server.round(self.threshold)
            figures = {"round": len(server.history.edges), "edges": server.history.edges[-1]}
            checkpointer.after_round(Status(None, figures, context.seconds))
        checkpointer.save()
        self.graph_ = CausalGraph(server.scores > self.threshold, columns, server.scores)
        self.history_, self.communication_ = server.history, federation.ledger

    def snapshot(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        document, arrays = super().snapshot()
        return {**document, "history": self.history_.edges}, arrays

    def restore(self, document, arrays):
        self.history_ = History(document["history"])
        return super().restore(document, arrays)
