"""Whether the data are as the search assumes them, by what sites answer about the graph that was found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int8

from feddag.learners.failed_checks import FailedCheck
from feddag.regression import residual_pairs
from feddag.regression.imprecision import SHARES, Separations, surely_imprecise, surely_precise
from feddag.regression.residual_checks import deviations_beyond_chance

DEPENDENT, COPIES, OUTLIERS = "residuals depend on causes", "copies", "outliers"
ATOMS, IMPRECISE = "few values", "errors of measurement"
DIFFERING = "some sites differ"
EVERYWHERE, TOGETHER = "sites differ everywhere", "sites differ in several variables at once"
VARYING = "other causes at some sites"
CHECK_COLUMNS = ("check", "variables", "figure", "sites", "failed")
_DECIDE = "Choose sharing='auto', so that the data decide what sites have in common."
_REMEDIES = {
    DEPENDENT: "A cause may be missing from the table, or the noise may be of a kind that the search does not know. "
    "The directions of edges into such a variable are left open: say what you know of them (required, tiers).",
    COPIES: "Nobody can tell which of two copies is the cause of a third variable, or of the other. "
    "Leave out one of them.",
    ATOMS: "The directions of edges at such a column are left open. If it is one value, make two columns of it "
    "(whether it has this value, and the other values); if few, declare it ordinal.",
    IMPRECISE: "Edges at such a column are not surely there: columns may measure the same imprecisely. Leave out all "
    "but the most precise of them.",
    DIFFERING: _DECIDE,
    EVERYWHERE: _DECIDE,
    TOGETHER: _DECIDE,
    VARYING: "Either these sites have another graph, or something about their rows is not as the search assumes it. "
    "Each such site reads in its own terminal which edges do not fit; {} learn from the others without them, and "
    "compare.",
    OUTLIERS: "Mend these values, declare them missing or, if they are right, take logarithms.",
}
_CERTAIN = 4.0
"""Standard deviations beyond chance from which on a dependence counts."""
_LEAST_SHARE = 0.005
"""The least share of the variance: a weaker dependence, however certain, is no reason for doubt."""
_MOST_ROWS = 0.5
"""What each site says of columns holds if sites with so much of all rows say it."""
_EDGES, _SHARE_OF_EDGES = 3, 2 / 3
"""A column is imprecise if errors of measurement would explain so many of its edges, and such a share of them."""

_SURELY_DIFFERENT = 5.0
"""The log-evidence from which on some sites differ."""


class Doubts(NamedTuple):
    """What assumptions that fail leave open."""

    dependent: Collection[int]
    """Variables whose residuals depend on their causes: edges into them may point the other way."""
    with_atom: Collection[int]
    """Variables that have no density: edges at them may point the other way."""
    copies: Collection[tuple[int, int]]
    """Pairs of variables of which either may stand for the other."""
    imprecise: Bool[np.ndarray, "node node"]
    """Edges that errors of measurement would explain."""


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
    atoms: Float[np.ndarray, " node"]
    """The share of the rows that are at sites where one or few values make up much of a variable."""
    precise: Bool[np.ndarray, " node"]
    """Variables that separate others so well that they have no errors of measurement to speak of."""
    errors_seen: Float[np.ndarray, ""]
    """Whether separations surely tell of errors of measurement: then larger ones may explain an edge."""
    imprecise: Float[np.ndarray, "share node node"]
    """For each edge the share of the rows that are at sites where errors of other variables would explain it."""
    together: Float[np.ndarray, "node node"]
    """For each edge by how much log-likelihood beyond chance both variables' residuals go together.

    Not a number where there is no edge, or where one of the two is discrete.
    """

    sites_differing: Float[np.ndarray, " node"]
    """The number of sites that surely differ in a variable's mechanism; 0 where it was not asked."""
    misfit: Float[np.ndarray, " node"]
    """The number of sites whose rows speak for other causes of a variable."""
    standing: Float[np.ndarray, "node node"]
    """The number of sites whose rows speak for an edge."""
    vary_everywhere: Float[np.ndarray, ""]
    """Whether sites that seem to have mechanisms in common surely do not quite."""
    come_together: Float[np.ndarray, ""]
    """Whether the same sites differ in several variables at once, more often than by chance."""

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
        unknown, seen = np.zeros(nodes), Separations(answer["errors"], answer["error_weights"])
        return cls(
            excess=explained - by_chance,
            deviations=deviations,
            outliers=_rounded(answer["outliers"]),
            copies=copies,
            differing=unknown,
            atoms=_rounded(answer["atoms"]),
            precise=surely_precise(seen, rows),
            errors_seen=np.array(float(surely_imprecise(seen, rows))),
            imprecise=np.zeros((len(SHARES), nodes, nodes)),
            together=together,
            sites_differing=unknown,
            misfit=unknown,
            standing=np.zeros((nodes, nodes)),
            vary_everywhere=np.zeros(()),
            come_together=np.zeros(()),
        )

    def with_imprecision(self, answer: dict[str, np.ndarray], dag: Int8[np.ndarray, "node node"]) -> Checks:
        """Take the weighted mean of what sites say of edges that errors of measurement would explain."""
        imprecise = np.zeros_like(self.imprecise)
        imprecise[:, *np.nonzero(dag)] = _rounded(answer["imprecise"]).T
        return self._replace(imprecise=imprecise)

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

    @property
    def with_atom(self) -> list[int]:
        """List the variables of which one or few values make up much."""
        return np.flatnonzero(self.atoms >= _MOST_ROWS).tolist()

    def imprecise_nodes(self, dag: Int8[np.ndarray, "node node"]) -> list[int]:
        """List the variables of which errors of measurement would explain most edges."""
        adjacent = dag | dag.T
        count = (np.maximum(self.imprecise[-1], self.imprecise[-1].T) >= _MOST_ROWS).sum(axis=0)
        return np.flatnonzero((count >= _EDGES) & (count >= _SHARE_OF_EDGES * adjacent.sum(axis=0))).tolist()

    def doubts(self, dag: Int8[np.ndarray, "node node"]) -> Doubts:
        """Return what the assumptions that fail leave open."""
        small, large = self.imprecise[[0, -1]] >= _MOST_ROWS
        may_be_large = np.full(dag.shape, self.errors_seen > 0)
        nodes = self.imprecise_nodes(dag)
        may_be_large[nodes], may_be_large[:, nodes] = True, True
        imprecise = small | large & may_be_large
        return Doubts(self.dependent, self.with_atom, self.pairs, imprecise)

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
        often, imprecise = self.with_atom, self.imprecise_nodes(dag)
        rows += [
            (ATOMS, names[node], float(self.atoms[node]), np.nan, node in often)
            for node in np.flatnonzero(self.atoms).tolist()
        ]
        shares = np.maximum(self.imprecise[-1], self.imprecise[-1].T).sum(axis=0)
        shares /= np.maximum((dag | dag.T).sum(axis=0), 1)
        rows += [
            (IMPRECISE, names[node], float(shares[node]), np.nan, node in imprecise)
            for node in np.flatnonzero(shares).tolist()
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
            (check, "all variables", np.nan, np.nan, alike)
            for check, found in ((EVERYWHERE, self.vary_everywhere), (TOGETHER, self.come_together))
            if found
        ]
        rows += [
            (VARYING, names[node], float(self.misfit[node]), float(self.misfit[node]), True)
            for node in np.flatnonzero(self.misfit > 0).tolist()
        ]
        return pd.DataFrame(rows, columns=list(CHECK_COLUMNS))


