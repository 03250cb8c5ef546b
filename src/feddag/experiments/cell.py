"""One fit of a table: a method with its parameters, on one draw of one setting. It knows no experiment."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from feddag.errors import FeddagError
from feddag.experiments.settings import Real, Setting
from feddag.learners.factory import make_learner
from feddag.learners.registry import Regime, find_method

_NOT_OF_THE_RESULT = ("workers",)
"""Parameters that change how long a cell takes, and nothing else."""

_OF_THE_RUN = {"seed": "--seeds", "workers": "--jobs"}
"""Parameters that a run gives its cells, and its options for them."""


@dataclass(frozen=True)
class Cell:
    """One fit, identified by its `key`."""

    setting: Setting
    method: str
    regime: Regime
    seed: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The parameters to set; the method's own defaults hold for the others."""

    @cached_property
    def key(self) -> str:
        """Hash everything that decides the result.

        Defaults are left out, so that a new parameter leaves old results valid; `agrees` finds a changed one.
        """
        identity = {
            "setting": self.setting.identity(),
            "setting version": self.setting.version,
            "method": self.method,
            "method version": find_method(self.method).version,
            "regime": self.regime,
            "parameters": self._plain(self._changed()),
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    @cached_property
    def all_parameters(self) -> dict[str, Any]:
        """List every hyper-parameter, defaults too, in the types of JSON."""
        defaults = self._defaults()
        seeded = {"seed": self.seed} if "seed" in defaults else {}
        resolved = {**defaults, **self.parameters, **seeded}
        return self._plain({name: value for name, value in resolved.items() if name not in _NOT_OF_THE_RESULT})

    def agrees(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a kept result has the parameters that this cell would have today."""
        return all(name in self.all_parameters and self.all_parameters[name] == its for name, its in parameters.items())

    def learner(self, workers: int | None = None) -> Any:
        """Make the learner, with the cell's seed and this many workers where it takes them."""
        parameters = dict(self.parameters)
        known = self._defaults()
        if "seed" in known:
            parameters["seed"] = self.seed
        if "workers" in known:
            parameters["workers"] = workers
        return make_learner(self.method, self.regime, **parameters)

    def check(self) -> None:
        """Refuse an unknown method, regime or parameter, or a wrong value, before anything is drawn."""
        self.learner().inner.check_parameters()
        for name, option in _OF_THE_RUN.items():
            if name in self.parameters:
                raise FeddagError(f"{name} is no parameter to choose: every cell gets its own. Use {option} instead.")

    @property
    def seed_matters(self) -> bool:
        """Whether another seed can give another result: a real data set is one draw."""
        return not isinstance(self.setting, Real) or "seed" in self._defaults()

    @property
    def title(self) -> str:
        """Name the cell for people."""
        given = "".join(f" {name}={value}" for name, value in self.parameters.items())
        return f"{self.method}{given}, {self.regime}: {self.setting.title}, seed {self.seed}"

    def _defaults(self) -> dict[str, Any]:
        method = find_method(self.method)
        return {**_own_defaults(method.learner()), **method.defaults}

    def _changed(self) -> dict[str, Any]:
        defaults = self._defaults()
        return {name: value for name, value in self.parameters.items() if not same(value, defaults.get(name))}

    @staticmethod
    def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(dict(parameters), default=float))


def same(value: Any, other: Any) -> bool:
    """Compare type and value: one site (1) is not the share of all (1.0)."""
    return (type(value), value) == (type(other), other)


@cache
def _own_defaults(learner: type) -> dict[str, Any]:
    """Return a learner's default parameters; cached, since a table has thousands of cells."""
    return {name: each.default for name, each in inspect.signature(learner).parameters.items()}
