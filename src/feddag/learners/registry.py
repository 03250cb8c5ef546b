"""Every method by its short name: the one table that the command line, run folders and reports read.

Reading it imports no learner.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from feddag.errors import FeddagError

if TYPE_CHECKING:
    import pandas as pd

    from feddag.learners.base import Learner


@dataclass(frozen=True)
class Method:
    """A name, the learner and the parameters it stands for, and what a user must know to choose it."""

    name: str
    estimator: str
    """Where the `Learner` is defined: "module:Class". The module can be imported without the extra."""
    summary: str
    assumptions: str
    leaves_site: str
    reference: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that differ from the learner's own defaults."""
    extra: str | None = None
    """The optional dependencies that it needs: `feddag[extra]`."""

    def learner(self) -> type[Learner]:
        module, name = self.estimator.split(":")
        return getattr(import_module(module), name)

    def parameters(self) -> dict[str, inspect.Parameter]:
        """The learner's parameters with their types, and the defaults that this name gives them."""
        own = inspect.signature(self.learner(), eval_str=True).parameters
        return {
            name: each.replace(default=self.defaults.get(name, each.default), kind=inspect.Parameter.KEYWORD_ONLY)
            for name, each in own.items()
        }

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse a parameter that the learner does not take."""
        known = self.parameters()
        for name in names:
            if name not in known:
                raise FeddagError(f"The method {self.name!r} does not take {name!r}. It takes {', '.join(known)}.")


METHODS = {
    method.name: method
    for method in (
        Method(
            name="feddag",
            estimator="feddag.learners.feddag:FedDAG",
            summary="Gradient descent at every site on one shared graph, pressed step by step to be acyclic.",
            assumptions="One DAG for all sites, no hidden common causes, additive noise of equal variance.",
            leaves_site="Per round: the graph's parameters, with sharing='all' the mechanisms' too; summed over sites.",
            reference="Gao et al., FedDAG: Federated DAG Structure Learning, TMLR 2023.",
        ),
    )
}


def find_method(name: str) -> Method:
    if name in METHODS:
        return METHODS[name]
    close = get_close_matches(str(name), METHODS, n=1)
    suggestion = f" Did you mean {close[0]!r}?" if close else ""
    raise FeddagError(f"method must be one of {', '.join(METHODS)}. Got {name!r} instead.{suggestion}")


def make_learner(name: str, **parameters: Any) -> Learner:
    """The learner that a method's name stands for, with these parameters."""
    method = find_method(name)
    method.check_names(parameters)
    return method.learner()(**{**method.defaults, **parameters})


def method_of(learner: Learner) -> Method:
    """The method that a learner follows; of several the one whose defaults it has, and most of them."""
    kind, parameters = type(learner), learner.get_params()
    home = f"{kind.__module__}:{kind.__qualname__}"
    candidates = [method for method in METHODS.values() if method.estimator == home]
    if not candidates:
        raise FeddagError(f"{kind.__name__} is no registered method. Use one of {', '.join(METHODS)}.")

    def agreement(method: Method) -> tuple[bool, int]:
        return all(parameters[name] == value for name, value in method.defaults.items()), len(method.defaults)

    return max(candidates, key=agreement)


def methods() -> pd.DataFrame:
    """What each method assumes, what leaves a site, and where it comes from: one row for each, by name."""
    import pandas as pd  # noqa: PLC0415 - the table itself must be readable without it

    return pd.DataFrame([asdict(method) for method in METHODS.values()]).set_index("name")
