"""Why a figure of ours differs from the published one: known reasons are data, in `reasons.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Any

from feddag.errors import FeddagError
from feddag.experiments.comparison import ENOUGH_SEEDS, Block, Entry, Line
from feddag.experiments.settings import Setting

UNKNOWN = "no reason found"
CHANCE = 0.05
"""A difference from the published mean with a greater p may be chance."""
PUBLISHED_GRAPHS = 10
"""Over so many the paper takes its means."""
_NEEDED, _OPTIONAL = frozenset(("row", "regime", "why")), frozenset(("metrics", "verdict", "settings"))


@dataclass(frozen=True)
class Reason:
    """A known reason for a row of the tables in a regime; without limits it holds everywhere and both ways."""

    row: str
    regime: str
    why: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What a setting must have, such as its functions: one value, or a list of possible values."""
    metrics: tuple[str, ...] = ()
    verdict: str | None = None

    def fits(self, setting: Setting, line: Line, metric: str, verdict: str | None) -> bool:
        """Whether the reason holds for a metric of a line."""
        return (
            (self.row, self.regime) == (line.row.label, line.row.regime)
            and self.verdict in (None, verdict)
            and (not self.metrics or metric in self.metrics)
            and all(_has(setting.identity().get(name), wanted) for name, wanted in self.settings.items())
        )


@cache
def reasons() -> tuple[Reason, ...]:
    """Read all known reasons."""
    return read((files("feddag.experiments") / "reasons.toml").read_text(encoding="utf-8"))


def read(text: str) -> tuple[Reason, ...]:
    """Read reasons from TOML."""
    found = []
    for described in tomllib.loads(text).get("reason", ()):
        if not _NEEDED <= set(described) <= _NEEDED | _OPTIONAL:
            raise FeddagError(
                f"A reason must have {', '.join(sorted(_NEEDED))} and may have {', '.join(sorted(_OPTIONAL))}. "
                f"Got {', '.join(described)} instead."
            )
        found.append(Reason(**{**described, "metrics": tuple(described.get("metrics", ()))}))
    return tuple(found)


def notes(block: Block) -> list[str]:
    """Explain every line with a figure off the published one by more than its standard deviation."""
    found = []
    for line in block.lines:
        by_reason: dict[str, list[str]] = {}
        for metric, entry in line.entries.items():
            if entry.verdict not in (None, "within"):
                by_reason.setdefault(explain(block.setting, line, metric, entry), []).append(
                    f"{metric} {entry.verdict}"
                )
        found += [f"{line.row.in_regime} ({', '.join(which)}): {reason}." for reason, which in by_reason.items()]
    return found


def explain(setting: Setting, line: Line, metric: str, entry: Entry) -> str:
    """Return the known reason; else whether there are too few seeds; else whether it may be chance."""
    for reason in reasons():
        if reason.fits(setting, line, metric, entry.verdict):
            return reason.why
    if not line.row.cell(setting, 0).seed_matters:
        return UNKNOWN
    if line.seeds < ENOUGH_SEEDS:
        return "one seed only" if line.seeds == 1 else f"{line.seeds} seeds only"
    p = chance_p_value(entry, line.seeds)
    return f"may be chance (Welch's test, p = {p:.2f})" if p > CHANCE else UNKNOWN


def chance_p_value(entry: Entry, seeds: int) -> float:
    """Compute p of Welch's test of our mean against the published one, both over random graphs."""
    from scipy.stats import ttest_ind_from_stats  # noqa: PLC0415 - not for an empty table

    ours, published = entry.mean, entry.published
    if ours is None or published is None:
        raise ValueError("Only a figure that has a published one can be tested.")
    # both are taken for deviations of the graphs drawn, as tables show ours, so that a sample's are larger
    (our_deviation, our_count), (their_deviation, their_count) = (
        (deviation * (count / (count - 1)) ** 0.5, count)
        for deviation, count in ((entry.deviation or 0.0, seeds), (published.deviation, PUBLISHED_GRAPHS))
    )
    tested = ttest_ind_from_stats(
        ours, our_deviation, our_count, published.mean, their_deviation, their_count, equal_var=False
    )
    p = float(tested.pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    return 0.0 if isnan(p) else p  # neither varies, and they differ


def _has(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted
