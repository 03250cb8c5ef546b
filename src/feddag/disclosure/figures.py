"""What a study releases about one table, in figures, and the plain sentence of each."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

from scipy.stats import norm

from feddag.disclosure.attack import FALSE_ALARMS, HiddenValue, Membership
from feddag.errors import FeddagError
from feddag.federation.row_privacy import multiplier_for


class Figure(NamedTuple):
    """One figure, for people."""

    name: str
    value: str
    sentence: str


@dataclass(frozen=True)
class Replay:
    """On what the figures about single rows rest."""

    rows: int
    """The rows of each made-up table."""
    tables: int
    """How many tables answered the study's questions."""
    seed: int
    rounds: int
    """How many of the study's rounds these are: all of them, or the first."""


@dataclass(frozen=True)
class Disclosure:
    """What a study releases about one table; `None` where it is not known."""

    study: str
    """The study's digest."""
    site: str
    sites: int
    rounds: int
    """The rounds that the numbers below count."""
    numbers: int
    """The numbers that leave the sites, as sums over sites; a sum that is asked for again counts once."""
    fewest_sites: int
    """The fewest sites that any difference, or other combination, of sums is about."""
    protected: bool
    """Whether the server sees sums only."""
    noise: bool
    """Whether the study adds noise (differential privacy), which the figures leave out."""
    row_epsilon: float | None = None
    """The ε that a single release keeps for every person, at `row_delta`; `None` without privacy of rows."""
    row_delta: float | None = None
    every_round: bool = True
    """Whether `rounds` and `numbers` are those of the whole study, not of its first rounds."""
    took_place: bool = False
    """Whether this is from the log of a study, not from a replay before it."""
    table: str | None = None
    """The table's digest."""
    rows: int | None = None
    variables: int | None = None
    fewest_rows: int | None = None
    """The fewest rows in any cell: with a level of a discrete variable, or with a pair of levels of two."""
    minimum_cell: int | None = None
    """The fewest rows of a cell that the site's policy lets an answer tell apart."""
    membership: Membership | None = None
    hidden_value: HiddenValue | None = None
    replay: Replay | None = None

    @property
    def numbers_per_value(self) -> float | None:
        """The numbers for each value of the table."""
        values = (self.rows or 0) * (self.variables or 0)
        return self.numbers / values if values else None

    def to_json(self) -> str:
        """Return the figures and their sentences as JSON."""
        sentences = {"figures": [figure._asdict() for figure in figures(self)]}
        return json.dumps({**asdict(self), **sentences}, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` returns."""
        try:
            document: dict[str, Any] = json.loads(text)
            document.pop("figures", None)
            for name, kind in (("membership", Membership), ("hidden_value", HiddenValue), ("replay", Replay)):
                if document[name] is not None:
                    document[name] = kind(**document[name])
            return cls(**document)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FeddagError(
                f"This is no disclosure as feddag writes it ({error}). Write it again: feddag disclosure"
            ) from None


def figures(found: Disclosure) -> list[Figure]:
    """Return the figures, each with a sentence. Those that are not known are left out."""
    guarantee = [] if found.row_epsilon is None or found.row_delta is None else [_guarantee(*_row_privacy(found))]
    return [
        _numbers(found),
        _fewest(found),
        *guarantee,
        *([] if found.membership is None else [_membership(found, found.membership)]),
        *([] if found.hidden_value is None else [_hidden_value(found, found.hidden_value)]),
        _lying_server(found),
    ]


def _numbers(found: Disclosure) -> Figure:
    per_value = found.numbers_per_value
    verb, rounds = ("have left" if found.took_place else "leave"), _count(found.rounds, "round")
    about = "" if found.took_place else "about "
    sentence = f"{about}{found.numbers:,} numbers {verb} the sites in {rounds}, each a sum over sites"
    if found.rows and found.variables:
        values = found.rows * found.variables
        sentence += f"; this table has {values:,} values ({found.rows:,} rows of {found.variables} variables)"
    sentence = sentence[0].upper() + sentence[1:] + "."
    if not found.every_round:
        each = round(found.numbers / max(found.rounds, 1))
        sentence += f" The study has more rounds than these: every further round releases about {each:,} more."
    value = f"{found.numbers:,}" if per_value is None else f"{per_value:.2g}"
    return Figure("Numbers per value" if per_value is not None else "Numbers", value, sentence)


def _fewest(found: Disclosure) -> Figure:
    sites = _count(found.fewest_sites, "site")
    if found.fewest_sites == 1:
        about = "Some combination of the sums is about one site alone"
    else:
        about = f"Any sum, and any difference of sums, is about at least {found.fewest_sites} of {found.sites} sites"
    if found.fewest_rows is None:
        return Figure("Fewest sites", sites, f"{about}.")
    rows = _count(found.fewest_rows, "row")
    if found.fewest_rows == found.rows:
        cell = "No variable has levels that could be rare."
    else:
        cell = f"At this site, the rarest level or pair of levels has {rows}."
        if found.minimum_cell is not None and found.fewest_rows < found.minimum_cell:
            cell += f" No answer tells levels or pairs of fewer than {found.minimum_cell} rows apart."
    return Figure("Fewest sites, fewest rows", f"{sites}, {rows}", f"{about}. {cell}")


def _row_privacy(found: Disclosure) -> tuple[float, float]:
    return float(found.row_epsilon or 0), float(found.row_delta or 0)


def _guarantee(epsilon: float, delta: float) -> Figure:
    most = math.ceil(100 * norm.cdf(1 / multiplier_for(epsilon, delta) / math.sqrt(2))) / 100
    sentence = (
        f"Whatever anyone concludes about a person from all that leaves the sites, and from the result, would be as "
        f"likely without this person's rows, up to a factor of {math.exp(epsilon):.3g} and but for a probability of "
        f"{delta:g}. No attack, whatever else it knows, can tell who is in a table with an AUC above {most:.2f}."
    )
    return Figure("Privacy of a person", f"ε={epsilon:g}, δ={delta:g}", sentence)


def _membership(found: Disclosure, membership: Membership) -> Figure:
    knows = "has all sums and knows one whole row"
    if found.row_epsilon is not None:
        knows = "has the noisy release, and knows one whole row and every other row of all sites,"
    sentence = (
        f"Whoever {knows} tells whether it is in a table with an AUC of "
        f"{membership.auc:.2f} (0.5 is guessing, 1 is certainty); at {FALSE_ALARMS:.0%} false alarms they find "
        f"{membership.true_positives:.0%} of the rows."
    )
    value = f"AUC {membership.auc:.2f}, {membership.true_positives:.0%} found"
    return Figure("Membership of a row", value, sentence + _replayed(found))


def _hidden_value(found: Disclosure, hidden: HiddenValue) -> Figure:
    sentence = (
        f"Whoever has all sums and knows a row but for one value guesses that value to {hidden.error:.2f} standard "
        f"deviations; for rows that are in no table, to {hidden.others:.2f}."
    )
    return Figure("A hidden value", f"{hidden.error:.2f} against {hidden.others:.2f} sd", sentence + _replayed(found))


def _replayed(found: Disclosure) -> str:
    replay = found.replay
    if replay is None:
        return ""
    parts = [f" Measured on {found.sites} made-up tables of {replay.rows:,} rows like this one"]
    if found.rows is not None and replay.rows < found.rows:
        parts.append(f"; with this table's {found.rows:,} rows the sums tell less")
    if not found.every_round or replay.rounds < found.rounds:
        parts.append(f"; the first {replay.rounds} rounds alone")
    if found.noise:
        parts.append("; without the noise that the study adds, with which they tell less")
    return "".join(parts) + "."


def _lying_server(found: Disclosure) -> Figure:
    name = "A lying server adds"
    if found.protected:
        sentence = (
            "A site answers only the question that the study's own method asks next, and checks every sum that it is "
            "told, so that a server that lies, with no site at its side, stops the study and learns no more than an "
            "honest one."
        )
        return Figure(name, "nothing", sentence)
    sentence = (
        "The study does not protect its sums (secure_sum = false): the server sees this site's own numbers before they "
        "are summed, and since sites cannot check the sums that it reports, false ones can steer what is asked next."
    )
    return Figure(name, "this site's own numbers", sentence)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
