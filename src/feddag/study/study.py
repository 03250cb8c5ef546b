"""A study: what all sites agree on, checked, and known by its digest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Bool

from feddag.errors import FeddagError, suggestion
from feddag.learners.factory import make_learner
from feddag.learners.registry import find_method, installed_methods
from feddag.silos.interventions import NO_INTERVENTIONS, Interventions
from feddag.silos.preparation import CONSTRAINTS as PREPARATION
from feddag.silos.preparation import Preparation
from feddag.silos.reading import read_silos, read_site
from feddag.silos.variable_types import Kind, Variable
from feddag.study.document import DIGEST, NAME, TABLES, Table, parse_text, read_toml, without_none
from feddag.study.sections import (
    check_row_privacy,
    describe_site,
    read_attempt,
    read_federation,
    read_knowledge_table,
    read_method,
    read_privacy,
    read_sites,
    read_statements,
    read_trust,
)
from feddag.study.terms import FederationTerms, MethodChoice, PrivacyTerms, SiteTerms, TrustTerms
from feddag.study.variables import describe_variable, read_variables

if TYPE_CHECKING:
    from feddag.learners import Learner
    from feddag.silos import CheckedSilos, Silo


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
        return cls.of(read_toml(path), os.fspath(path))

    @classmethod
    def parse(cls, text: str, source: str = "The study") -> Self:
        """Read a study from text; `source` names it in errors."""
        return cls.of(parse_text(text, source), source)

    @classmethod
    def of(cls, document: Mapping[str, Any], source: str = "The study") -> Self:
        """Make a study of the file's content; every refusal names file, key, value and remedy."""
        top = Table(source, "", document, TABLES["study"])
        variables = read_variables(top.table("variables", required=True))
        sites = read_sites(top.table("sites"), [variable.name for variable in variables])
        federation = read_federation(top.table("federation"), len(sites))
        privacy = read_privacy(top.table("privacy"), len(sites))
        method = read_method(top.table("method", required=True))
        preparation = Preparation(**top.table("data").all(PREPARATION))
        check_row_privacy(source, privacy, method, preparation, variables)
        return cls(
            name=top.take("name", NAME),
            variables=tuple(replace(variable, clamped=privacy.rows is not None) for variable in variables),
            method=method,
            preparation=preparation,
            knowledge=read_knowledge_table(top.table("knowledge"), [variable.name for variable in variables]),
            sites=sites,
            federation=federation,
            privacy=privacy,
            trust=read_trust(top.table("trust"), variables, federation, privacy),
            follows=top.take("follows", DIGEST, None),
            source=source,
            attempt=read_attempt(top, privacy),
        )

    def document(self) -> dict[str, Any]:
        """Return the content in the file's layout, all defaults written out: `of` reads it again."""
        return {
            "name": self.name,
            "variables": {variable.name: describe_variable(variable) for variable in self.variables},
            "method": without_none(asdict(self.method)),
            "data": asdict(self.preparation),
            "knowledge": dict(self.knowledge),
            "sites": {site.name: describe_site(site) for site in self.sites},
            "federation": asdict(self.federation),
            "privacy": without_none(asdict(self.privacy)),
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
            f"{self.source}: there is no site {name!r}. It has {', '.join(names)}.{suggestion(name, names)}"
        )

    def site_columns(self, site: str) -> dict[str, str]:
        """Return the name of each variable's column at a site."""
        renamed = self.site(site).columns
        return {variable.name: renamed.get(variable.name, variable.name) for variable in self.variables}

    def site_interventions(self, site: str) -> Interventions | None:
        """Return what a site's experiments set; None where the study has no experiments."""
        return self.site(site).interventions if self._has_experiments else None

    def experimental_sites(self, name: str) -> tuple[str, ...]:
        """Return the sites whose experiments set or changed a variable; or may, as a column names each row's."""
        return tuple(
            site.name for site in self.sites if site.interventions.column or name in site.interventions.experimental
        )

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
        named = {name for each in terms for name in each.experimental}
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
            able = [name for name, each in installed_methods().items() if key in each.parameters()]
            raise FeddagError(
                f"The method {method!r} cannot obey knowledge ({key}). Leave it out, or choose one of "
                f"{', '.join(able)}."
            )


def read_knowledge(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    """Read a file with the keys of a study's `[knowledge]`, as parameters of a learner, without empty ones."""
    return read_statements(Table(os.fspath(path), "", read_toml(path), TABLES["knowledge"]))
