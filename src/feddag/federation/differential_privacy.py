"""Differential privacy of a study: whether a site took part can hardly be told from all that was ever summed.

What is protected is a **site**. Under (ε, δ), whatever anyone concludes from every sum of the study would be as
likely, up to a factor of e^ε and but for a probability of δ, had the site answered each task with no change at all.
A **row** is protected as a part of its site, and no better: what comes of hundreds of steps on all rows has no limit
on what each row adds. For a guarantee for rows alone, with far less noise, see `row_privacy`.

How: every site limits its answer to a length (`clip`), and adds its share of Gaussian noise, before a secure sum takes
it. The answer's length is that of all its arrays together. Where the task came with an array of the same name and shape
(FedDAG's parameters, the common weights of NOTEARS-ADMM), it is the change from it that is limited.

What it rests on:

- The sum must be a secure one: the noise of one site alone is too small to protect it. Nor must too many sites leave
  out their noise, or give it away: `sites` is how many are sure to add theirs, those you do not trust left out.
- Names, shapes, the number of answers and whether a site answers at all are not hidden.
- Sites weigh the same. By rows, a weight would tell their number.
- Every answer counts, also one that is asked for again; what was sent before may be sent again as it was.
- Nothing is deducted for rounds in which a site was not drawn: who takes part in a round is known to the server.
- An answer enters one sum, whoever leaves in between: a site refuses a second sum of other sites with the same answer
  and noise (`rosters`), whose difference would have no noise of its own.
- Noise comes from the system's generator for keys, never from the study's seed. Floating-point noise has gaps that can
  tell of the answer (Mironov, CCS 2012), and the secure sum's grid, which is finer than these numbers, would not hide
  them. So an answer is rounded to whole steps before noise of whole steps is added (`discrete_gaussian`), each 2⁻³⁰ of
  the noise's deviation; rounding is towards zero, so that no answer becomes longer.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from feddag import constraints
from feddag.errors import FeddagError
from feddag.extras import imported
from feddag.federation import discrete_gaussian
from feddag.federation.protocol import Answer, Arrays, Site, Task
from feddag.files import atomic_write

Noise = Callable[[int], Float[np.ndarray, " number"]]
"""Gives so many numbers from the standard normal distribution."""

_SAFE_SIDE = 1 + 1e-9
"""What a calibrated noise is raised by, so that no rounding makes the last round one too many."""


_STEPS = 2**30
"""The standard deviation of one site's noise, in steps."""


@dataclass(frozen=True)
class PrivacyBudget:
    """What a study may reveal of a site, all rounds together."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        share = constraints.number("a number in (0, 1)", lambda value: 0 < value < 1)
        constraints.check(vars(self), {"epsilon": constraints.positive, "delta": share})

    def __str__(self) -> str:
        return f"ε={self.epsilon:g}, δ={self.delta:g}"


def noise_multiplier_for(budget: PrivacyBudget, rounds: int) -> float:
    """Return the noise of a sum, as a multiple of `clip`, with which so many rounds just keep within the budget."""
    constraints.check({"rounds": rounds}, {"rounds": constraints.whole(1)})
    return float(_gaussian().get_sigma_gaussian(budget.epsilon, budget.delta) * math.sqrt(rounds) * _SAFE_SIDE)


class Accountant:
    """Remembers what each answer has cost, and refuses the one that would go beyond the budget.

    With a `path`, all that was spent is on the disk before `spend` returns, and is taken up from there: a site that was
    killed has spent what it spent.
    """

    def __init__(self, budget: PrivacyBudget, path: str | os.PathLike[str] | None = None) -> None:
        self.budget = budget
        self._path = None if path is None else Path(path)
        self.noise_multipliers = [] if self._path is None else _read(self._path)
        """The noise multiplier of every answer so far."""

    @property
    def spent(self) -> float:
        """The ε of all answers so far, at the budget's δ."""
        return self._epsilon(self.noise_multipliers)

    def can_afford(self, noise_multiplier: float) -> bool:
        """Return whether the budget allows one more answer."""
        return self._epsilon([*self.noise_multipliers, noise_multiplier]) <= self.budget.epsilon

    def spend(self, noise_multiplier: float) -> None:
        """Account for one answer, before it is given."""
        constraints.check({"noise_multiplier": noise_multiplier}, {"noise_multiplier": constraints.positive})
        if not self.can_afford(noise_multiplier):
            raise FeddagError(
                f"The privacy budget ({self.budget}) does not allow a further answer: "
                f"{len(self.noise_multipliers)} have spent ε={self.spent:.4g}. End the study here, or plan one of as "
                "many rounds, with more noise."
            )
        after = [*self.noise_multipliers, float(noise_multiplier)]
        if self._path is not None:
            with atomic_write(self._path) as stream:
                json.dump({"noise_multipliers": after}, stream)
        self.noise_multipliers = after

    def _epsilon(self, noise_multipliers: Iterable[float]) -> float:
        """Return the ε of several Gaussian mechanisms in sequence, each of which may depend on the outcomes before it.

        Together they reveal exactly what one of the noise `(Σ z⁻²)^(-1/2)` does (Dong, Roth and Su, "Gaussian
        Differential Privacy", 2022, corollary 3.3).
        """
        precision = math.fsum(1 / multiplier / multiplier for multiplier in noise_multipliers)
        if precision == 0:
            return 0.0
        return float(_gaussian().get_epsilon_gaussian(precision**-0.5, self.budget.delta))


