"""Learners from the names of methods, and names from learners."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from feddag.errors import FeddagError
from feddag.learners.base import Learner, disclosed
from feddag.learners.regimes import InRegime
from feddag.learners.registry import METHODS, Method, Regime, find_method, installed_methods


def make_learner(name: str, regime: Regime | None = None, **parameters: Any) -> Learner:
    """Make the learner of a method, with these parameters, in a regime; `None` is the method's own regime.

    The regime `"all"` pools the rows of all sites: it is for research.

    Examples:
        >>> import feddag
        >>> feddag.make_learner("notears", l1=0.2)
        NOTEARS(l1=0.2)
        >>> feddag.make_learner("cam", "voting", alpha=0.01)
        InRegime(learner=CAM(alpha=0.01), regime='voting')
    """
    method = find_method(name)
    method.check_names(parameters)
    regime = regime or method.regimes[0]
    method.check_regime(regime)
    learner = method.learner()(**{**method.defaults, **parameters})
    if regime == "federated":
        return learner
    return InRegime(learner, regime)


def method_of(learner: Learner) -> Method:
    """Find the method that a learner follows, in its regime.

    Several methods may share a learner. The one whose defaults it has, and most of them, comes first; then the one
    whose own regime it is in.
    """
    inner, regime = learner.inner, learner.regime
    kind, parameters = type(inner), inner.get_params()
    home = f"{kind.__module__}:{kind.__qualname__}"
    candidates = [method for method in METHODS.values() if method.estimator == home and regime in method.regimes]
    if not candidates:
        raise FeddagError(
            f"{kind.__name__} is no registered method for the regime {regime!r}. Use one of {', '.join(METHODS)}."
        )

    def agreement(method: Method) -> tuple[bool, int, bool]:
        agrees = all(parameters[name] == value for name, value in method.defaults.items())
        return agrees, len(method.defaults), regime == method.regimes[0]

    return max(candidates, key=agreement)


def leaves_site(method: Method) -> dict[Regime, str]:
    """Say for each regime of a method what leaves a site; with default parameters first, then what others add."""
    texts: dict[Regime, str] = {regime: make_learner(method.name, regime).leaves_site() for regime in method.regimes}
    if "federated" in texts:
        learner = make_learner(method.name, "federated")
        further = [task for task in learner.task_specs if task not in learner.used_tasks]
        if further:
            texts["federated"] += f" With other parameters also: {disclosed(further)}"
    return texts


def describe(method: Method) -> dict[str, Any]:
    """Return a method's entry in the registry and what leaves a site in each regime."""
    return asdict(method) | {"leaves_site": leaves_site(method)}


def methods() -> pd.DataFrame:
    """List the methods that are installed by name: what each assumes, what leaves a site, and where it comes from.

    Examples:
        >>> import feddag
        >>> feddag.methods().query("unit_free").index.tolist()
        ['search', 'admg', 'pc', 'ges', 'cam', 'r2-sortnregress', 'random', 'empty']
    """
    return pd.DataFrame([describe(method) for method in installed_methods().values()]).set_index("name")
