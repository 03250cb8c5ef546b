"""Which tasks a study may ask its sites: those of its method, of common units, and of the checks of its graph."""

from __future__ import annotations

from feddag.errors import FeddagError
from feddag.federation.tasks import LARGEST_VALUE, SMALLEST_SPREAD, Bounds, Output, TaskSpec, by_name
from feddag.learners.federated import FederatedLearner
from feddag.learners.regimes import InRegime
from feddag.learners.registry import installed_methods
from feddag.regression.moments import COVARIANCE, SCALE
from feddag.selection import CANDIDATES, Candidates
from feddag.study import Study
from feddag.trust.replicates import REPLICATE_TASKS, Replicates
from feddag.trust.tables import TABLE_TASKS, table_tasks
from feddag.trust.tasks import NETWORK_TASKS, assessment_tasks, effect_tasks, mechanism_tasks

SET_SCALE = TaskSpec("scale.set", "That the common units were taken over", {"done": Output("the number 1")})


def federated_learner(study: Study) -> FederatedLearner:
    """Return the study's learner; refuse one that cannot learn from sites which only send sums."""
    learner = study.learner()
    if not isinstance(learner, FederatedLearner):
        raise FeddagError(
            f"{study.source}: the method {study.method.name!r} does not learn from several sites. Choose another, or "
            'let the sites vote: regime = "voting".'
        )
    if isinstance(learner, InRegime) and learner.regime != "voting":
        raise FeddagError(
            f"{study.source}: the regime {learner.regime!r} needs all tables in one process, so it cannot run over a "
            'network. Choose regime = "voting" or "federated", or learn where the tables are: feddag learn --study'
        )
    try:
        learner.check_deployment()
    except FeddagError as error:
        raise FeddagError(f"{study.source}: {error}") from None
    learner.check_federation(len(study.sites), study.columns)
    _check_kinds(study, learner)
    if not learner.tasks(study.columns, len(study.sites)):
        raise FeddagError(
            f"{study.source}: the method {study.method.name!r} declares no tasks, so that no site on a network would "
            f"answer it. Declare `task_specs` in its class {type(learner).__name__}."
        )
    return learner


def _check_kinds(study: Study, learner: FederatedLearner) -> None:
    """Refuse discrete variables where the method does not know them, or sums them as if their codes were numbers.

    The products of a level's code with other columns are sums over the rows of that level.
    """
    try:
        learner.check_kinds(study.kinds)
    except FeddagError as error:
        raise FeddagError(f"{study.source}: {error}") from None
    discrete = [name for name, kind in study.kinds.items() if kind.discrete]
    if discrete and by_name(COVARIANCE.specs).keys() & learner.tasks(study.columns, len(study.sites)).keys():
        raise FeddagError(
            f"{study.source}: the method {study.method.name!r} sums products of all variables, and "
            f"{', '.join(map(repr, discrete))} is discrete. Leave it out, or choose the method search."
        )


def study_tasks(study: Study) -> dict[str, TaskSpec]:
    """Return all tasks of the study, with bounds on what each brings."""
    tasks = dict(federated_learner(study).tasks(study.columns, len(study.sites)))
    if study.preparation.scale == "federated":
        continuous = sum(not variable.kind.discrete for variable in study.variables)
        deviation = Bounds(SMALLEST_SPREAD, LARGEST_VALUE, shape=(continuous,))
        tasks |= SCALE.bounded(continuous)
        moments = {**tasks[SCALE.second.name].arrays, "deviation": deviation}
        tasks |= by_name((SET_SCALE.with_bounds(arrays=moments),))
    return tasks | look_tasks(study) | check_tasks(study)


def look_tasks(study: Study) -> dict[str, TaskSpec]:
    """Return the tasks by which the study looks at the tables before it learns."""
    return table_tasks(study.kinds, len(study.sites)) if study.trust.tables else {}


def check_tasks(study: Study) -> dict[str, TaskSpec]:
    """Return the tasks of the checks of the study's graph."""
    found = trust_tasks(study)
    for joint in joint_checks(study, federated_learner(study)):
        found |= joint.tasks()
    return found


def joint_checks(study: Study, learner: FederatedLearner) -> list[Replicates | Candidates]:
    """Return the checks in which several learners run side by side."""
    return [each for each in (study_replicates(study, learner), Candidates.of(study)) if each is not None]


def trust_tasks(study: Study) -> dict[str, TaskSpec]:
    """Return those of them that `feddag.trust.sites.TrustSite` answers."""
    terms, nodes = study.trust, len(study.columns)
    found = assessment_tasks(study.kinds) if terms.assess else {}
    found |= mechanism_tasks(nodes) if terms.mechanisms else {}
    return found | (effect_tasks(nodes) if terms.effects else {})


def study_replicates(study: Study, learner: FederatedLearner) -> Replicates | None:
    """Return the replicates by which the study measures its graph's stability; `None` if it does not."""
    terms = study.trust
    if not terms.bootstraps and not terms.leave_one_out:
        return None
    sites = tuple(site.name for site in study.sites)
    return Replicates(learner, study.columns, sites, terms.bootstraps, terms.leave_one_out)


def known_tasks() -> dict[str, TaskSpec]:
    """Return every task that a study on this installation may ask, those of other packages' methods among them."""
    learners = [method.learner() for method in installed_methods().values()]
    of_methods = [spec for learner in learners if issubclass(learner, FederatedLearner) for spec in learner.task_specs]
    scaling = (*SCALE.specs, SET_SCALE)
    return by_name(
        (*of_methods, *InRegime.task_specs, *scaling, *NETWORK_TASKS, *REPLICATE_TASKS, *TABLE_TASKS, CANDIDATES)
    )