def add_noise(
    answer: Answer,
    reference: Arrays,
    *,
    clip: float,
    noise_multiplier: float,
    sites: int,
    noise: Noise | None = None,
) -> Answer:
    """Return the answer as it may enter a secure sum: of limited length, and with this site's share of the noise.

    Args:
        answer: What the site has to say.
        reference: The arrays of its task; the change from those of the same name and shape is what is limited.
        clip: The length.
        noise_multiplier: The standard deviation of the noise in the whole sum, over `clip`.
        sites: How many sites add their share, at least.
        noise: For tests; the system's generator for keys otherwise.
    """
    if answer.weight != 1:
        raise FeddagError(
            f"Differential privacy needs sites of equal weight, and this one weighs {answer.weight:g}. "
            "Set weighting='equal', or choose a method that does not weigh by rows."
        )
    constraints.check(
        {"clip": clip, "noise_multiplier": noise_multiplier, "sites": sites},
        {"clip": constraints.positive, "noise_multiplier": constraints.positive, "sites": constraints.whole(1)},
    )
    centres = {
        name: reference[name].astype(np.float64)
        if name in reference and reference[name].shape == array.shape
        else np.zeros(array.shape)
        for name, array in answer.arrays.items()
    }
    changes = {name: array - centres[name] for name, array in answer.arrays.items()}
    length = math.sqrt(math.fsum(float(np.sum(change**2)) for change in changes.values()))
    if not math.isfinite(length):
        raise FeddagError("An answer has a value that is no finite number. Bring the columns to comparable scales.")
    factor = min(1.0, clip / length) if length > 0 else 1.0
    step = noise_multiplier * clip / math.sqrt(sites) / _STEPS
    draw = noise or system_noise
    arrays = {}
    for name, change in changes.items():
        own_noise = np.rint(_STEPS * draw(change.size)).reshape(change.shape)
        steps = np.trunc(factor * change / step) + own_noise
        dtype = answer.arrays[name].dtype
        arrays[name] = np.asarray(centres[name] + step * steps, dtype=dtype if dtype.kind == "f" else np.float64)
    return Answer(1.0, arrays)


def system_noise(size: int) -> Float[np.ndarray, " number"]:
    """Draw from the system's generator for keys, which nobody can foresee or reconstruct."""
    return discrete_gaussian.system_noise(size, _STEPS) / _STEPS


@dataclass
class PrivateSite:
    """A site whose every answer has its noise, and is accounted for. Satisfies `feddag.federation.Site`."""

    site: Site
    accountant: Accountant
    clip: float
    noise_multiplier: float
    sites: int
    """How many add their share of the noise, at least."""
    noise: Noise | None = None

    @property
    def name(self) -> str:
        """The site's name."""
        return self.site.name

    def answer(self, task: Task) -> Answer:
        """Account for an answer, then give it with its noise."""
        self.accountant.spend(self.noise_multiplier)
        return add_noise(
            self.site.answer(task),
            task.arrays,
            clip=self.clip,
            noise_multiplier=self.noise_multiplier,
            sites=self.sites,
            noise=self.noise,
        )

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the site's state."""
        return self.site.snapshot()

    def restore(self, state: Arrays) -> None:
        """Take up the site's state."""
        self.site.restore(state)


def _read(path: Path) -> list[float]:
    try:
        multipliers = json.loads(path.read_bytes())["noise_multipliers"]
        for multiplier in multipliers:
            constraints.check({"noise_multiplier": multiplier}, {"noise_multiplier": constraints.positive})
        return list(map(float, multipliers))
    except FileNotFoundError:
        return []
    except (KeyError, TypeError, ValueError) as error:
        raise FeddagError(
            f"{path} does not say what was spent of the privacy budget ({error}). Restore it from a copy."
        ) from None


def _gaussian():
    return imported("dp_accounting", "flare", "Differential privacy needs dp-accounting").gaussian_mechanism
