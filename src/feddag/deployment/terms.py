"""The terms of a study's federation, from the study itself: the only place that turns one into the other."""

from __future__ import annotations

from feddag.federation.differential_privacy import PrivacyBudget
from feddag.federation.row_privacy import RowPrivacy
from feddag.federation.terms import StudyTerms
from feddag.study import Study


def study_terms(study: Study) -> StudyTerms:
    """Return what the study's sites and its server agree on."""
    budget, rows = privacy_budget(study), study.privacy.rows
    of_rows = None if rows is None else RowPrivacy(rows.epsilon, rows.delta, rows.rows_per_person)
    return StudyTerms(
        study=study.digest,
        sites=tuple(site.name for site in study.sites),
        quorum=study.federation.quorum,
        timeout=study.federation.timeout,
        minimum_sites=study.federation.minimum_sites,
        maximum_rows=study.federation.maximum_rows,
        secure_sum=study.privacy.secure_sum,
        identities={site.name: bytes.fromhex(site.identity) for site in study.sites if site.identity},
        noise=f"row-dp({of_rows})" if of_rows else f"dp({budget})" if budget else "",
        row_privacy=of_rows,
        experiments={name: study.experimental_sites(name) for name in study.columns},
    )


def privacy_budget(study: Study) -> PrivacyBudget | None:
    """Return what the study may spend of each site's privacy; `None` where it adds no noise."""
    terms = study.privacy.differential
    return None if terms is None else PrivacyBudget(terms.epsilon, terms.delta)
