"""Proteins of T cells under nine experimental conditions, each taken for a site, beside the literature's consensus.

python examples/sachs.py
"""

from __future__ import annotations

import numpy as np

import feddag
from feddag import trust
from feddag.silos.real import sachs


def main() -> None:
    data = sachs()
    print(f"{data.source} Licence: {data.licence}.")

    # Concentrations spread over orders of magnitude: their logarithms are nearer to additive noise.
    silos = {silo.name: np.log(silo.to_frame()) for silo in data.silos}
    learner = feddag.EvidenceSearch(sharing="graph", restarts=0, seed=1).fit(silos)

    print(learner.graph_)
    metrics = feddag.compare(learner.graph_, data.truth)
    print(
        f"{metrics.missing} edges of the consensus are missing,"
        f" {metrics.extra} are extra, {metrics.reversed} reversed, "
        f"{metrics.left_open} found without a direction"
    )
    print(trust.assess(learner, silos).verdict)


if __name__ == "__main__":
    main()
