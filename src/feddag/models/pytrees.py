"""Parameters of a model as flat, named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Name every leaf by its path, such as `mechanism/weights/0`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return a tree of the template's structure, with the leaves that `flatten` named."""
    _, structure = jax.tree.flatten(template)
    return jax.tree.unflatten(structure, [jax.numpy.asarray(arrays[name]) for name in flatten(template)])
