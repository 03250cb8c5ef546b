"""The sections of a study's file besides its variables: each is read, checked, and becomes terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from feddag import constraints
from feddag.errors import FeddagError, suggestion
from feddag.federation.row_privacy import CONSTRAINTS as ROW_PRIVACY
from feddag.learners.knowledge import CONSTRAINTS as KNOWLEDGE
from feddag.learners.knowledge import Knowledge
from feddag.learners.registry import REGIMES, find_method
from feddag.silos.interventions import Interventions, refuse_both
from feddag.silos.preparation import Preparation
from feddag.silos.variable_types import Variable
from feddag.study.document import GRID, IDENTITY, TABLE, TEXT, Table, without_none
from feddag.study.terms import (
    LEAST_QUORUM,
    DifferentialPrivacy,
    FederationTerms,
    MethodChoice,
    PrivacyTerms,
    RowTerms,
    SiteTerms,
    TrustTerms,
)


def read_method(table: Table) -> MethodChoice:
    """Read how to learn."""
    choice = MethodChoice(
        table.take("name", TEXT),
        table.take("regime", constraints.one_of(REGIMES), None),
        table.take("parameters", TABLE, {}),
    )
    try:
        method = find_method(choice.name)
        method.check_regime(choice.regime or method.regimes[0])
    except FeddagError as error:
        raise FeddagError(f"{table.source}: {error}") from None
    return choice


def read_statements(table: Table) -> dict[str, list[Any]]:
    """Return the statements about the graph that are not empty."""
    return {key: value for key, value in table.all(KNOWLEDGE).items() if value}


def read_knowledge_table(table: Table, names: list[str]) -> dict[str, list[Any]]:
    """Read what is known of the graph, and check it against the variables."""
    statements = read_statements(table)
    try:
        Knowledge.of(names, **{key: statements.get(key, ()) for key in KNOWLEDGE})
    except FeddagError as error:
        raise FeddagError(f"{table.source}: knowledge: {error}") from None
    return statements


def read_sites(table: Table, variables: list[str]) -> tuple[SiteTerms, ...]:
    """Read what the study says about each site."""
    found = []
    for name in table.names():
        terms = table.table(name, "site")
        renamed = terms.table("columns")
        columns = {variable: renamed.take(variable, TEXT) for variable in renamed.names()}
        for variable in columns:
            if variable not in variables:
                raise FeddagError(
                    f"{renamed.where(variable)} is not a variable. There are {', '.join(variables)}."
                    f"{suggestion(variable, variables)}"
                )
        called = [columns.get(variable, variable) for variable in variables]
        for column in called:
            if called.count(column) > 1:
                raise FeddagError(
                    f"{terms.where('columns')} has {column!r} for {called.count(column)} variables. "
                    "Give each variable its own column."
                )
        interventions = _interventions(terms, variables, called)
        found.append(SiteTerms(name, columns, terms.take("identity", IDENTITY, None), interventions))
    for variable in variables:
        if found and all(variable in site.interventions.intervened for site in found):
            raise FeddagError(
                f"{table.source}: {variable!r} is in sites.NAME.intervened of every site, so that nothing tells its "
                f"causes. Name a site where it was not set, or leave out the variable."
            )
        if found and all(variable in site.interventions.experimental for site in found):
            raise FeddagError(
                f"{table.source}: {variable!r} is in sites.NAME.changed of every site, or of all in which it was not "
                f"set, so that no site has its mechanism in common with others. Leave it out of changed."
            )
    return tuple(found)


def _interventions(terms: Table, variables: list[str], called: list[str]) -> Interventions:
    named = {key: terms.take(key, constraints.names, []) for key in ("intervened", "changed")}
    for key, name in ((key, name) for key, names in named.items() for name in names):
        if name not in variables:
            raise FeddagError(
                f"{terms.where(key)} has {name!r}, which is not a variable. There are {', '.join(variables)}."
                f"{suggestion(name, variables)}"
            )
    column = terms.take("targets", TEXT, None)
    if column in called:
        raise FeddagError(
            f"{terms.where('targets')} is {column!r}, which is the column of a variable. Name the column that names "
            "each row's targets."
        )
    intervened, changed = (tuple(sorted(names)) for names in named.values())
    return refuse_both(terms.where("").rstrip("."), Interventions(intervened, column, changed))


def read_federation(table: Table, sites: int) -> FederationTerms:
    """Read how many sites must answer, and in what time."""
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


def read_privacy(table: Table, sites: int) -> PrivacyTerms:
    """Read how sums are protected."""
    too_few = 0 < sites < LEAST_QUORUM
    secure_sum = table.take("secure_sum", constraints.boolean, not too_few)
    if secure_sum and too_few:
        raise FeddagError(
            f"{table.where('secure_sum')} needs at least {LEAST_QUORUM} sites, and the study names {sites}. "
            "Set it to false, or name more sites."
        )
    has_differential = table.take("differential", TABLE, None) is not None
    differential = _differential(table.table("differential")) if has_differential else None
    has_rows = table.take("rows", TABLE, None) is not None
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


def _row_terms(table: Table) -> RowTerms:
    return RowTerms(
        epsilon=float(table.take("epsilon", ROW_PRIVACY["epsilon"])),
        delta=float(table.take("delta", ROW_PRIVACY["delta"])),
        expected_rows=table.take("expected_rows", constraints.whole(10)),
        rows_per_person=table.take("rows_per_person", ROW_PRIVACY["rows_per_person"], 1),
    )


def check_row_privacy(
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


def read_attempt(top: Table, privacy: PrivacyTerms) -> int:
    """Read how many times the study has begun."""
    attempt = top.take("attempt", constraints.whole(1), 1)
    if attempt > 1 and privacy.noisy:
        raise FeddagError(
            f"{top.where('attempt')} cannot be {attempt} where sums have noise: what sites have spent of their "
            "budgets would be forgotten. Agree on a new study, with the epsilon that is left."
        )
    return attempt


def read_trust(
    table: Table, variables: Sequence[Variable], federation: FederationTerms, privacy: PrivacyTerms
) -> TrustTerms:
    """Read which checks follow the fit."""
    terms = TrustTerms(
        table.take("assess", constraints.boolean, False),
        table.take("bootstraps", constraints.whole(0), 0),
        table.take("leave_one_out", constraints.boolean, False),
        table.take("mechanisms", constraints.boolean, False),
        tuple((cause, effect) for cause, effect in table.take("effects", constraints.edges, [])),
        table.take("grid", GRID, {}),
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


def _check_effects(table: Table, pairs: Iterable[tuple[str, str]], variables: Mapping[str, Variable]) -> None:
    for pair in pairs:
        if pair[0] == pair[1]:
            raise FeddagError(f"{table.where('effects')} has {pair[0]!r} as its own effect. Name two variables.")
        for name in pair:
            if name not in variables:
                raise FeddagError(
                    f"{table.where('effects')} has {name!r}, which is not a variable. There are {', '.join(variables)}."
                    f"{suggestion(name, variables)}"
                )
            if len(variables[name].kind.levels) > 2:
                raise FeddagError(
                    f"{table.where('effects')} has {name!r} of {len(variables[name].kind.levels)} levels, and effects "
                    "are those of numbers and binary variables. Leave it out, or merge levels."
                )


def _differential(table: Table) -> DifferentialPrivacy:
    share = constraints.number("a number in (0, 1)", lambda value: 0 < value < 1)
    return DifferentialPrivacy(
        epsilon=float(table.take("epsilon", constraints.positive)),
        rounds=table.take("rounds", constraints.whole(1)),
        delta=float(table.take("delta", share, DifferentialPrivacy.delta)),
        clip=float(table.take("clip", constraints.positive, DifferentialPrivacy.clip)),
    )


def describe_site(site: SiteTerms) -> dict[str, Any]:
    """Return a site's terms as a study's file has them."""
    declared = site.interventions
    described = {"columns": dict(site.columns), "identity": site.identity, "targets": declared.column}
    named = {"intervened": list(declared.intervened), "changed": list(declared.changed)}
    return without_none({**described, **{key: names or None for key, names in named.items()}})
