"""Numbers, times, sizes and headings as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

_HEADINGS = {
    "absent": "evidence lost without it",
    "absent_error": "± standard error",
    "reversed": "evidence lost if reversed",
    "reversed_error": "± its standard error",
    "directed": "direction is sure if nothing is hidden",
    "together": "residuals go together",
    "confounding": "hidden common cause",
    "by_changes": "evidence if reversed, by changes between sites",
    "told_by": "direction shown by",
    "tau2": "τ², of the sites",
    "pooled": "mean over such sites",
    "low": "at least",
    "high": "at most",
    "frequency": "how often",
    "learned": "in the graph",
    "direction_frequency": "of these, in this direction",
    "direction_low": "of these, at least",
    "direction_high": "of these, at most",
    "driving_site": "hangs on site",
    "without_it": "which without it",
    "r2": "R²",
    "own_gain": "gain by a mechanism of its own",
    "mean_own_gain": "mean gain over the sites",
    "error": "± standard error",
    "r2_sortability": "R²-sortability",
    "varsortability": "variance-sortability",
}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_value(value: Any) -> str:
    """Format a cell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.integer | np.floating):
        return _format_number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{heading(str(name))} {format_value(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    return str(value)


def _format_number(value: float | np.number) -> str:
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    value = float(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 1000 and size < 1e7:
        text = f"{value:,.0f}"
    elif size and (size < 1e-3 or size >= 1e7):
        mantissa, exponent = f"{value:.1e}".split("e")
        power = f"10{str(int(exponent)).translate(_RAISED)}"
        text = power if mantissa == "1.0" else f"{mantissa}·{power}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−")


def heading(name: str) -> str:
    """Return a column's name in words."""
    return _HEADINGS.get(name, name.replace("_", " "))


def format_duration(seconds: float) -> str:
    """Format a duration, such as 12 s, 3 min 20 s or 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def format_size(count: float) -> str:
    """Format a number of bytes, such as 812 bytes or 1.4 MB."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.3g} {unit}"
    return f"{count / 1000:,.3g} GB"
