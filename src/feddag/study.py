"""The study: what all sites agree on before anything is learned. A TOML file, known by its digest.

| table               | says                                                                                        |
|---------------------|---------------------------------------------------------------------------------------------|
| `name`, `attempt`   | what the study is called, and how many times it has begun                                   |
| `follows`           | the digest of a study that this one goes on from, such as with next month's tables          |
| `[variables]`       | each variable's type, and where there are any: levels, which of them to merge, unit, label, |
|                     | values that stand for missing, `range` of what may occur, `transform` (log)                 |
| `[method]`          | how to learn: `name`, `regime`, `parameters`                                                |
| `[data]`            | `missing` (error, drop, impute) and `scale` (none, site, federated)                         |
| `[knowledge]`       | `required` and `forbidden` edges, `tiers`, `exogenous` variables                            |
| `[sites.NAME]`      | what its columns are called (`columns`), its public key (`identity`), what experiments set: |
|                     | variables in every row (`intervened`), or the column of each row's targets (`targets`)      |
| `[federation]`      | `quorum`: the sites that must answer; `timeout`: the seconds they have for it;              |
|                     | `minimum_sites`: the fewest that sums may tell of; `maximum_rows`: the most a site may have |
| `[privacy]`         | `secure_sum`; of each row, in `[privacy.rows]`: `epsilon`, `delta`, `rows_per_person`,      |
|                     | `expected_rows`; of sites, in `[privacy.differential]`: `epsilon`, `delta`, `clip`, `rounds` |
| `[trust]`           | what sites on a network do besides learning: `tables` (warn before the fit, by sums), and   |
|                     | with the learned graph `assess` (hold it against their rows),                               |
|                     | `bootstraps` and `leave_one_out` (stability), `mechanisms`, `effects` (pairs of variables), |
|                     | `grid` (parameters to compare)                                                              |

Variables and sites stand in the order of their names, whatever the file's, so that equal digests mean equal results.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Bool

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation.row_privacy import CONSTRAINTS as ROW_PRIVACY
from feddag.learners.factory import make_learner
from feddag.learners.knowledge import CONSTRAINTS as KNOWLEDGE
from feddag.learners.knowledge import Knowledge
from feddag.learners.registry import METHODS, REGIMES, Regime, find_method
from feddag.silos.coding import canonical
from feddag.silos.declarations import LEVELS, RANGE, are_levels, levels_of
from feddag.silos.interventions import NO_INTERVENTIONS, Interventions
from feddag.silos.preparation import CONSTRAINTS as PREPARATION
from feddag.silos.preparation import Preparation
from feddag.silos.reading import read_silos, read_site
from feddag.silos.variable_types import KINDS, TRANSFORMS, Kind, Level, Variable

if TYPE_CHECKING:
    from feddag.learners import Learner
    from feddag.silos import CheckedSilos, Silo

LEAST_QUORUM = 3
"""With fewer answers, a site that subtracts its own from the sum is left with one other's."""

_NAME = constraints.Constraint(
    "a name of lower-case letters, digits and hyphens",
    lambda value: isinstance(value, str) and re.fullmatch(r"[a-z0-9-]+", value) is not None,
)
_TEXT = constraints.Constraint("a text", lambda value: isinstance(value, str) and value != "")
_TABLE = constraints.Constraint("a table", lambda value: isinstance(value, dict))
_GRID = constraints.Constraint(
    "a table of parameters, each with a list of values to try, such as { l1 = [0.01, 0.1] }",
    lambda value: isinstance(value, dict) and all(isinstance(each, list) and each for each in value.values()),
)
_DIGEST = constraints.Constraint(
    "the digest of a study, 64 hexadecimal digits as of: feddag study check",
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None,
)
_IDENTITY = constraints.Constraint(
    "an Ed25519 public key of 64 hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None,
)


@dataclass(frozen=True)
class MethodChoice:
    """How to learn, by the names of `feddag methods`."""

    name: str
    regime: Regime | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteTerms:
    """What the study says about one site."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of variables that have another name there."""
    identity: str | None = None
    """The site's Ed25519 public key, in hexadecimal digits."""
    interventions: Interventions = NO_INTERVENTIONS
    """What the site's experiments set."""


