"""Groups of named arrays inside one flat mapping: the form in which they are sent and stored, free of pickles."""

from __future__ import annotations

import numpy as np

from feddag.federation.protocol import Arrays


def prefixed(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """Put arrays under a prefix, such as `site/weights`."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return the arrays that stand under a prefix, without it: the inverse of `prefixed`."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
