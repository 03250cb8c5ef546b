"""The held-out rule: parameters are chosen on some seeds, and results are reported on others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from feddag.errors import FeddagError

Role = Literal["tuning", "reported", "other"]
TUNING, REPORTED = tuple(range(1, 11)), tuple(range(2021, 2031))
LARGEST = 999_999
"""More would be no seeds but a slip, such as a date."""


def role_of(seed: int) -> Role:
    """Return what a seed is for."""
    return "tuning" if seed in TUNING else "reported" if seed in REPORTED else "other"


def check_tuning(seeds: tuple[int, ...]) -> None:
    """Refuse seeds that are not for choosing parameters, above all the reported ones."""
    refused = {
        "reported": "for reporting: parameters chosen on it would report themselves",
        "other": "not one of those that parameters are chosen on",
    }
    for seed in seeds:
        if (role := role_of(seed)) in refused:
            raise FeddagError(f"Seed {seed} is {refused[role]}. Tune on seeds {TUNING[0]}-{TUNING[-1]}.")


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds such as 2021-2025, 7 or 1,2,5-7; each once."""
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= LARGEST):
            raise FeddagError(
                "seeds must be such as 2021-2030 or 1,2,5, the smaller number of a range first, and none above "
                f"{LARGEST}. Got {text!r} instead."
            )
        found |= dict.fromkeys(range(int(first), int(last) + 1))
    return tuple(found)


def format_seeds(seeds: Iterable[int]) -> str:
    """Write seeds as `parse_seeds` reads them: 2021-2025, 2030."""
    runs: list[tuple[int, int]] = []
    for seed in sorted(set(seeds)):
        if runs and seed == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], seed
        else:
            runs.append((seed, seed))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
