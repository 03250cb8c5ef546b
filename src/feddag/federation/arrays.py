"""Pytrees as flat, named arrays: the form in which they are sent and stored, free of pickles."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from feddag.federation.protocol import Arrays


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Name every leaf by its path, such as `mechanism/weights/0`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Any, arrays: Arrays) -> Any:
    """The tree of `template`'s structure with the leaves that `flatten` named."""
    _, structure = jax.tree.flatten(template)
    return jax.tree.unflatten(structure, [jax.numpy.asarray(arrays[name]) for name in flatten(template)])


def prefixed(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """The inverse of `prefixed`: what stands under a prefix, without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