def _rounded(shares: Float[np.ndarray, " share"]) -> Float[np.ndarray, " share"]:
    """Take what a secure sum adds for 0."""
    return np.round(shares, 6)


def failed_checks(table: pd.DataFrame, *, looked_for_groups: bool = False) -> tuple[FailedCheck, ...]:
    """Put the checks that failed into words, those of a kind together."""
    groups = "" if looked_for_groups else "if there are three or more, learn with groups=2, or"
    found: list[FailedCheck] = []
    for check, remedy in _REMEDIES.items():
        variables = table.variables[table.check.eq(check) & table.failed.eq(True)].tolist()
        if variables:
            said = " ".join(remedy.format(groups).split()) if check == VARYING else remedy
            found.append(FailedCheck(_in_words(check, variables), said))
    return tuple(found)


_WORDS = {
    EVERYWHERE: "Sites are assumed to be alike, and mechanisms vary a little from site to site, everywhere ({})",
    TOGETHER: "Sites are assumed to be alike, and some differ in several variables at once (of {})",
    DIFFERING: "Sites are assumed to be alike, and some differ in how {} comes about",
    VARYING: "The rows of some sites by themselves speak for other causes of {}",
    ATOMS: "Few values make up much of {}, and no density describes that",
    IMPRECISE: "Small errors of measurement would explain most edges of {}",
    OUTLIERS: "At some site few values make up most of the spread of {}",
    DEPENDENT: "What the graph's causes leave unexplained of {} still depends on these causes",
}


def _in_words(check: str, variables: Sequence[str]) -> str:
    if check == COPIES:
        return ", ".join(f"{pair} look like copies of each other" for pair in variables)
    return _WORDS[check].format(", ".join(variables))
