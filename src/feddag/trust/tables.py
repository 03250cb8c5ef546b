"""What is seldom meant in tables that nobody sees together: warnings before a fit, from sums over all sites.

A site is never named, and a number of sites only where neither it nor the rest is a small group. Each site compares
itself with the sums, and tells its own operator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from feddag.federation import Answer, Stateless, Task
from feddag.federation.protocol import Arrays, Federation
from feddag.federation.tasks import Bounds, Output, TaskSpec, by_name
from feddag.silos import Silo
from feddag.silos.suspicions import MOST_ROWS_LOST, OTHER_UNIT, repeats_rows, straight_lines
from feddag.silos.variable_types import Kind

COUNTS = TaskSpec(
    "tables.counts",
    "How many values are missing, and whether the table looks as it was meant",
    {
        "read": Output("the number of rows that were read, less the dropped ones if these are few"),
        "dropped": Output("the number of rows left out for missing values, or 0 if these are few"),
        "missing": Output("for each variable the number of missing values, or 0 if these are few", ("variable",)),
        "repeated": Output("1 if every row stands at least twice"),
        "lines": Output("for each pair of continuous variables 1 if one is a straight line of the other", ("pair",)),
        "usual": Output("for each continuous variable 1 if the next numbers can be told", ("continuous",)),
        "spread": Output("the logarithm of each continuous variable's deviation", ("continuous",)),
        "spread_squared": Output("the square of that", ("continuous",)),
        "size": Output("the logarithm of each continuous variable's median size", ("continuous",)),
        "size_squared": Output("the square of that", ("continuous",)),
        "marks": Output("a few of many numbers, which the table's whole content draws", ("draw", "mark")),
    },
)
COMPARISON = TaskSpec(
    "tables.comparison",
    "How the table compares with the sums over all sites",
    {
        "larger": Output("for each continuous variable 1 if it is as in a smaller unit", ("continuous",)),
        "smaller": Output("for each continuous variable 1 if it is as in a larger unit", ("continuous",)),
        "shared": Output("1 if another site has the same table"),
    },
)
TABLE_TASKS = (COUNTS, COMPARISON)

_DRAWS = 10
_MARKS_PER_SITE = 2
"""By chance alone a site shares its marks of all draws less than once in ten thousand times, whatever the sites."""
_LARGEST_LOGARITHM = 800.0


def table_tasks(kinds: Mapping[str, Kind], sites: int) -> dict[str, TaskSpec]:
    """Return the tasks of `look_at_tables` on variables of these kinds, with bounds on what each brings."""
    continuous = sum(not kind.discrete for kind in kinds.values())
    logarithms = Bounds(-_LARGEST_LOGARITHM, _LARGEST_LOGARITHM, shape=(continuous,))
    squares = Bounds(0, _LARGEST_LOGARITHM**2, shape=(continuous,))
    arrays = {
        "usual": Bounds(0, 1, shape=(continuous,)),
        "spread": logarithms,
        "spread_squared": squares,
        "size": logarithms,
        "size_squared": squares,
        "marks": Bounds(0, 1, shape=(_DRAWS, _MARKS_PER_SITE * sites)),
    }
    return by_name((COUNTS, COMPARISON.with_bounds(arrays=arrays)))


class TableSite(Stateless):
    """A site's part: the table as it was before any common units."""

    def __init__(self, silo: Silo, sites: int, salt: str, tell: Callable[[str], None]) -> None:
        """Stand ready.

        Args:
            silo: The site's table.
            sites: How many sites there are.
            salt: What the marks of a table depend on besides its content: the study's digest.
            tell: Takes what concerns this site alone, for its operator.
        """
        self.name = silo.name
        self._silo, self._sites, self._salt, self._tell = silo, sites, salt, tell
        self._numbers = [k for k, kind in enumerate(silo.kinds) if not kind.discrete]

    def answer(self, task: Task) -> Answer:
        """Answer `tables.counts` or `tables.comparison`."""
        return Answer(1.0, self._counts() if task.name == COUNTS.name else self._compare(task.arrays))

    def _counts(self) -> dict[str, np.ndarray]:
        silo, account = self._silo, self._silo.account
        lines = np.zeros((len(self._numbers), len(self._numbers)))
        for one, other, _ in straight_lines(silo):
            lines[self._numbers.index(one), self._numbers.index(other)] = 1.0
        usual, spread, size = self._logarithms()
        dropped = self._unless_few(account.rows_dropped)
        return {
            "read": np.array(account.rows_read - account.rows_dropped + dropped),
            "dropped": np.array(dropped),
            "missing": np.array([self._unless_few(account.missing.get(name, 0)) for name in silo.columns]),
            "repeated": np.array(float(repeats_rows(silo))),
            "lines": lines[np.triu_indices(len(lines), 1)],
            "usual": usual,
            "spread": spread,
            "spread_squared": spread**2,
            "size": size,
            "size_squared": size**2,
            "marks": self._marks(),
        }

    def _unless_few(self, rows: int) -> float:
        """Return a number of rows, or 0 if it is about fewer than the site allows."""
        return float(rows) if rows >= self._silo.minimum_cell else 0.0

    def _logarithms(self) -> tuple[Float[np.ndarray, " continuous"], ...]:
        values = self._silo.values[:, self._numbers]
        spread, size = values.std(axis=0), np.median(np.abs(values), axis=0)
        usual = (spread > 0) & (size > 0)
        return usual.astype(float), np.log(np.where(usual, spread, 1)), np.log(np.where(usual, size, 1))

    def _marks(self) -> Float[np.ndarray, "draw mark"]:
        """Return one mark of each draw; none of a table of levels alone, which somebody could guess as a whole."""
        marks = np.zeros((_DRAWS, _MARKS_PER_SITE * self._sites))
        if self._numbers:
            for draw in range(_DRAWS):
                drawn = hashlib.sha256(f"{self._salt} {self._silo.digest()} {draw}".encode()).digest()
                marks[draw, int.from_bytes(drawn[:8]) % marks.shape[1]] = 1.0
        return marks

    def _compare(self, means: Arrays) -> dict[str, np.ndarray]:
        usual, spread, size = self._logarithms()
        side = _odd(spread, means["spread"], means["spread_squared"], self._sites)
        side += _odd(size, means["size"], means["size_squared"], self._sites)
        side *= (means["usual"] * self._sites > self._sites - 0.5) & (usual > 0)
        marks = self._marks()
        shared = bool(self._numbers) and bool((means["marks"] * self._sites * marks).sum(axis=1).min() > 1.5)
        for place, k in enumerate(self._numbers):
            if abs(side[place]) == 2:
                others = (means["spread"][place] * self._sites - spread[place]) / (self._sites - 1)
                self._tell(
                    f"column {self._silo.columns[k]!r}: its spread is {np.exp(spread[place] - others):.3g} times that "
                    "at the other sites. Is it in another unit? Convert it, and agree on a range in the study."
                )
        if shared:
            self._tell("another site has the same table, value by value. Call the others: its rows count twice.")
        return {
            "larger": (side == 2).astype(float),
            "smaller": (side == -2).astype(float),
            "shared": np.array(float(shared)),
        }


