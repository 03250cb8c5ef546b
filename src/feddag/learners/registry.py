"""Every method by its short name: the one table that the command line, run folders and reports read.

Reading it imports no learner but those that other packages bring, by entry points of the group `feddag.methods`, each
of which names a `Method`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, get_args

from feddag.errors import FeddagError

if TYPE_CHECKING:
    from feddag.learners.base import Learner

Regime = Literal["federated", "all", "separate", "voting"]
"""Sites learn together; or, for comparison, on pooled rows, each alone, or by a vote (`feddag.learners.regimes`)."""
REGIMES: tuple[Regime, ...] = get_args(Regime)
_MAY_LACK = ("jax", "jaxlib", "optax")
"""Packages of methods that descend gradients: a site of a study with another method may do without."""
INSTALL_GRADIENTS = "pip install jax optax"
_NOT_FEDERATED: tuple[Regime, ...] = ("all", "separate", "voting")


@dataclass(frozen=True)
class Method:
    """A name, the learner and the parameters it stands for, and what a user must know to choose it."""

    name: str
    estimator: str
    """Where the `Learner` is defined: "module:Class". The module can be imported without the extra."""
    summary: str
    assumptions: str
    reference: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that differ from the learner's own defaults."""
    extra: str | None = None
    """The optional dependencies that it needs: `feddag[extra]`."""
    regimes: tuple[Regime, ...] = REGIMES
    """Those that it can run in, its own first."""
    unit_free: bool = False
    """Whether it finds the same graph in whatever units the columns are given, with its own defaults."""
    version: int = 1
    """Rises when the same data and parameters give another result: experiments then run their cells again."""

    def learner(self) -> type[Learner]:
        """Import the learner's class."""
        module, name = self.estimator.split(":")
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _MAY_LACK:
                raise
            raise FeddagError(
                f"The method {self.name!r} needs {error.name}, which is not installed here. Install it with: "
                f"{INSTALL_GRADIENTS}"
            ) from None

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the learner's parameters with their types, and this method's defaults."""
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
                raise FeddagError(
                    f"The method {self.name!r} does not take {name!r}. It takes {', '.join(known) or 'no parameter'}."
                )

    def check_regime(self, regime: str) -> None:
        """Refuse a regime that the method cannot run in."""
        if regime not in self.regimes:
            known = ", ".join(map(repr, self.regimes))
            raise FeddagError(f"The method {self.name!r} runs in the regime {known}. Got {regime!r} instead.")


class _Methods(MutableMapping[str, Method]):
    """Our methods and, from the first look on, those of other packages; an unusable one is left out with a warning."""

    def __init__(self, own: Iterable[Method]) -> None:
        self._known = {method.name: method for method in own}
        self._complete = False

    def __getitem__(self, name: str) -> Method:
        return self._all()[name]

    def __setitem__(self, name: str, method: Method) -> None:
        self._all()[name] = method

    def __delitem__(self, name: str) -> None:
        del self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Method]:
        if not self._complete:
            self._complete = True  # before packages are imported, which may look here
            for point in entry_points(group="feddag.methods"):
                try:
                    method = self._checked(point.load())
                except Exception as error:  # whatever a package does, feddag goes on without it
                    package = point.dist.name if point.dist else "a package"
                    message = f"The method {point.name!r} of {package} was left out: {type(error).__name__}: {error}."
                    warnings.warn(message, stacklevel=2)
                else:
                    self._known[method.name] = method
        return self._known

    def _checked(self, method: Any) -> Method:
        if not isinstance(method, Method):
            raise TypeError("it is no feddag.learners.registry.Method")
        if method.name in self._known:
            raise ValueError(f"the name {method.name!r} is taken")
        if not method.regimes or not set(method.regimes) <= set(REGIMES):
            raise ValueError(f"regimes must be some of {', '.join(REGIMES)}")
        method.parameters()
        return method


METHODS = _Methods(
    (
        Method(
            name="feddag",
            estimator="feddag.learners.feddag.estimator:FedDAG",
            summary="Gradient descent at every site on one shared graph, pressed step by step to be acyclic.",
            assumptions="One DAG for all sites, no hidden common causes, additive noise of equal variance.",
            reference="Gao et al., FedDAG: Federated DAG Structure Learning, TMLR 2023.",
        ),
        Method(
            name="search",
            estimator="feddag.learners.search.estimator:EvidenceSearch",
            summary="Search over orders of the variables for the graph of greatest evidence; units do not matter.",
            assumptions="One DAG for all sites, smooth mechanisms, noise of any shape; no hidden common causes, but "
            "edges that one may explain are marked.",
            reference="After Andrews et al., Best Order Score Search and Grow-Shrink Trees, NeurIPS 2023.",
            unit_free=True,
            version=8,
        ),
        Method(
            name="private-search",
            estimator="feddag.learners.private_search:PrivateSearch",
            summary="Search in one noisy release, with differential privacy of every row.",
            assumptions="One DAG, the same smooth mechanisms at all sites, no hidden common causes, normal noise.",
            reference="Noise: Kairouz et al., The Distributed Discrete Gaussian Mechanism, ICML 2021.",
            regimes=("federated", "all"),
            version=4,
        ),
        Method(
            name="mcsl",
            estimator="feddag.learners.feddag.estimator:FedDAG",
            summary="FedDAG's masked neural networks on one table.",
            assumptions="No hidden common causes, additive noise of equal variance.",
            reference="Ng et al., Masked Gradient-Based Causal Structure Learning, SDM 2022.",
            regimes=_NOT_FEDERATED,
        ),
        Method(
            name="notears-mlp",
            estimator="feddag.learners.feddag.estimator:FedDAG",
            summary="A small network per variable, the norms of whose first-layer weights are the graph.",
            assumptions="No hidden common causes, additive noise of equal variance.",
            reference="Zheng et al., Learning Sparse Nonparametric DAGs, AISTATS 2020.",
            defaults={"sharing": "all", "model": "notears-mlp"},
            regimes=_NOT_FEDERATED,
        ),
        Method(
            name="admg",
            estimator="feddag.learners.feddag.estimator:FedDAG",
            summary="FedDAG on linear equations whose noise may be correlated: edges <-> where hidden causes join two.",
            assumptions="One linear model for all sites, normal noise, no pair with both an effect and a hidden cause.",
            reference="Bhattacharya et al., Differentiable Causal Discovery Under Unmeasured Confounding, 2021.",
            defaults={"sharing": "all", "model": "admg", "l1": 0.02},
            regimes=("federated", "all"),
            unit_free=True,
        ),
        Method(
            name="dag-gnn",
            estimator="feddag.learners.feddag.estimator:FedDAG",
            summary="An autoencoder shared by all variables, with the graph between encoder and decoder.",
            assumptions="No hidden common causes, all variables transformed alike.",
            reference="Yu et al., DAG-GNN: DAG Structure Learning with Graph Neural Networks, ICML 2019.",
            defaults={"sharing": "all", "model": "dag-gnn", "acyclicity": "polynomial", "l1": 0.0},
            regimes=_NOT_FEDERATED,
        ),
        Method(
            name="notears",
            estimator="feddag.learners.notears:NOTEARS",
            summary="Linear equations under a smooth constraint that they be acyclic, from summed covariances.",
            assumptions="Linear mechanisms shared by all sites, no hidden common causes, noise of equal variance.",
            reference="Zheng et al., DAGs with NO TEARS, NeurIPS 2018.",
        ),
        Method(
            name="notears-admm",
            estimator="feddag.learners.notears_admm:NOTEARSADMM",
            summary="Linear equations fitted at every site, and drawn round by round to agree and to be acyclic.",
            assumptions="Linear mechanisms shared by all sites, no hidden common causes, noise of equal variance.",
            reference="Ng and Zhang, Towards Federated Bayesian Network Structure Learning, AISTATS 2022.",
        ),
        Method(
            name="notears-mlp-admm",
            estimator="feddag.learners.notears_mlp_admm:NOTEARSMLPADMM",
            summary="Small networks fitted at every site, and drawn round by round to agree and to be acyclic.",
            assumptions="Mechanisms shared by all sites, no hidden common causes, additive noise of equal variance.",
            reference="Ng and Zhang, Towards Federated Bayesian Network Structure Learning, AISTATS 2022.",
        ),
        Method(
            name="pc",
            estimator="feddag.learners.pc:PC",
            summary="Edges that no test of partial correlation explains away; an equivalence class.",
            assumptions="No hidden common causes, faithfulness, nearly linear relations.",
            reference="Spirtes, Glymour and Scheines, Causation, Prediction, and Search, 2001.",
            extra="baselines",
            regimes=_NOT_FEDERATED,
            unit_free=True,
        ),
        Method(
            name="ges",
            estimator="feddag.learners.ges:GES",
            summary="Greedy search for the equivalence class with the best BIC.",
            assumptions="Linear mechanisms, Gaussian noise, no hidden common causes.",
            reference="Chickering, Optimal Structure Identification with Greedy Search, JMLR 2002.",
            extra="baselines",
            regimes=_NOT_FEDERATED,
            unit_free=True,
        ),
        Method(
            name="cam",
            estimator="feddag.learners.cam:CAM",
            summary="Sums of smooth functions: a greedy search for the order, then tests that prune the edges.",
            assumptions="Additive effects, Gaussian noise, nonlinear mechanisms, no hidden common causes.",
            reference="Bühlmann, Peters and Ernest, CAM: Causal Additive Models, Annals of Statistics 2014.",
            regimes=_NOT_FEDERATED,
            unit_free=True,
        ),
        Method(
            name="var-sortnregress",
            estimator="feddag.learners.sortnregress:SortnRegress",
            summary="A sanity check: the variables sorted by variance, each regressed on those before it.",
            assumptions="That variance grows along the causal order, as in many simulations.",
            reference="Reisach et al., Beware of the Simulated DAG!, NeurIPS 2021.",
            defaults={"sort_by": "variance"},
        ),
        Method(
            name="r2-sortnregress",
            estimator="feddag.learners.sortnregress:SortnRegress",
            summary="A sanity check: the variables sorted by how well all others explain them, then as above.",
            assumptions="That R² grows along the causal order, as in many simulations.",
            reference="Reisach et al., A Scale-Invariant Sorting Criterion to Find a Causal Order, NeurIPS 2023.",
            defaults={"sort_by": "r2"},
            unit_free=True,
        ),
        Method(
            name="random",
            estimator="feddag.learners.baselines:Random",
            summary="A sanity check: a random graph.",
            assumptions="Nothing.",
            reference="None.",
            regimes=("federated",),
            unit_free=True,
        ),
        Method(
            name="empty",
            estimator="feddag.learners.baselines:Empty",
            summary="A sanity check: no edges.",
            assumptions="Nothing.",
            reference="None.",
            regimes=("federated",),
            unit_free=True,
        ),
    )
)


def installed_methods() -> dict[str, Method]:
    """Return the methods whose learner can be imported here, by name."""
    found = {}
    for name, method in METHODS.items():
        with suppress(FeddagError):
            method.learner()
            found[name] = method
    return found


def find_method(name: str) -> Method:
    """Return a method by name, or refuse an unknown name with the known ones."""
    if name in METHODS:
        return METHODS[name]
    close = get_close_matches(str(name), METHODS, n=1)
    suggestion = f" Did you mean {close[0]!r}?" if close else ""
    raise FeddagError(f"method must be one of {', '.join(METHODS)}. Got {name!r} instead.{suggestion}")
