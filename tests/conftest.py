"""Shapes are promises too: what the annotations say is checked at every call while the tests run."""

from __future__ import annotations

from jaxtyping import install_import_hook

# Before any of these is imported, which is why it stands here. Only where arrays cross a module: elsewhere
# beartype would refuse a user's mistake before feddag can, and a whole number where a float is meant.
install_import_hook(("feddag.models", "feddag.learners.history", "feddag.silos.silo"), "beartype.beartype")