def _odd(
    own: Float[np.ndarray, " continuous"],
    mean: Float[np.ndarray, " continuous"],
    mean_square: Float[np.ndarray, " continuous"],
    sites: int,
) -> Float[np.ndarray, " continuous"]:
    """Return 1 or -1 where a site is far above or below all others, and makes up most of their variance."""
    deviation = own - mean
    variance = np.maximum(mean_square - mean**2, 0.0)
    far = np.abs(deviation) * sites / max(sites - 1, 1) > np.log(OTHER_UNIT)
    return np.sign(deviation) * (far & (deviation**2 > 0.5 * (sites - 1) * variance))


@dataclass(frozen=True)
class TableFindings:
    """What sums say about the tables of all sites."""

    rows_read: int
    rows_dropped: int
    missing: Mapping[str, int]
    """By column, the missing values of all sites."""
    warnings: tuple[str, ...]

    @property
    def account(self) -> str:
        """What was read and what was left out, in one line."""
        dropped = f", {self.rows_dropped} of them left out for missing values" if self.rows_dropped else ""
        missing = ", ".join(f"{name!r} {count}" for name, count in self.missing.items() if count)
        return f"All sites together: {self.rows_read} rows read{dropped}; missing values: {missing or 'none'}"


def look_at_tables(federation: Federation, kinds: Mapping[str, Kind], minimum_sites: int) -> TableFindings:
    """Ask all sites how their tables are, and how each compares with the others.

    Args:
        federation: The sites, each a `TableSite`.
        kinds: The variables.
        minimum_sites: The fewest sites that a count may be of.
    """
    means = COUNTS.ask(federation)
    sites = federation.summed
    brought = ("usual", "spread", "spread_squared", "size", "size_squared", "marks")
    compared = COMPARISON.ask(federation, 0, {name: means[name] for name in brought})

    def count(value: np.ndarray | float) -> int:
        return round(float(value) * sites)

    def where(value: np.ndarray | float) -> str:
        found = count(value)
        if found == sites:
            return "at all sites"
        return f"at {found} sites" if min(found, sites - found) >= minimum_sites else "at some sites"

    numbers = [name for name, kind in kinds.items() if not kind.discrete]
    missing = {name: count(value) for name, value in zip(kinds, means["missing"], strict=True)}
    read, dropped = count(means["read"]), count(means["dropped"])
    warnings = _lost(read, dropped, missing)
    first, second = np.triu_indices(len(numbers), 1)
    for one, other, value in zip(first, second, means["lines"], strict=True):
        if count(value):
            warnings.append(
                f"Column {numbers[other]!r} is a straight line of column {numbers[one]!r} in every row {where(value)}. "
                "No method can tell their causes apart: leave one of them out."
            )
    if count(means["repeated"]):
        warnings.append(
            f"Every row stands at least twice {where(means['repeated'])}. The graph would look surer than it is: have "
            "the sites remove the copies; each sees in its own terminal whether it is meant."
        )
    for name, larger, smaller in zip(numbers, compared["larger"], compared["smaller"], strict=True):
        if count(larger) or count(smaller):
            far = "larger" if count(larger) else "smaller"
            warnings.append(
                f"Column {name!r} is more than {OTHER_UNIT:g} times {far} at a site than at the others. Is it in "
                "another unit there? The site sees it in its own terminal. Agree on a range in the study."
            )
    if count(compared["shared"]) > 1:
        warnings.append(
            f"Sites have the same table, value by value ({where(compared['shared'])}), so that its rows count more "
            "than once. These sites see it in their own terminals: have all but one leave."
        )
    return TableFindings(read, dropped, missing, tuple(warnings))


def _lost(read: int, dropped: int, missing: Mapping[str, int]) -> list[str]:
    if dropped <= MOST_ROWS_LOST * read:
        return []
    worst: Sequence[str] = sorted(missing, key=lambda name: -missing[name])[:3]
    lacking = ", ".join(f"{name!r} {missing[name]}" for name in worst)
    return [
        f"{dropped} of {read} rows of all sites are dropped for missing values. Most are missing in {lacking}: leave "
        f"{worst[0]!r} out, or impute."
    ]