@dataclass(frozen=True)
class FederationTerms:
    """How many sites must answer, and in what time."""

    quorum: int
    """So many sites must answer a task, or the run stops. More than half of the sites, and at least three (or all)
    unless the study says otherwise."""
    timeout: float = 600.0
    """The seconds that a site may take for a task."""
    minimum_sites: int = LEAST_QUORUM
    """The fewest sites that any combination of sums may tell about."""
    maximum_rows: int = 10_000_000
    """The largest number of rows that a site may claim."""


@dataclass(frozen=True)
class DifferentialPrivacy:
    """What a whole run may reveal of one site, and how the noise is laid out for it."""

    epsilon: float
    rounds: int
    delta: float = 1e-5
    clip: float = 1.0


@dataclass(frozen=True)
class RowTerms:
    """What the one release of a study may reveal of one person."""

    epsilon: float
    delta: float
    expected_rows: int
    rows_per_person: int = 1


@dataclass(frozen=True)
class PrivacyTerms:
    """How sums are protected."""

    secure_sum: bool
    """On unless one or two sites are named: from the sum of two, each computes the other's."""
    differential: DifferentialPrivacy | None = None
    rows: RowTerms | None = None

    @property
    def noisy(self) -> bool:
        """Whether sums have noise."""
        return self.differential is not None or self.rows is not None


@dataclass(frozen=True)
class TrustTerms:
    """Which checks follow the fit."""

    assess: bool
    """Off by default: it needs further sums, of moments of all variables and of scores of graphs."""
    bootstraps: int = 0
    """How many times every site draws its rows again, for the graph's stability."""
    leave_one_out: bool = False
    """Whether the graph is learned without each site, too: such sums, held against the others, tell about one site."""
    mechanisms: bool = False
    """Whether sites compare their mechanisms with common ones."""
    effects: tuple[tuple[str, str], ...] = ()
    """Pairs of a cause and an effect whose total effect is estimated."""
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    """Values of the method's parameters whose combinations are compared by rows that sites lay aside."""
    tables: bool = False
    """Whether sums tell before the fit what is missing, and warn of what is seldom meant."""

    def document(self) -> dict[str, Any]:
        """Return the content of the file's table: what is off by default stands there only where it is on."""
        further = {
            "bootstraps": self.bootstraps,
            "leave_one_out": self.leave_one_out,
            "mechanisms": self.mechanisms,
            "effects": [list(pair) for pair in self.effects],
            "grid": dict(self.grid),
            "tables": self.tables,
        }
        return {"assess": self.assess} | {key: value for key, value in further.items() if value}


