"""The figures of a study that has not begun: its questions are asked of made-up tables that are like a site's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Int

from feddag.deployment.study_tasks import SET_SCALE, federated_learner
from feddag.disclosure.attack import Guesses, HiddenValue, Membership, Metric, hidden_value, inverse_root, membership
from feddag.disclosure.figures import Disclosure, Replay
from feddag.disclosure.population import Population, Regression, without
from feddag.disclosure.release import release_membership
from feddag.disclosure.replay import Course, answers, join_questions, record_course, thin_questions
from feddag.errors import FeddagError
from feddag.federation.policy import Policy
from feddag.federation.rosters import fewest_sites
from feddag.silos import Silo
from feddag.silos.cells import fewest_rows as rows_of_rarest_cell
from feddag.silos.interventions import target_mask
from feddag.study import Study

MOST_ROWS = 300
"""Of a made-up table whose answers are costly: fewer rows tell more of each, so that the figures err to that side."""
MOST_FAMILIES = 80
"""Whose scores are replayed, of each kind of score."""
MOST_RECORDED_ROWS = 12_000
"""Of all sites together, while the questions are recorded."""

Progress = Callable[[int, int], None]
"""Takes how many tables have answered, and of how many."""


@dataclass(frozen=True)
class _Effort:
    """How much is replayed."""

    reference_tables: int
    reference_rows: int
    """Single rows whose influence gives the covariance, beside that of tables."""
    target_tables: int
    """At least so many, in federations whose rows are looked for."""
    members: int
    bases: int
    """Tables that a row joins to show its influence, which depends on the table."""
    hidden: int
    guesses: int
    most_numbers: int
    most_rows: int = MOST_ROWS

    def scaled(self, share: float) -> _Effort:
        """Return a share of the effort."""
        counts = ("reference_tables", "reference_rows", "target_tables", "members", "hidden")
        return replace(self, **{name: -int(-getattr(self, name) * share // 1) for name in counts})


_ADDITIVE = _Effort(0, 6000, 60, 200, 1, 40, 15, 3500)
"""Answers add up over rows: a row's influence is the same in any table, and quickly found in a small one."""
_SCORES = _Effort(96, 0, 48, 80, 1, 14, 5, 20_000)
_WITH_STATE = _Effort(60, 0, 30, 60, 1, 12, 5, 20_000, most_rows=100)
"""Each answer is a phase of learning."""
_SMALL_TABLE = 20
_FEW_ROWS, _MORE_BASES = 100, 4
"""In a table of few rows, what one of them moves depends much on the others."""
_LEAST_REFERENCE = 300


