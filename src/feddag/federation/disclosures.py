"""What each task makes a site give away, in plain words: the one table that audits and policies read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Disclosure:
    """A task's answer."""

    summary: str
    arrays: Mapping[str, str]
    """By the array's name, in which * stands for anything."""

    def words(self, array: str) -> str:
        return next((words for name, words in self.arrays.items() if fnmatchcase(array, name)), "")


PLAIN, SECURE_SUM = "plain", "secure sum"
"""How an answer may leave a site. The second may be followed by noise: `secure sum + dp(ε=3, δ=1e-05)`."""


PROTECTING = "secure-sum"
"""The task under which keys and shares are logged."""


def protection_words(protection: str, sites: int) -> str:
    """What a protection means to whoever reads an audit."""
    words = []
    for part in protection.split(" + "):
        if part == SECURE_SUM:
            words.append(f"inside a secure sum of {sites} sites")
        elif part == PLAIN:
            words.append("unprotected: the server sees this site's own numbers")
        elif part.startswith("dp(") and part.endswith(")"):
            words.append(f"with noise, for differential privacy of {part[3:-1]}")
        else:
            words.append(part)
    return ", ".join(words)


_ROWS = Disclosure("The number of rows", {"rows": "the number of rows"})
_SCORES = {"scores": "how well each family of variables explains the site's rows"}
_MEANS = Disclosure("The mean of each variable", {"mean": "for each variable its mean"})
_VARIANCES = Disclosure(
    "The variance of each variable", {"variance": "for each variable its variance about the common mean"}
)
_SPREAD = {
    "row_first": "for each comparison the mean difference per row",
    "row_second": "for each comparison the mean square of the difference per row",
    "site_first": "for each comparison the site's difference times its rows",
    "site_second": "for each comparison the square of the site's difference times its rows",
    "site_rows": "the number of rows",
}

DISCLOSURES: Mapping[str, Disclosure] = {
    "feddag.solve": Disclosure(
        "Parameters of the common graph, after some steps of learning on the site's own rows",
        {
            "graph": "for each possible edge its logit or its weights",
            "mechanism/*": "parameters of the mechanisms, where all sites have them in common",
        },
    ),
    PROTECTING: Disclosure("Keys and sealed shares by which a sum is protected: random numbers", {}),
    "scale.sums": Disclosure(
        "The number of rows, and the sum of each continuous variable",
        {"rows": "the number of rows", "sum": "for each continuous variable its sum over all rows"},
    ),
    "scale.squares": Disclosure(
        "How much each continuous variable varies",
        {"squares": "for each continuous variable the sum of its squares about the common mean"},
    ),
    "scale.set": Disclosure("That the common units were taken over", {"done": "the number 1"}),
    "moments.sums": Disclosure(
        "The number of rows, and the sum of each variable",
        {"rows": "the number of rows", "sum": "for each variable its sum over all rows"},
    ),
    "moments.products": Disclosure(
        "How the variables vary together",
        {"products": "for each pair of variables the sum of their products over all rows, about the common mean"},
    ),
    "admm.rows": _ROWS,
    "admm.fit": Disclosure(
        "Equations fitted to the site's own rows, drawn towards the common ones",
        {
            "W": "for each possible edge its weights, plus the scaled multipliers",
            "*": "other parameters of the equations, plus the scaled multipliers",
        },
    ),
    "regimes.vote": Disclosure(
        "The graph that the site has learned alone",
        {"directed": "for each possible edge whether it is there", "undirected": "the same for undirected edges"},
    ),
    "search.rows": _ROWS,
    "search.means": _MEANS,
    "search.variances": _VARIANCES,
    "search.gram": Disclosure(
        "How functions of the variables vary together",
        {"mean": "the mean of each function", "second": "for each pair of functions the mean of their product"},
    ),
    "search.family-grams": Disclosure(
        "How functions of some sets of variables vary together",
        {
            "mean/*": "for a set of variables the mean of each function",
            "second/*": "for each pair of these functions the mean of their product",
            "cross/*": "for each of these functions the mean of its product with every variable",
        },
    ),
    "search.neighbourhoods": Disclosure("Scores of families of variables, by quick regressions", _SCORES),
    "search.scores": Disclosure("Scores of families of variables, by full regressions", _SCORES),
    "search.comparisons": Disclosure(
        "By how much some graphs explain the site's rows better than others, and how sure that is",
        {
            "difference": "for each comparison the difference of scores",
            **_SPREAD,
            "shape": "for each family how heavy-tailed and how skewed the noise is",
            "shape_square": "for each family the mean squares behind these",
        },
    ),
    "selection.score": Disclosure(
        "How well a graph predicts rows that the site has laid aside", {"score": "one number for the graph"}
    ),
    "trust.rows": Disclosure(
        "The number of rows",
        {"held_out": "how many rows are laid aside for checks", "training": "how many are used to fit"},
    ),
    "trust.held-out": Disclosure(
        "How well some graphs predict rows that the site has laid aside",
        {"scores": "one number for each graph", **_SPREAD},
    ),
    "trust.means": _MEANS,
    "trust.variances": _VARIANCES,
    "trust.sums": Disclosure(
        "How each variable varies together with functions of its causes",
        {
            "*/frequencies": "for each level of a category how frequent it is",
            "*": "means over rows, and means of products, of a variable and functions of its causes",
        },
    ),
    "trust.logistic": Disclosure(
        "How likely the site's rows of a category are by a common regression on its causes, and how to better that",
        {
            "value": "the mean logarithm of the likelihood",
            "gradient": "how it changes with each parameter",
            "curvature": "for each pair of parameters the second derivative",
        },
    ),
    "trust.mechanisms": Disclosure(
        "By how much the site's own mechanisms predict its rows better than the common ones",
        {
            "row_first": "for each variable the mean difference per row",
            "row_second": "for each variable the mean square of the difference per row",
        },
    ),
    "trust.effects": Disclosure(
        "By how much one variable changes another at the site",
        {
            "slope": "the effect times rows, for each set of causes to adjust for",
            "variance": "the square of its standard error, times the square of the rows",
            "rows": "the number of rows",
        },
    ),
}