@dataclass(frozen=True)
class Study:
    """What all sites agree on."""

    name: str
    variables: tuple[Variable, ...]
    method: MethodChoice
    preparation: Preparation
    knowledge: Mapping[str, list[Any]]
    """`required`, `forbidden`, `tiers`, `exogenous`: those that say something, as a learner takes them."""
    sites: tuple[SiteTerms, ...]
    federation: FederationTerms
    privacy: PrivacyTerms
    trust: TrustTerms
    follows: str | None = None
    """The digest of a study that this one goes on from. It makes this one another, even if all else is the same."""
    source: str = field(default="The study", compare=False)
    """The file, for errors."""
    attempt: int = 1
    """A study that begins anew, since its server has lost its journal, has another number, and so another digest."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a study from its file: TOML, or the same content as JSON in a file of that ending."""
        return cls.of(_toml(path), os.fspath(path))

    @classmethod
    def parse(cls, text: str, source: str = "The study") -> Self:
        """Read a study from text; `source` names it in errors."""
        return cls.of(_parsed(text, source), source)

    @classmethod
    def of(cls, document: Mapping[str, Any], source: str = "The study") -> Self:
        """Make a study of the file's content; every refusal names file, key, value and remedy."""
        top = _Table(source, "", document, _TABLES["study"])
        variables = _variables(top.table("variables", required=True))
        sites = _sites(top.table("sites"), [variable.name for variable in variables])
        federation = _federation(top.table("federation"), len(sites))
        privacy = _privacy(top.table("privacy"), len(sites))
        method = _method(top.table("method", required=True))
        preparation = Preparation(**top.table("data").all(PREPARATION))
        _check_rows(source, privacy, method, preparation, variables)
        return cls(
            name=top.take("name", _NAME),
            variables=tuple(replace(variable, clamped=privacy.rows is not None) for variable in variables),
            method=method,
            preparation=preparation,
            knowledge=_knowledge(top.table("knowledge"), [variable.name for variable in variables]),
            sites=sites,
            federation=federation,
            privacy=privacy,
            trust=_trust(top.table("trust"), variables, federation, privacy),
            follows=top.take("follows", _DIGEST, None),
            source=source,
            attempt=_attempt(top, privacy),
        )

    def document(self) -> dict[str, Any]:
        """Return the content in the file's layout, all defaults written out: `of` reads it again."""
        return {
            "name": self.name,
            "variables": {variable.name: _described(variable) for variable in self.variables},
            "method": _without_none(asdict(self.method)),
            "data": asdict(self.preparation),
            "knowledge": dict(self.knowledge),
            "sites": {site.name: _described_site(site) for site in self.sites},
            "federation": asdict(self.federation),
            "privacy": _without_none(asdict(self.privacy)),
            "trust": self.trust.document(),
            **({} if self.follows is None else {"follows": self.follows}),
            **({} if self.attempt == 1 else {"attempt": self.attempt}),
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content: comments, layout and the order of keys do not matter."""
        canonical = json.dumps(self.document(), sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the variables."""
        return tuple(variable.name for variable in self.variables)

    @property
    def kinds(self) -> dict[str, Kind]:
        """Return what each variable's numbers stand for."""
        return {variable.name: variable.kind for variable in self.variables}

    def site(self, name: str) -> SiteTerms:
        """Return the terms of a site: by name, or the common ones where the study names no sites."""
        for site in self.sites:
            if site.name == name:
                return site
        if not self.sites:
            return SiteTerms(name)
        names = [site.name for site in self.sites]
        raise FeddagError(
            f"{self.source}: there is no site {name!r}. It has {', '.join(names)}.{_suggestion(name, names)}"
        )

    def site_columns(self, site: str) -> dict[str, str]:
        """Return the name of each variable's column at a site."""
        renamed = self.site(site).columns
        return {variable.name: renamed.get(variable.name, variable.name) for variable in self.variables}

    def site_interventions(self, site: str) -> Interventions | None:
        """Return what a site's experiments set; None where the study has no experiments."""
        return self.site(site).interventions if self._has_experiments else None

    @property
    def _has_experiments(self) -> bool:
        return any(site.interventions != NO_INTERVENTIONS for site in self.sites)

    def learner(self) -> Learner:
        """Make the study's learner, with the study's knowledge among its parameters."""
        try:
            check_obedience(self.method.name, self.knowledge)
            for key in self.knowledge:
                if key in self.method.parameters:
                    raise FeddagError(f"{key} stands in method.parameters and in knowledge. Leave it in knowledge.")
            parameters = {**self.method.parameters, **self.knowledge, **self._declared_privacy()}
            learner = make_learner(self.method.name, self.method.regime, **parameters)
            learner.check_parameters()
            if self._has_experiments:
                learner.check_interventions(self._possible_targets(), self.columns)
        except FeddagError as error:
            raise FeddagError(f"{self.source}: {error}") from None
        return learner

    def _declared_privacy(self) -> dict[str, Any]:
        """Return what a method with privacy of rows takes from the rest of the study."""
        if self.privacy.rows is None:
            return {}
        ranges = {variable.name: variable.coded_range for variable in self.variables if variable.range is not None}
        levels = {name: len(kind.levels) for name, kind in self.kinds.items() if kind.discrete}
        quorum = self.federation.quorum if self.sites else None
        declared = {**asdict(self.privacy.rows), "ranges": ranges, "levels": levels, "quorum": quorum}
        for key in declared.keys() & self.method.parameters.keys():
            raise FeddagError(
                f"{key} stands in method.parameters, and the study says it elsewhere: in privacy.rows, variables or "
                "federation. Leave it out of method.parameters."
            )
        return declared

    def _possible_targets(self) -> Bool[np.ndarray, " variable"]:
        """Return the variables that experiments set, as far as the study tells; a column may name each of them."""
        terms = [site.interventions for site in self.sites]
        named = {name for each in terms for name in each.intervened}
        by_rows = any(each.column is not None for each in terms)
        return np.array([by_rows or name in named for name in self.columns])

    def silos(self, tables: Any) -> CheckedSilos:
        """Read, check and prepare all sites' tables as the study says, where one process has them.

        `tables` is what a learner's `fit` takes: a table, or where it is, for each site by name.
        """
        return read_silos(tables, **asdict(self.preparation), schema=self)

    def silo(self, site: str, table: Any) -> Silo:
        """Read one site's table as the site prepares it alone: without `scale = "federated"`."""
        return read_site(self, site, table, self.preparation)


def check_obedience(method: str, knowledge: Iterable[str]) -> None:
    """Refuse knowledge that a method does not take, and name those that do."""
    taken = find_method(method).parameters()
    for key in knowledge:
        if key not in taken:
            able = [name for name, each in METHODS.items() if key in each.parameters()]
            raise FeddagError(
                f"The method {method!r} cannot obey knowledge ({key}). Leave it out, or choose one of "
                f"{', '.join(able)}."
            )


def read_knowledge(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    """Read a file with the keys of a study's `[knowledge]`, as parameters of a learner, without empty ones."""
    return _statements(_Table(os.fspath(path), "", _toml(path), _TABLES["knowledge"]))


def _toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FeddagError(f"{path} does not exist. Check the path, or write one with: feddag study init") from None
    except UnicodeDecodeError as error:
        raise FeddagError(f"{path} is not in UTF-8 ({error.reason} at byte {error.start}). Convert it.") from None
    return _parsed(text, str(path))


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return json.loads(text) if source.endswith(".json") else tomllib.loads(text)
    except json.JSONDecodeError as error:
        raise FeddagError(f"{source} is no JSON: {error}. Restore it from a copy.") from None
    except tomllib.TOMLDecodeError as error:
        raise FeddagError(f"{source} is no TOML: {error}. Mend that place.") from None


_REQUIRED = object()
_TABLES = {
    "study": (
        *("name", "attempt", "variables", "method", "data", "knowledge", "sites", "federation", "privacy", "trust"),
        "follows",
    ),
    "variable": ("type", "levels", "merge", "unit", "missing", "label", "range", "transform"),
    "method": ("name", "regime", "parameters"),
    "data": tuple(PREPARATION),
    "knowledge": tuple(KNOWLEDGE),
    "site": ("columns", "identity", "intervened", "targets"),
    "federation": ("quorum", "timeout", "minimum_sites", "maximum_rows"),
    "privacy": ("secure_sum", "differential", "rows"),
    "trust": ("assess", "bootstraps", "leave_one_out", "mechanisms", "effects", "grid", "tables"),
    "differential": ("epsilon", "delta", "clip", "rounds"),
    "rows": ("epsilon", "delta", "rows_per_person", "expected_rows"),
}
"""The keys of each table whose keys are not names that the user gives."""


class _Table:
    """A table of the file. Unless its keys are names that the user chooses, unknown keys are refused."""

    def __init__(self, source: str, path: str, content: Mapping[str, Any], known: Sequence[str] | None = None) -> None:
        self.source = source
        self.path = path
        self._content = content
        for key in content:
            if known is not None and key not in known:
                raise FeddagError(
                    f"{self.where(key)} is not known. There are {', '.join(known)}.{_suggestion(key, known)}"
                )

    def where(self, key: str) -> str:
        return f"{self.source}: {self.path}{key}"

    def take(self, key: str, constraint: constraints.Constraint, default: Any = _REQUIRED) -> Any:
        if key not in self._content:
            if default is _REQUIRED:
                raise FeddagError(f"{self.where(key)} is missing. Give {constraint.wording}.")
            return default
        value = self._content[key]
        if not constraint.accepts(value):
            raise constraints.refusal(self.where(key), constraint.wording, value)
        return value

    def table(self, key: str, known: str | None = None, *, required: bool = False) -> _Table:
        """Return the table of that name; its keys are those of its own name in `_TABLES`, or of `known`."""
        content = self.take(key, _TABLE, _REQUIRED if required else {})
        return _Table(self.source, f"{self.path}{key}.", content, _TABLES.get(known or key))

    def all(self, constraints: Mapping[str, constraints.Constraint]) -> dict[str, Any]:
        """Return the values of those keys that the table has."""
        values = {key: self.take(key, constraint, None) for key, constraint in constraints.items()}
        return {key: value for key, value in values.items() if value is not None}

    def names(self) -> list[str]:
        """Return the keys of a table whose keys are names, sorted."""
        names = sorted(self._content)
        if "" in names:
            raise FeddagError(f"{self.source}: {self.path} has a key without a name. Name it.")
        return names


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _without_none(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if value is not None}


def _variables(table: _Table) -> tuple[Variable, ...]:
    names = table.names()
    if len(names) < 2:
        raise FeddagError(f"{table.source}: variables must be at least 2. Got {len(names)} instead.")
    kinds = constraints.one_of(KINDS)
    either = constraints.Constraint(
        f"{kinds.wording}, or a table with a type", lambda value: kinds.accepts(value) or isinstance(value, dict)
    )
    found = []
    for name in names:
        value = table.take(name, either)
        content = value if isinstance(value, dict) else {"type": value}
        found.append(_variable(name, _Table(table.source, f"{table.path}{name}.", content, _TABLES["variable"])))
    return tuple(found)


def _variable(name: str, table: _Table) -> Variable:
    kind = table.take("type", constraints.one_of(KINDS))
    levels = table.take("levels", LEVELS, [0, 1] if kind == "binary" else [])
    fitting = levels_of(kind)
    if not fitting.accepts(levels):
        raise constraints.refusal(table.where("levels"), fitting.wording, levels)
    kept, merge = _merged(table.table("merge"), kind, levels)
    unit = table.take("unit", _TEXT, None)
    missing = table.take("missing", LEVELS, [])
    label = table.take("label", _TEXT, None)
    bounds = table.take("range", RANGE, None)
    transform = table.take("transform", constraints.one_of(TRANSFORMS), None)
    for key, value in (("range", bounds), ("transform", transform)):
        if value is not None and kind != "continuous":
            raise FeddagError(
                f"{table.where(key)}: a {kind} variable has levels, and no numbers. Remove it, or make the variable "
                "continuous."
            )
    if transform == "log" and bounds is not None and bounds[1] <= 0:
        raise FeddagError(f"{table.where('range')} has no value with a logarithm. Change it, or leave out transform.")
    low_high = None if bounds is None else (float(bounds[0]), float(bounds[1]))
    return Variable(name, Kind(kind, kept), unit, tuple(missing), merge, label, low_high, transform)


def _merged(table: _Table, kind: str, levels: list[Level]) -> tuple[tuple[Level, ...], dict[str, tuple[Level, ...]]]:
    """Return the levels that are left once some are merged, and which values each merged one stands for."""
    order = {canonical(level): level for level in levels}
    places = {key: place for place, key in enumerate(order)}
    taken: dict[Level | None, str] = {}
    merge: dict[str, tuple[Level, ...]] = {}
    several = constraints.Constraint(
        "a list of two or more of its levels, each merged once",
        lambda value: are_levels(value) and len(value) > 1 and {*map(canonical, value)} <= order.keys() - taken.keys(),
    )
    for name in table.names():
        if kind not in ("categorical", "ordinal"):
            raise FeddagError(
                f"{table.where(name)}: a {kind} variable has no levels to merge. Remove it, or leave the variable out."
            )
        keys = sorted(map(canonical, table.take(name, several)), key=places.__getitem__)
        if kind == "ordinal" and places[keys[-1]] - places[keys[0]] != len(keys) - 1:
            raise FeddagError(f"{table.where(name)}: levels of an ordinal variable must be neighbours to be merged.")
        taken |= dict.fromkeys(keys, name)
        merge[name] = tuple(order[key] for key in keys)
    for name in merge:
        if canonical(name) in places.keys() - taken.keys() or taken.get(canonical(name), name) != name:
            raise FeddagError(f"{table.where(name)}: another level has that name. Choose a new one.")
    kept = tuple(dict.fromkeys(taken.get(key, level) for key, level in order.items()))
    if merge and len(kept) < 2:
        raise FeddagError(f"{table.source}: {table.path} leaves one level. Merge fewer, or leave the variable out.")
    return kept, merge


def _described(variable: Variable) -> dict[str, Any]:
    lists = {"levels": list(variable.declared_levels), "missing": list(variable.missing)}
    merge = {name: list(values) for name, values in variable.merge.items()}
    optional = {**lists, "merge": merge, "range": list(variable.range or ())}
    described = {
        "type": variable.kind.name,
        "unit": variable.unit,
        "label": variable.label,
        "transform": variable.transform,
    }
    return _without_none({**described, **{key: value or None for key, value in optional.items()}})


def _described_site(site: SiteTerms) -> dict[str, Any]:
    intervened, column = list(site.interventions.intervened), site.interventions.column
    described = {"columns": dict(site.columns), "identity": site.identity}
    return _without_none({**described, "intervened": intervened or None, "targets": column})


def _method(table: _Table) -> MethodChoice:
    choice = MethodChoice(
        table.take("name", _TEXT),
        table.take("regime", constraints.one_of(REGIMES), None),
        table.take("parameters", _TABLE, {}),
    )
    try:
        method = find_method(choice.name)
        method.check_regime(choice.regime or method.regimes[0])
    except FeddagError as error:
        raise FeddagError(f"{table.source}: {error}") from None
    return choice


def _statements(table: _Table) -> dict[str, list[Any]]:
    return {key: value for key, value in table.all(KNOWLEDGE).items() if value}


def _knowledge(table: _Table, names: list[str]) -> dict[str, list[Any]]:
    statements = _statements(table)
    try:
        Knowledge.of(names, **{key: statements.get(key, ()) for key in KNOWLEDGE})
    except FeddagError as error:
        raise FeddagError(f"{table.source}: knowledge: {error}") from None
    return statements


def _sites(table: _Table, variables: list[str]) -> tuple[SiteTerms, ...]:
    found = []
    for name in table.names():
        terms = table.table(name, "site")
        renamed = terms.table("columns")
        columns = {variable: renamed.take(variable, _TEXT) for variable in renamed.names()}
        for variable in columns:
            if variable not in variables:
                raise FeddagError(
                    f"{renamed.where(variable)} is no variable. There are {', '.join(variables)}."
                    f"{_suggestion(variable, variables)}"
                )
        called = [columns.get(variable, variable) for variable in variables]
        for column in called:
            if called.count(column) > 1:
                raise FeddagError(
                    f"{terms.where('columns')} has {column!r} for {called.count(column)} variables. "
                    "Give each variable its own column."
                )
        interventions = _interventions(terms, variables, called)
        found.append(SiteTerms(name, columns, terms.take("identity", _IDENTITY, None), interventions))
    for variable in variables:
        if found and all(variable in site.interventions.intervened for site in found):
            raise FeddagError(
                f"{table.source}: {variable!r} is in sites.NAME.intervened of every site, so that nothing tells its "
                f"causes. Name a site where it was not set, or leave out the variable."
            )
    return tuple(found)


def _interventions(terms: _Table, variables: list[str], called: list[str]) -> Interventions:
    intervened = terms.take("intervened", constraints.names, [])
    for name in intervened:
        if name not in variables:
            raise FeddagError(
                f"{terms.where('intervened')} has {name!r}, which is no variable. There are {', '.join(variables)}."
                f"{_suggestion(name, variables)}"
            )
    column = terms.take("targets", _TEXT, None)
    if column in called:
        raise FeddagError(
            f"{terms.where('targets')} is {column!r}, which is the column of a variable. Name the column that names "
            "each row's targets."
        )
    return Interventions(tuple(sorted(intervened)), column)


def _federation(table: _Table, sites: int) -> FederationTerms:
    default = min(sites or LEAST_QUORUM, max(LEAST_QUORUM, sites // 2 + 1))
    least = min(2, sites or 2)
    fitting = constraints.Constraint(
        f"a whole number from {least} to the number of sites, {sites}"
        if sites
        else f"a whole number of at least {least}",
        lambda value: constraints.is_whole(value, least) and (not sites or value <= sites),
    )
    quorum = table.take("quorum", fitting, default)
    timeout = table.take("timeout", constraints.positive, FederationTerms.timeout)
    minimum_sites = table.take("minimum_sites", constraints.whole(1), min(FederationTerms.minimum_sites, quorum))
    maximum_rows = table.take("maximum_rows", constraints.whole(1), FederationTerms.maximum_rows)
    return FederationTerms(quorum, float(timeout), minimum_sites, maximum_rows)


def _privacy(table: _Table, sites: int) -> PrivacyTerms:
    too_few = 0 < sites < LEAST_QUORUM
    secure_sum = table.take("secure_sum", constraints.boolean, not too_few)
    if secure_sum and too_few:
        raise FeddagError(
            f"{table.where('secure_sum')} needs at least {LEAST_QUORUM} sites, and the study names {sites}. "
            "Set it to false, or name more sites."
        )
    has_differential = table.take("differential", _TABLE, None) is not None
    differential = _differential(table.table("differential")) if has_differential else None
    has_rows = table.take("rows", _TABLE, None) is not None
    rows = _row_terms(table.table("rows")) if has_rows else None
    if rows and differential:
        raise FeddagError(
            f"{table.where('rows')} and {table.where('differential')} cannot stand together: the one is for a single "
            "release, the other for the rounds of FedDAG. Leave out one of them."
        )
    if rows and sites and not secure_sum:
        raise FeddagError(
            f"{table.where('rows')} needs secure_sum: one site's share of the noise is too small to protect its rows. "
            f"Set secure_sum = true, with {LEAST_QUORUM} sites or more."
        )
    return PrivacyTerms(secure_sum, differential, rows)


def _row_terms(table: _Table) -> RowTerms:
    return RowTerms(
        epsilon=float(table.take("epsilon", ROW_PRIVACY["epsilon"])),
        delta=float(table.take("delta", ROW_PRIVACY["delta"])),
        expected_rows=table.take("expected_rows", constraints.whole(10)),
        rows_per_person=table.take("rows_per_person", ROW_PRIVACY["rows_per_person"], 1),
    )


def _check_rows(
    source: str,
    privacy: PrivacyTerms,
    method: MethodChoice,
    preparation: Preparation,
    variables: Iterable[Variable],
) -> None:
    """Refuse privacy of rows where something else would tell about them, and a private method without it."""
    private = "epsilon" in find_method(method.name).parameters()
    if privacy.rows is None:
        if private:
            raise FeddagError(
                f"{source}: the method {method.name!r} needs the table privacy.rows. Give epsilon, delta and "
                "expected_rows there."
            )
        return
    if not private or method.regime not in (None, "federated"):
        raise FeddagError(
            f"{source}: privacy.rows needs the method private-search in its own regime, and the study has "
            f"{method.name!r}{f' in the regime {method.regime!r}' if method.regime else ''}: its sums have no limit on "
            "what one row adds. Choose private-search, or leave out privacy.rows."
        )
    if preparation.scale != "none" or preparation.missing == "impute":
        found = f"scale = {preparation.scale!r}" if preparation.scale != "none" else "missing = 'impute'"
        raise FeddagError(
            f"{source}: data.{found} cannot stand beside privacy.rows: one row would change how others are read. "
            "Set scale to 'none', and missing to 'drop' or 'error'."
        )
    for variable in variables:
        if not variable.kind.discrete and variable.range is None:
            raise FeddagError(
                f"{source}: variables.{variable.name}.range is missing, and privacy.rows needs it. Give the smallest "
                "and largest plausible value, such as [0, 120], known without a look at the data."
            )
        if variable.transform == "log" and variable.range is not None and variable.range[0] <= 0:
            raise FeddagError(
                f"{source}: variables.{variable.name}.range begins at {variable.range[0]:g}, which has no logarithm: "
                "values below count as that with privacy.rows. Let it begin above 0."
            )


def _attempt(top: _Table, privacy: PrivacyTerms) -> int:
    attempt = top.take("attempt", constraints.whole(1), 1)
    if attempt > 1 and privacy.noisy:
        raise FeddagError(
            f"{top.where('attempt')} cannot be {attempt} where sums have noise: what sites have spent of their "
            "budgets would be forgotten. Agree on a new study, with the epsilon that is left."
        )
    return attempt


def _trust(
    table: _Table, variables: Sequence[Variable], federation: FederationTerms, privacy: PrivacyTerms
) -> TrustTerms:
    terms = TrustTerms(
        table.take("assess", constraints.boolean, False),
        table.take("bootstraps", constraints.whole(0), 0),
        table.take("leave_one_out", constraints.boolean, False),
        table.take("mechanisms", constraints.boolean, False),
        tuple((cause, effect) for cause, effect in table.take("effects", constraints.edges, [])),
        table.take("grid", _GRID, {}),
        table.take("tables", constraints.boolean, False),
    )
    asked = [key for key, value in asdict(terms).items() if value]
    if asked and privacy.noisy:
        noise = "privacy.differential" if privacy.differential else "privacy.rows"
        raise FeddagError(
            f"{table.where(asked[0])} cannot be asked for beside {noise}: its sums have no noise, and no "
            f"budget covers them. Leave it out, or leave out {noise}."
        )
    if terms.leave_one_out and privacy.secure_sum and federation.minimum_sites > 1:
        raise FeddagError(
            f"{table.where('leave_one_out')} has sums without each site, which tell about that site alone, and "
            f"federation.minimum_sites is {federation.minimum_sites}. Leave it out, or set minimum_sites = 1 there and "
            "in all policies."
        )
    discrete = [variable.name for variable in variables if variable.kind.discrete]
    if terms.mechanisms and discrete:
        raise FeddagError(
            f"{table.where('mechanisms')} needs sums over the rows of single levels of "
            f"{', '.join(map(repr, discrete))}, which no site on a network answers. Leave it out."
        )
    _check_effects(table, terms.effects, {variable.name: variable for variable in variables})
    return terms


def _check_effects(table: _Table, pairs: Iterable[tuple[str, str]], variables: Mapping[str, Variable]) -> None:
    for pair in pairs:
        if pair[0] == pair[1]:
            raise FeddagError(f"{table.where('effects')} has {pair[0]!r} as its own effect. Name two variables.")
        for name in pair:
            if name not in variables:
                raise FeddagError(
                    f"{table.where('effects')} has {name!r}, which is no variable. There are {', '.join(variables)}."
                    f"{_suggestion(name, variables)}"
                )
            if len(variables[name].kind.levels) > 2:
                raise FeddagError(
                    f"{table.where('effects')} has {name!r} of {len(variables[name].kind.levels)} levels, and effects "
                    "are those of numbers and binary variables. Leave it out, or merge levels."
                )


def _differential(table: _Table) -> DifferentialPrivacy:
    share = constraints.number("a number in (0, 1)", lambda value: 0 < value < 1)
    return DifferentialPrivacy(
        epsilon=float(table.take("epsilon", constraints.positive)),
        rounds=table.take("rounds", constraints.whole(1)),
        delta=float(table.take("delta", share, DifferentialPrivacy.delta)),
        clip=float(table.take("clip", constraints.positive, DifferentialPrivacy.clip)),
    )
