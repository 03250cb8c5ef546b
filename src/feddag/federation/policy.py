"""A site's own rules: what it is willing to disclose, whatever a study asks for.

The rules stand in a TOML file that only the site writes. They are held against the study before the site takes part,
and against every task before it is answered.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_IWGRP, S_IWOTH
from typing import Any, ClassVar, Self

from feddag import constraints
from feddag.errors import FeddagError, suggestion
from feddag.federation.row_privacy import CONSTRAINTS as ROW_PRIVACY
from feddag.federation.row_privacy import TOLERANCE, RowPrivacy, epsilon_for

STUDIES = ("ask", "listed", "any")
"""What a site may do about a study that did not come with its kit."""
SHARING = ("graph", "moments", "all", "none")
"""What the sites of a study may share, by the name that a policy gives it."""


def _patterns(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(pattern, str) for pattern in value)


def _sharing(value: Any) -> bool:
    return _patterns(value) and set(value) <= set(SHARING)


@dataclass(frozen=True)
class Policy:
    """Rules, each with its default. `check_study`, `check_task` and `check_answer` raise where one is broken."""

    tasks: tuple[str, ...] = ("*",)
    """Names of tasks that are answered, or patterns such as `search.*`."""
    minimum_rows: int = 10
    minimum_cell: int = 5
    """The fewest rows of a level that any row has."""
    minimum_sites: int = 3
    """The fewest sites that enter a sum."""
    unprotected_sums: bool = False
    """Whether the server may see the site's answers before they are summed."""
    sharing: tuple[str, ...] = ("graph", "moments", "none")
    """What the sites of a study may share: some of `SHARING`."""
    maximum_numbers_per_value: float | None = 10.0
    """Numbers that leave in sums, for each value of the site's own table, in all its studies (`released_numbers`)."""
    row_epsilon: float = 10.0
    """What all releases of one table with privacy of rows may reveal of one person, at `row_delta` (`row_privacy`)."""
    row_delta: float = 1e-5
    maximum_rounds: int | None = None
    """Tasks that are answered in one study."""
    maximum_answer_bytes: int | None = None
    studies: str = "ask"
    """Whether the site takes part by itself in a study that did not come with its kit: one of `STUDIES`."""
    maximum_refusals: int = 50
    """In one study; then nothing more is answered."""
    source: str = "the default policy"
    """Where the rules stand, for messages."""

    rules: ClassVar[Mapping[str, constraints.Constraint]] = {
        "tasks": constraints.Constraint('a list of names or patterns, such as ["search.*"]', _patterns),
        "minimum_rows": constraints.whole(1),
        "minimum_cell": constraints.whole(1),
        "minimum_sites": constraints.whole(1),
        "unprotected_sums": constraints.Constraint("true or false", lambda value: isinstance(value, bool)),
        "sharing": constraints.Constraint(f"a list of some of {', '.join(map(repr, SHARING))}", _sharing),
        "maximum_numbers_per_value": constraints.positive | constraints.none,
        "row_epsilon": ROW_PRIVACY["epsilon"],
        "row_delta": ROW_PRIVACY["delta"],
        "maximum_rounds": constraints.whole(1) | constraints.none,
        "maximum_answer_bytes": constraints.whole(1) | constraints.none,
        "studies": constraints.one_of(STUDIES),
        "maximum_refusals": constraints.whole(1),
    }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the rules of a file; those it does not name have their defaults."""
        path = Path(path)
        try:
            with path.open("rb") as stream:
                _check_that_others_cannot_write(path, os.fstat(stream.fileno()))
                rules = tomllib.load(stream)
        except FileNotFoundError:
            raise FeddagError(f"{path}: there is no such policy. Check the path.") from None
        except ValueError as error:  # of TOML, or of UTF-8
            if isinstance(error, FeddagError):
                raise
            raise FeddagError(f"{path} is not a policy: it is not TOML ({error}). Mend it.") from None
        return cls._checked(path, rules)

    @classmethod
    def _checked(cls, path: Path, rules: Mapping[str, Any]) -> Self:
        for rule, value in rules.items():
            if rule not in cls.rules:
                choices = f" Choose from {', '.join(cls.rules)}."
                raise FeddagError(f"{path}: there is no rule {rule!r}.{suggestion(rule, cls.rules, choices)}")
            if not cls.rules[rule].accepts(value):
                wording = cls.rules[rule].wording.removesuffix(" or None")
                raise FeddagError(f"{path}: {constraints.refusal(rule, wording, value)}")
        lists = {rule: tuple(value) for rule, value in rules.items() if isinstance(value, list)}
        return cls(**{**rules, **lists}, source=str(path))

    def check_names(self, tasks: Iterable[str]) -> None:
        """Refuse a pattern that matches none of the tasks that this installation knows."""
        known = dict.fromkeys(tasks)
        for pattern in self.tasks:
            if not any(fnmatchcase(task, pattern) for task in known):
                meant = suggestion(pattern, known, f" Choose from {', '.join(known)}.")
                raise FeddagError(f"{self.source}: tasks has {pattern!r}, which is not a task.{meant}")

    def check_tasks(self, tasks: Iterable[str]) -> None:
        """Refuse to take part in a study that asks what the site does not answer."""
        if forbidden := self.forbidden(tasks):
            asked = ", ".join(map(repr, forbidden))
            raise self._refusal("tasks", f"the study asks for {asked}", "Have the study ask less")

    def forbidden(self, tasks: Iterable[str]) -> list[str]:
        """Return those tasks that the site does not answer."""
        return [task for task in tasks if not any(fnmatchcase(task, pattern) for pattern in self.tasks)]

    def check_study(self, *, rows: int, sites: int, protected: bool) -> None:
        """Refuse to take part in a study of so many sites, with so many rows of one's own."""
        if rows < self.minimum_rows:
            raise self._refusal("minimum_rows", f"the site's table has {rows}", "Take part with more rows")
        self._check_sum(sites, protected)

    def check_cell(self, rows: int, found: str, remedy: str) -> None:
        """Refuse to answer about so few rows; `found` and `remedy` say which they are, and how to have more."""
        if rows < self.minimum_cell:
            raise self._refusal("minimum_cell", found, remedy)

    def check_sharing(self, sharing: str) -> None:
        """Refuse to take part in a study whose method shares more than the site allows."""
        if sharing not in self.sharing:
            remedy = 'Have the study share less, such as by sharing = "graph"'
            raise self._refusal("sharing", f"the study's method shares {sharing!r}", remedy)

    def check_row_privacy(self, privacy: RowPrivacy) -> None:
        """Refuse to take part in a study whose release alone reveals more of one person than the site allows."""
        together = epsilon_for(privacy.multiplier, self.row_delta)
        if together > self.row_epsilon * TOLERANCE:
            found = f"the study releases within {privacy}, which is ε={together:.4g} at row_delta = {self.row_delta:g}"
            raise self._refusal("row_epsilon", found, "Agree on a study with a smaller ε")

    def check_task(self, task: str, *, rounds_answered: int, sites: int, protected: bool) -> None:
        """Refuse to answer a task, whose answer is to enter a sum of so many sites."""
        if self.forbidden([task]):
            raise self._refusal("tasks", f"the study asks for {task!r}", "Choose another method")
        if self.maximum_rounds is not None and rounds_answered >= self.maximum_rounds:
            raise self._refusal("maximum_rounds", f"the site has answered {rounds_answered}", "End the study here")
        self._check_sum(sites, protected)

    def check_answer(self, task: str, size: int) -> None:
        """Refuse to send so many bytes."""
        if self.maximum_answer_bytes is not None and size > self.maximum_answer_bytes:
            found = f"the answer to {task!r} has {size}"
            raise self._refusal("maximum_answer_bytes", found, "Choose another method, or fewer variables")

    def _check_sum(self, sites: int, protected: bool) -> None:
        if not protected and not self.unprotected_sums:
            found = "the server would see this site's answers before they are summed"
            raise self._refusal("unprotected_sums", found, "Have the study protect its sums")
        if sites < self.minimum_sites:
            raise self._refusal("minimum_sites", f"the sum is of {sites}", "Wait for more sites")

    def _refusal(self, rule: str, found: str, remedy: str) -> FeddagError:
        value = getattr(self, rule)
        rendered = (
            str(value).lower() if isinstance(value, bool) else str(list(value) if isinstance(value, tuple) else value)
        )
        return FeddagError(
            f"Refused by {self.source}: {rule} = {rendered}, but {found}. {remedy}, or change the rule at the site."
        )


def _check_that_others_cannot_write(path: Path, status: os.stat_result) -> None:
    if os.name != "posix":
        return
    if status.st_mode & (S_IWGRP | S_IWOTH):
        raise FeddagError(
            f"{path}: others than its owner may write this policy. Type: chmod go-w {shlex.quote(str(path))}"
        )
    if status.st_uid not in {0, os.getuid()}:
        raise FeddagError(
            f"{path}: this policy belongs to another user (number {status.st_uid}). Copy it to a file of your own."
        )