def disclose(
    study: Study,
    silo: Silo,
    *,
    policy: Policy | None = None,
    seed: int = 1,
    share: float = 1.0,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> Disclosure:
    """Measure what a study will release about a table, before it releases anything.

    Args:
        study: The study.
        silo: The site's table, named after the site.
        policy: The site's own rules.
        seed: The figures are a function of study, table and seed.
        share: How many of the usual number of tables and rows to try: fewer make the figures less certain.
        jobs: Processes to compute in.
        progress: Takes how many of the made-up tables have answered, and of how many.

    Returns:
        All five figures.
    """
    study = _with_sites(study, silo.name)
    tables = _tables(Population(silo), study, silo.name, silo.rows, np.random.default_rng(seed))
    course = record_course(study, tables)
    found = _figures(study, silo, policy or Policy(), course)
    return attack_course(found, course, silo, seed=seed, share=share, jobs=jobs, progress=progress)


def attack_course(
    found: Disclosure, course: Course, silo: Silo, *, seed: int, share: float, jobs: int, progress: Progress
) -> Disclosure:
    """Add what the sums of a course of questions tell about single rows; the arguments are those of `disclose`."""
    if course.study.privacy.rows is not None:
        return replace(found, membership=release_membership(course.study, silo, seed=seed))
    population, rng = Population(silo), np.random.default_rng([seed, 1])
    replay = _Replay(course, population, silo.rows, rng, share, jobs, progress)
    return replace(
        found,
        membership=replay.membership(),
        hidden_value=replay.hidden_value(),
        replay=Replay(replay.rows, replay.total, seed, len(course.tasks)),
    )


def disclose_quickly(study: Study, silo: Silo, policy: Policy | None = None) -> Disclosure:
    """Return the figures that need no replay of many tables: all but membership and hidden values."""
    study, rng = _with_sites(study, silo.name), np.random.default_rng(1)
    course = record_course(study, _tables(Population(silo), study, silo.name, silo.rows, rng), rounds_with_state=1)
    return _figures(study, silo, policy or Policy(), course)


def _with_sites(study: Study, name: str) -> Study:
    if not study.sites:
        raise FeddagError(
            f"{study.source}: the study names no sites. Name them: what leaves one depends on the others."
        )
    study.site(name)
    return study


def _tables(population: Population, study: Study, own: str, rows: int, rng: np.random.Generator) -> list[Silo]:
    rows = min(rows, max(MOST_ROWS, MOST_RECORDED_ROWS // len(study.sites)))
    drawn = [population.silo(population.draw(rows, rng), site.name) for site in study.sites]
    return [_with_experiments(silo, study, own) for silo in drawn]


def _with_experiments(silo: Silo, study: Study, own: str) -> Silo:
    """Give a made-up table of another site the experiments that the study declares for that site."""
    declared = study.site_interventions(silo.name)
    if declared is None or silo.name == own:
        return silo
    silo = replace(silo, changed=declared.changed)
    if declared.column is not None:
        return silo
    targets = target_mask(silo.name, silo.columns, silo.rows, declared, None)
    return replace(silo, targets=targets)


def _figures(study: Study, silo: Silo, policy: Policy, course: Course) -> Disclosure:
    return Disclosure(
        study=study.digest,
        site=silo.name,
        sites=len(study.sites),
        rounds=course.rounds,
        numbers=course.numbers,
        fewest_sites=_fewest_sites(study, policy, course),
        protected=study.privacy.secure_sum,
        noise=study.privacy.differential is not None,
        row_epsilon=None if study.privacy.rows is None else study.privacy.rows.epsilon,
        row_delta=None if study.privacy.rows is None else study.privacy.rows.delta,
        every_round=course.finished,
        table=silo.digest(),
        rows=silo.rows,
        variables=len(silo.columns),
        fewest_rows=fewest_rows(silo),
        minimum_cell=policy.minimum_cell,
    )


def _fewest_sites(study: Study, policy: Policy, course: Course) -> int:
    """Return the fewest sites in any combination of the sums; if not all must answer, the fewest the site allows."""
    if not study.privacy.secure_sum:
        return 1
    fewest = fewest_sites(course.rosters, [site.name for site in study.sites])
    group = federated_learner(study).fewest_in_group
    if group is not None:  # whether there are groups, and how large, the data decide
        fewest = min(fewest, max(group, study.federation.minimum_sites))
    if all(task.complete for task in course.tasks) or study.federation.quorum == len(study.sites):
        return fewest
    return min(fewest, max(policy.minimum_sites, study.federation.minimum_sites))


def fewest_rows(silo: Silo) -> int:
    """Return the rows of the rarest level, or pair of levels, that occurs; all rows if no variable is discrete."""
    codes = [silo.values[:, place].astype(int) for place, kind in enumerate(silo.kinds) if kind.discrete]
    cells = [*((column,) for column in codes), *combinations(codes, 2)]
    return min((rows_of_rarest_cell(columns) for columns in cells), default=silo.rows)


class _Replay:
    """Made-up federations that have answered a course of questions, and the attacks on their sums."""

    def __init__(
        self,
        course: Course,
        population: Population,
        rows: int,
        rng: np.random.Generator,
        share: float,
        jobs: int,
        progress: Progress,
    ) -> None:
        self._population, self._rng, self._jobs = population, rng, jobs
        # where some sites are drawn for each sum, a sum of so many stands for all
        self._names = [site.name for site in course.study.sites][: min(len(task.participants) for task in course.tasks)]
        self._done, self._progress = 0, progress
        course = join_questions(thin_questions(course, MOST_FAMILIES, rng))
        probe = [self._silo(population.draw(_SMALL_TABLE, rng)) for _ in range(2)]
        additive = _additive(course, population, probe)
        exact = bool(additive.mean() > 0.5)
        if exact:  # sums over rows tell most, and the little else beside them would cost most of the time
            course = _mostly_sums(course, course.layout(probe[0]), additive)
            additive = _additive(course, population, probe)
        self._course = course
        usable = np.flatnonzero(additive) if exact else np.arange(len(additive))
        effort = (_ADDITIVE if exact else _SCORES if course.finished else _WITH_STATE).scaled(share)
        self._chosen = np.sort(rng.choice(usable, min(len(usable), effort.most_numbers), replace=False))
        self.rows = rows if exact and len(self._chosen) == len(usable) else min(rows, effort.most_rows)
        if exact:
            enough = min(effort.reference_rows, _LEAST_REFERENCE + 10 * len(self._chosen))
            effort = replace(effort, reference_rows=enough)
        elif course.finished and self.rows <= _FEW_ROWS:
            effort = replace(effort, bases=_MORE_BASES)
        self._by_rows = course.weights(probe[0]) > 1
        self._blocks = _product_blocks(course.layout(probe[0]), self._by_rows) if exact else []
        sites = len(self._names)
        self._federations = max(5, effort.target_tables // sites)
        effort = replace(effort, members=max(effort.members, 2 * self._federations), hidden=max(effort.hidden, 2))
        self._effort = effort
        references = -(-effort.reference_tables // sites)
        joined = effort.bases * (1 + effort.members) + effort.reference_rows + effort.hidden * effort.guesses
        self.total = (self._federations + references) * sites + joined
        self._ask(references)

    def _ask(self, references: int) -> None:
        """Have all federations answer, and bring their numbers to deviations of 1."""
        effort, sites = self._effort, len(self._names)
        every = np.arange(len(self._by_rows))
        self._targets = [self._draw_federation() for _ in range(self._federations)]
        tables = self._answers([silo for tables in self._targets for silo in tables], every)
        self._roots = [
            [inverse_root(mean[products]) for _, products in self._blocks]
            for mean in tables.reshape(len(self._targets), sites, -1).mean(axis=1)
        ]
        targets = tables[:, self._chosen].reshape(len(self._targets), sites, -1)
        drawn = [silo for _ in range(references) for silo in self._draw_federation()]
        reference = self._answers(drawn, self._chosen).reshape(references, sites, len(self._chosen))
        base = _SMALL_TABLE if effort.reference_rows else self.rows
        self._bases = [self._draw(base) for _ in range(effort.bases)]
        self._needed = np.unique(np.concatenate([self._chosen, *(means for means, _ in self._blocks)]))
        self._of_bases = self._answers([self._silo(values) for values in self._bases], self._needed)
        everything = np.concatenate([targets, reference])
        self._scale = (everything - everything.mean(axis=0)).reshape(-1, len(self._chosen)).std(axis=0)
        size = np.abs(everything).mean(axis=(0, 1))
        self._used = self._scale > 1e-9 * size + 1e-300
        means = everything.mean(axis=1)
        others = (means.sum(axis=0) - means) / (len(means) - 1)
        self._deviations = self._standard(means - others)[: len(targets)]
        self._expected = np.zeros(int(self._used.sum()))
        if effort.reference_rows:
            samples = self._influences(self._population.draw(effort.reference_rows, self._rng), 1)[0]
            self._expected = samples.mean(axis=0)
            # one row moves a table's numbers by a share of what all its rows do
            self._metric = Metric((samples - self._expected) * np.sqrt(self.rows))
        else:
            spread = self._standard(reference - reference.mean(axis=0)).reshape(-1, len(self._expected))
            self._metric = Metric(spread * np.sqrt(references / max(references - 1, 1)))

    def membership(self) -> Membership:
        """Look for rows of the first site of each federation."""
        own = np.arange(self._effort.members) % self._federations
        members = np.array([self._pick(federation) for federation in own.tolist()])
        influences, _ = self._influences(members, self._effort.bases)
        if not self._effort.reference_rows:
            self._expected = influences.mean(axis=0)
        return membership(self._metric, influences - self._expected, self._deviations, len(self._names), own)

    def hidden_value(self) -> HiddenValue:
        """Hide one value of each of some rows, and guess it."""
        effort, population = self._effort, self._population
        columns = np.flatnonzero(population.discrete == 0)
        columns = columns if len(columns) else np.arange(len(population.discrete))
        sample = population.draw(2000, self._rng)
        regressions = {int(column): population.regress_on_others(sample, int(column)) for column in columns}
        rows, tried, guesses = [], [], []
        for place in range(effort.hidden):
            column, own = int(columns[place % len(columns)]), place % self._federations
            row, levels = self._pick(own), int(population.discrete[column])
            values = np.arange(levels) if levels else _grid(sample[:, column], row[column], effort.guesses)
            guessed = np.repeat(row[None], len(values), axis=0)
            guessed[:, column] = values
            tried.append(guessed)
            prior = _prior(population, regressions[column], row, column)
            guesses.append((row[column], sample[:, column].std() or 1.0, values, levels > 0, prior, own))
        influences, functions = self._influences(np.concatenate(tried), 1)
        ends = np.cumsum([len(each) for each in tried])
        for start, end, (truth, deviation, values, discrete, prior, own) in zip(
            [0, *ends[:-1]], ends, guesses, strict=True
        ):
            moved = influences[start:end] - self._expected
            rows.append(
                Guesses(
                    float(truth),
                    float(deviation),
                    values.astype(float),
                    discrete,
                    prior,
                    moved,
                    [block[start:end] for block in functions],
                    own,
                )
            )
        return hidden_value(self._metric, rows, self._deviations, len(self._names), self._roots)

    def _influences(
        self, rows: Float[np.ndarray, "row column"], bases: int
    ) -> tuple[Float[np.ndarray, "row number"], list[Float[np.ndarray, "row function"]]]:
        """Return how each row moves the numbers of a table that it joins; and its functions, where sites sum products.

        Args:
            rows: The rows.
            bases: How many tables each row joins; the mean of what it moves is returned.
        """
        moved, functions = 0.0, []
        for base, before in zip(self._bases[:bases], self._of_bases, strict=False):
            joined = self._answers([self._silo(np.vstack([base, row])) for row in rows], self._needed)
            change = joined - before
            size = len(base) + 1
            functions = [
                before[places] + change[:, places] * size
                for places in (np.searchsorted(self._needed, means) for means, _ in self._blocks)
            ]
            # a mean of more rows moves less, a sum as much
            share = np.where(self._by_rows[self._chosen], size / (self.rows + 1), 1.0)
            moved = moved + change[:, np.searchsorted(self._needed, self._chosen)] * share
        return self._standard(np.asarray(moved) / bases), functions

    def _standard(self, numbers: Float[np.ndarray, "*any number"]) -> Float[np.ndarray, "*any used"]:
        return numbers[..., self._used] / self._scale[self._used]

    def _answers(self, silos: Sequence[Silo], chosen: Int[np.ndarray, " number"]) -> Float[np.ndarray, "table number"]:
        return answers(self._course, silos, chosen, self._jobs, self._advance)

    def _advance(self, tables: int) -> None:
        self._done += tables
        self._progress(self._done, max(self._done, self.total))

    def _draw(self, rows: int) -> Float[np.ndarray, "row column"]:
        return self._population.draw(rows, self._rng)

    def _draw_federation(self) -> list[Silo]:
        return [self._population.silo(self._draw(self.rows), name) for name in self._names]

    def _silo(self, values: Float[np.ndarray, "row column"]) -> Silo:
        return self._population.silo(values, self._names[0])

    def _pick(self, federation: int) -> Float[np.ndarray, " column"]:
        values = self._targets[federation][0].values
        return values[self._rng.integers(len(values))]


def _additive(course: Course, population: Population, parts: Sequence[Silo]) -> Bool[np.ndarray, " number"]:
    """Find the numbers that are sums over rows, or means of rows that count by rows."""
    both = population.silo(np.concatenate([part.values for part in parts]), parts[0].name)
    together, *apart = (course.vector(silo) * course.weights(silo) for silo in (both, *parts))
    size = np.abs(apart).max(axis=0) + np.abs(together)
    return np.abs(together - sum(apart)) <= 1e-6 * size + 1e-12


def _mostly_sums(
    course: Course, layout: Sequence[tuple[int, str, int]], additive: Bool[np.ndarray, " number"]
) -> Course:
    """Leave out questions whose answers are mostly no sums over rows; common units stay, as others rest on them."""
    of_task = np.repeat([place for place, _, _ in layout], [size for _, _, size in layout])
    kept = [
        task
        for place, task in enumerate(course.tasks)
        if task.name == SET_SCALE.name or additive[of_task == place].mean() > 0.5
    ]
    return replace(course, tasks=tuple(kept))


def _product_blocks(
    layout: Sequence[tuple[int, str, int]], by_rows: Bool[np.ndarray, " number"]
) -> list[tuple[Int[np.ndarray, " function"], Int[np.ndarray, " pair"]]]:
    """Find where an answer holds the means of some functions, and those of all their products."""
    starts = np.cumsum([0, *(size for _, _, size in layout)])
    at = {
        (place, name): np.arange(start, start + size)
        for (place, name, size), start in zip(layout, starts[:-1], strict=True)
    }
    blocks = []
    for (place, name), means in at.items():
        products = at.get((place, name.replace("mean", "second", 1)))
        if name.startswith("mean") and products is not None and len(products) == len(means) * (len(means) + 1) // 2:
            blocks.append((means, products))
    return [block for block in blocks if len(block[0]) and by_rows[block[0]].all()]


def _grid(column: Float[np.ndarray, " row"], truth: float, guesses: int) -> Float[np.ndarray, " guess"]:
    """Spread guesses over the values of a column."""
    least, most = np.quantile(column, [0.005, 0.995])
    least, most = min(least, truth), max(most, truth)
    return np.linspace(least, most if most > least else least + 1.0, guesses)


def _prior(
    population: Population, regression: Regression, row: Float[np.ndarray, " column"], column: int
) -> tuple[float, float]:
    """Return the mean and standard deviation of a row's value, given its others."""
    mean = float(regression.predict(without(population.functions(row[None]), column))[0, 0])
    return mean, float(np.sqrt(regression.variance)) or 1.0
