"""The figures of a study that has taken place, from a site's own audit log."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from feddag.disclosure.disclose import Progress, attack_course, fewest_rows
from feddag.disclosure.figures import Disclosure
from feddag.disclosure.replay import OF_REPLICATES, ROUNDS_WITH_STATE, Course, keeps_state
from feddag.errors import FeddagError
from feddag.federation.audit import read_entries, read_in_full, verify
from feddag.federation.protection import PROTECTING, SECURE_SUM
from feddag.federation.protocol import Task
from feddag.federation.rosters import fewest_sites
from feddag.federation.wire import decode_task
from feddag.silos import Silo
from feddag.study import Study


def disclosed(log: str | os.PathLike[str]) -> Disclosure:
    """Read what has left a site from its audit log, once its chain is checked.

    Raises:
        FeddagError: If the log is not as it was written, or nothing has left the site.
    """
    path = Path(log)
    summary = verify(path)
    entries = read_entries(path)
    # one that was sent again counts once
    answers = {(entry["task"], entry["round"]): entry for entry in entries if _is_answer(entry)}
    if not answers:
        raise FeddagError(f"{path}: no answer has left the site yet. Ask again after the study.")
    sent = list(answers.values())
    return Disclosure(
        study=summary.study,
        site=summary.site,
        sites=max(int(entry["sites"]) for entry in sent),
        rounds=len(sent),
        numbers=sum(_size(entry["arrays"]) for entry in sent),
        fewest_sites=fewest_sites(_rosters(entries)) if _protected(sent) else 1,
        protected=_protected(sent),
        noise=any("+ dp(" in entry["protection"] for entry in sent),
        took_place=True,
    )


def with_table(found: Disclosure, silo: Silo) -> Disclosure:
    """Add what depends on the table, which no log holds."""
    rows, variables = silo.rows, len(silo.columns)
    return replace(found, table=silo.digest(), rows=rows, variables=variables, fewest_rows=fewest_rows(silo))


def disclose_log(
    log: str | os.PathLike[str],
    study: Study,
    silo: Silo,
    *,
    seed: int = 1,
    share: float = 1.0,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> Disclosure:
    """Measure what a study has released about a table: the questions in the log are asked of made-up tables.

    Args:
        log: The site's audit log of the study.
        study: The study.
        silo: The site's table.
        seed: As in `disclose`, which has the same figures before a study; likewise the arguments that follow.
        share: See there.
        jobs: See there.
        progress: See there.
    """
    path, found = Path(log), with_table(disclosed(log), silo)
    if study.digest != found.study:
        raise FeddagError(
            f"{path} is of the study {found.study[:12]}…, and {study.source} is {study.digest[:12]}…. Give the study "
            "of the log."
        )
    rows = study.privacy.rows
    if rows is not None:
        found = replace(found, row_epsilon=rows.epsilon, row_delta=rows.delta)
    tasks = _questions(path)
    finished = len(tasks) == found.rounds
    if keeps_state(study, silo):
        finished = finished and len(tasks) <= ROUNDS_WITH_STATE
        tasks = tasks[:ROUNDS_WITH_STATE]
    tasks = [task for task in tasks if task.name not in OF_REPLICATES]
    course = Course(study, tuple(tasks), found.numbers, found.rounds, finished)
    return attack_course(found, course, silo, seed=seed, share=share, jobs=jobs, progress=progress)


def _questions(path: Path) -> list[Task]:
    """Return what the site has answered, in the order of rounds."""
    asked: dict[int, Task] = {}
    answered: dict[int, Task] = {}
    for line, entry in enumerate(read_entries(path), start=1):
        if entry["event"] == "message" and "decisions" in entry:
            asked[entry["round"]] = decode_task(read_in_full(path, line, entry))
        elif _is_answer(entry) and entry["round"] in asked:
            answered[entry["round"]] = asked[entry["round"]]
    return [answered[round_] for round_ in sorted(answered)]


def _is_answer(entry: Mapping[str, Any]) -> bool:
    return entry["event"] == "message" and entry["direction"] == "out" and entry["task"] != PROTECTING


def _rosters(entries: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return who was in each sum."""
    return [entry["members"] for entry in entries if entry["event"] == "sum"]


def _size(arrays: Mapping[str, list[Any]]) -> int:
    return sum(prod(map(int, shape)) for _, *shape in arrays.values())


def _protected(entries: Collection[Mapping[str, Any]]) -> bool:
    return all(entry["protection"].startswith(SECURE_SUM) for entry in entries)
