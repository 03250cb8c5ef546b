"""Whether the data are as the search assumes them, by what sites answer about the graph that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int8

from feddag.learners.failed_checks import FailedCheck
from feddag.regression import residual_pairs
from feddag.regression.residual_checks import deviations_beyond_chance

DEPENDENT, COPIES, OUTLIERS = "residuals depend on causes", "copies", "outliers"
DIFFERING = "some sites differ"
VARYING = "other causes at some sites"
CHECK_COLUMNS = ("check", "variables", "figure", "sites", "failed")
_REMEDIES = {
    DEPENDENT: "A cause may be missing from the table, or the noise may be of a kind that the search does not know. "
    "The directions of edges into such a variable are left open: say what you know of them (required, tiers).",
    COPIES: "Nobody can tell which of two copies is the cause of a third variable, or of the other. "
    "Leave out one of them.",
    DIFFERING: "Choose sharing='auto', so that the data decide what sites have in common.",
    VARYING: "Either these sites have another graph, or something about their rows is not as the search assumes it. "
    "Each such site reads in its own terminal which edges do not fit; learn from the others without them, and compare.",
    OUTLIERS: "Mend these values, declare them missing or, if they are right, take logarithms.",
}
_CERTAIN = 4.0
"""Standard deviations beyond chance from which on a dependence counts."""
_LEAST_SHARE = 0.005
"""Of the variance: a weaker dependence, however certain, is no reason for doubt."""
_MOST_ROWS = 0.5
"""Columns are copies if they look so at sites that hold so much of all rows."""


_SURELY_DIFFERENT = 5.0
"""The log-evidence from which on some sites differ."""


class Checks(NamedTuple):
    """What all sites together answer."""

    excess: Float[np.ndarray, " node"]
    """The share by which causes explain the noise's size and shape beyond chance."""
    deviations: Float[np.ndarray, " node"]
    """The same in standard deviations."""
    outliers: Float[np.ndarray, " node"]
    """The share of the rows that are at sites where few values make up most of a variable's spread."""
    copies: Float[np.ndarray, "node node"]
    """The share of the rows that are at sites where two columns look like copies; above the diagonal."""
    differing: Float[np.ndarray, " node"]
    """The log-evidence that some sites differ in a variable's mechanism; 0 where it was not asked."""
    together: Float[np.ndarray, "node node"]
    """Of edges: by how much log-likelihood beyond chance both variables' residuals go together.

    Not a number where there is no edge, or where one of the two is discrete.
    """

    sites_differing: Float[np.ndarray, " node"]
    """The number of sites that surely differ in a variable's mechanism; 0 where it was not asked."""
    misfit: Float[np.ndarray, " node"]
    """The number of sites whose rows speak for other causes of a variable."""
    standing: Float[np.ndarray, "node node"]
    """The number of sites whose rows speak for an edge."""

    @classmethod
    def of(cls, answer: dict[str, np.ndarray], dag: Int8[np.ndarray, "node node"], rows: int) -> Checks:
        """Take the weighted mean of the sites' answers."""
        explained, by_chance, variance = answer["explained"], answer["by_chance"], answer["variance"] / rows
        nodes = len(explained)
        copies = np.zeros((nodes, nodes))
        copies[np.triu_indices(nodes, 1)] = _rounded(answer["copies"])
        deviations = deviations_beyond_chance(explained, by_chance, variance)
        together, shares = np.full((nodes, nodes), np.nan), answer["together_rows"]
        told = _rounded(shares) > 0
        together[tuple(np.argwhere(dag)[told].T)] = residual_pairs.misfit(
            answer["together"][told] / shares[told, None], rows * shares[told]
        )
        outliers, unknown = _rounded(answer["outliers"]), np.zeros(nodes)
        return cls(
            explained - by_chance,
            deviations,
            outliers,
            copies,
            differing=unknown,
            together=together,
            sites_differing=unknown,
            misfit=unknown,
            standing=np.zeros((nodes, nodes)),
        )

    @property
    def dependent(self) -> list[int]:
        """List the variables whose residuals depend on their causes."""
        return np.flatnonzero((self.deviations > _CERTAIN) & (self.excess > _LEAST_SHARE)).tolist()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """List the pairs of copies."""
        return [(int(one), int(other)) for one, other in np.argwhere(self.copies >= _MOST_ROWS)]

    def told_of(self, fewest: int) -> Checks:
        """Hide numbers of sites that are above 0 and below `fewest`."""
        counts = {name: getattr(self, name) for name in ("sites_differing", "misfit", "standing")}
        hidden = {name: np.where((each > 0) & (each < fewest), np.nan, each) for name, each in counts.items()}
        return self._replace(**hidden)

    def table(self, names: Sequence[str], dag: Int8[np.ndarray, "node node"], *, alike: bool = False) -> pd.DataFrame:
        """Return a row for each check of a variable, and for each pair that looks like copies anywhere.

        Variables in which some sites differ are listed, too; that is a failure where sites are assumed to be `alike`.
        """
        dependent, pairs = self.dependent, self.pairs
        rows = [
            (DEPENDENT, names[node], float(self.excess[node]), np.nan, node in dependent)
            for node in np.flatnonzero(dag.any(axis=0)).tolist()
        ]
        rows += [
            (COPIES, f"{names[one]} and {names[other]}", float(self.copies[one, other]), np.nan, (one, other) in pairs)
            for one, other in np.argwhere(self.copies > 0).tolist()
        ]
        rows += [
            (OUTLIERS, name, share, np.nan, share > 0)
            for name, share in zip(names, self.outliers.tolist(), strict=True)
        ]
        rows += [
            (DIFFERING, names[node], float(self.differing[node]), float(self.sites_differing[node]), alike)
            for node in np.flatnonzero(self.differing > _SURELY_DIFFERENT).tolist()
        ]
        rows += [
            (VARYING, names[node], float(self.misfit[node]), float(self.misfit[node]), True)
            for node in np.flatnonzero(self.misfit > 0).tolist()
        ]
        return pd.DataFrame(rows, columns=list(CHECK_COLUMNS))


def _rounded(shares: Float[np.ndarray, " share"]) -> Float[np.ndarray, " share"]:
    """Take what a secure sum adds for 0."""
    return np.round(shares, 6)


def failed_checks(table: pd.DataFrame) -> tuple[FailedCheck, ...]:
    """Put the checks that failed into words, those of a kind together."""
    found: list[FailedCheck] = []
    for check, remedy in _REMEDIES.items():
        variables = table.variables[table.check.eq(check) & table.failed.eq(True)].tolist()
        if variables:
            found.append(FailedCheck(_in_words(check, variables), remedy))
    return tuple(found)


def _in_words(check: str, variables: Sequence[str]) -> str:
    if check == COPIES:
        return ", ".join(f"{pair} look like copies of each other" for pair in variables)
    listed = ", ".join(variables)
    if check == DIFFERING:
        return f"Sites are assumed to be alike, and some differ in how {listed} comes about"
    if check == VARYING:
        return f"The rows of some sites by themselves speak for other causes of {listed}"
    if check == OUTLIERS:
        return f"At some site few values make up most of the spread of {listed}"
    return f"What the graph's causes leave unexplained of {listed} still depends on these causes"
