"""A site's side of a federation on a network: it answers the tasks of the study it agreed to, and nothing else.

It knows nothing of how messages travel. An engine hands it requests by name, and carries its replies back.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.audit import AuditLog, Direction
from feddag.federation.checkpoint import not_kept, save_checkpoint
from feddag.federation.course import Course, Learn, same_question
from feddag.federation.identities import SiteIdentity
from feddag.federation.last_answer import STATE, LastAnswer, read_last_answer
from feddag.federation.policy import Policy
from feddag.federation.protection import PLAIN, PROTECTING, SECURE_SUM
from feddag.federation.protocol import Arrays, Site, Task
from feddag.federation.refusals import Refusal, RefusalCount, RefusedError
from feddag.federation.rosters import Split
from feddag.federation.row_privacy import RowPrivacy, row_ledgers
from feddag.federation.secure import Message, SecureSite, from_text, to_text
from feddag.federation.steps import SUM, Step, read_decisions
from feddag.federation.tables import TableMemory
from feddag.federation.tasks import TaskSpec, find_task
from feddag.federation.terms import StudyTerms
from feddag.federation.wire import decode_answer, decode_task, encode_answer
from feddag.files import atomic_write
from feddag.silos import Silo

_LOG, _SECURE = "audit.jsonl", "secure-sum.json"
_COURSE, _REFUSALS = "course", "refusals.json"

_MOST_WORDS = 500
"""Characters of what a server may have a site say in its own terminal."""


class SiteEndpoint:
    """One site of one study, with all that it must remember in a folder of its own.

    It follows the study's learner on the sums that it is shown, and answers what this learner asks next and nothing
    else.

    After every task it keeps its state, the state before, and its answer: a server that lost a round asks for it again,
    and gets the same answer without the work being done twice.
    """

    def __init__(
        self,
        folder: Path,
        terms: StudyTerms,
        site: Site,
        *,
        identity: SiteIdentity,
        tasks: Mapping[str, TaskSpec],
        learn: Learn,
        silo: Silo,
        tables: Path,
        policy: Policy,
        report: Callable[[str], None],
    ) -> None:
        """Take part in a study, or take up what the folder keeps of it.

        Args:
            folder: What this site remembers of this study.
            terms: The study's terms.
            site: What works on the tasks.
            identity: What the site signs its part of secure sums with, and whom it believes.
            tasks: The study's tasks, by name.
            learn: Runs the study's learner, and its checks.
            silo: The site's table, which must not change while the study runs.
            tables: What the site remembers of its tables, over all studies.
            policy: The site's own rules.
            report: Takes messages for the site's operator.
        """
        folder.mkdir(parents=True, exist_ok=True)
        policy.check_study(rows=silo.rows, sites=len(terms.sites), protected=terms.secure_sum)
        if silo.rows > terms.maximum_rows:
            raise FeddagError(
                f"Site {site.name!r}: the table has {silo.rows} rows, and the study's federation.maximum_rows is "
                f"{terms.maximum_rows:g}. Agree on a study with a larger one."
            )
        self._path = folder / STATE
        self._terms = terms
        self._name = site.name
        self._site = site
        self._tasks = tasks
        self._data = silo.digest()
        self._policy = policy
        self._report = report
        self._log = AuditLog(audit_log(folder), terms.study, site.name)
        self._secure = _secure_site(folder, site.name, terms, identity) if terms.secure_sum else None
        limit, cell = policy.maximum_numbers_per_value, policy.minimum_cell
        # before other studies of the table are looked at: it knows best what has changed
        kept = read_last_answer(folder, silo, terms.study)
        compared = terms.experiments if terms.secure_sum and policy.minimum_sites > 1 else {}
        self._table = TableMemory(tables, silo, limit=limit, minimum_cell=cell, experiments=compared)
        budget, known = RowPrivacy(policy.row_epsilon, policy.row_delta), self._table.folders
        self._row_ledgers = row_ledgers(folder, tables, known, site.name, budget) if terms.row_privacy else []
        self._course = Course(folder / _COURSE, terms, learn)
        self._refusals = RefusalCount(folder / _REFUSALS)
        self._memory = LastAnswer(after=site.snapshot())
        self._busy = threading.Lock()
        if kept is not None:
            self._memory = kept
            self._site.restore(kept.after)

    def reply(self, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked, or give one of a few reasons why not. Nothing else leaves this method."""
        try:
            if request == "ping":
                return {"busy": self._busy.locked()}
            if request not in _REQUESTS:
                raise RefusedError(Refusal.PROTOCOL, f"There is no request {shown(request)}.")
            self._refusals.check(self._name, self._policy.maximum_refusals)
            with self._busy:
                return _REQUESTS[request](self, content)
        except RefusedError as error:
            message, reason = str(error), error.reason
        except FeddagError as error:
            message, reason = str(error), Refusal.PROTOCOL if request in _OF_THE_SUM else Refusal.DECLINED
        except (KeyError, TypeError, AttributeError) as error:  # a message without what it must hold
            logging.getLogger(__name__).exception("%s failed", request)
            message, reason = f"{request} is not as it must be ({type(error).__name__}: {error})", Refusal.PROTOCOL
        except OSError as error:
            message, reason = str(not_kept(self._path.parent, error)), Refusal.DECLINED
        except Exception as error:
            logging.getLogger(__name__).exception("%s failed", request)
            message, reason = f"{request} failed ({type(error).__name__}); the log says more.", Refusal.DECLINED
        self._report(f"refused ({reason.word}): {message}")
        with suppress(OSError):
            self._refusals.add()
            if self._refusals.count <= self._policy.maximum_refusals:  # else a server could fill the disk
                self._log.record_refusal(request if request in _REQUESTS else "unknown", reason.word)
        return {"refusal": reason.word}

    def _join(self, content: Mapping[str, Any]) -> dict[str, Any]:
        if content["study"] != self._terms.study:
            raise RefusedError(
                Refusal.STUDY,
                f"Site {self._name!r} has agreed to the study {self._terms.study[:12]}…, and the server runs "
                f"{str(content['study'])[:12]}…. Give all the same study file.",
            )
        self._report(f"takes part in the study {self._terms.study[:12]}…, {len(self._terms.sites)} sites")
        advertisement = {} if self._secure is None else {"advertisement": self._secure.advertise()}
        return {"rounds": self._course.rounds, **advertisement}

    def _accept(self, content: Mapping[str, Any]) -> dict[str, Any]:
        self._protection().accept(content["roster"])
        return {}

    def _work(self, content: Mapping[str, Any]) -> dict[str, Any]:
        message, round_, decisions = content["task"], content["round"], read_decisions(content["decisions"])
        task = decode_task(message)
        try:
            self._follow(content["course"])
        finally:
            self._log.record_question(task, round_, message, decisions)
        question = self._check_question(task, message, round_, decisions)
        name, sites = self._name, len(self._terms.sites)
        spec = find_task(name, task, self._tasks)
        spec.check_task(name, task, sites)
        for asked in spec.names(task):
            self._policy.check_task(
                asked,
                rounds_answered=self._memory.answered - (self._memory.round == round_),
                sites=_fewest(task.participants, spec.site_split(task)),
                protected=self._terms.secure_sum,
            )
        self._log.declare(spec)
        answer = self._answer(spec, task, question, round_)
        if self._terms.sites.index(self._name) not in task.participants:
            return {}
        self._policy.check_answer(task.name, len(answer))
        if self._secure is not None:
            if "opening" not in content:  # this sum does without the site
                return {}
            prepared = self._secure.prepare(
                content["opening"], question, audit=self._log.head, everyone=spec.every_site
            )
            self._log_protection("out", round_, prepared)
            return {"prepared": prepared}
        self._charge_numbers()
        self._log_answer(answer, PLAIN, len(task.participants))
        return {"answer": answer}

    def _follow(self, course: Mapping[str, Any]) -> None:
        """Take the steps of the study that this site does not know yet, each once it has been checked."""
        start = course["from"]
        for place, message in enumerate(course["steps"], start=start):
            if place < self._course.rounds:
                continue
            if place > self._course.rounds:
                raise RefusedError(Refusal.COURSE, f"The server shows round {place + 1}, and not the one before it.")
            step = Step.of(message)
            self._check_step(step)
            self._course.add(step)
            self._log.record_step(place, self._course.path(place), self._course.head.hex())

    def _check_step(self, step: Step) -> None:
        memory, round_ = self._memory, self._course.rounds
        if memory.round == round_ and memory.question != self._course.question(step.task, step.decisions).hex():
            raise RefusedError(Refusal.COURSE, f"The server shows round {round_ + 1} as one that asked something else.")
        if (self._secure is not None) != (step.result["kind"] == SUM):
            raise RefusedError(Refusal.COURSE, f"The server shows round {round_ + 1} without the sum's protection.")
        if self._secure is not None:
            if step.result["round"] != round_:
                raise RefusedError(Refusal.COURSE, f"The server shows another round's sum for round {round_ + 1}.")
            self._secure.check_sum(step.result)
            if self._name in step.members and not self._secure.stands_for(round_):
                # it is out, whatever we think
                self._table.enter(self._name, self._answer_digest(), step.members, 1, split=memory.split)

    def _check_question(self, task: Task, message: bytes, round_: Any, decisions: Mapping[str, bool]) -> bytes:
        """Refuse all but what the study's learner asks now; return the digest of the question."""
        if round_ != self._course.rounds:
            raise RefusedError(
                Refusal.COURSE,
                f"Site {self._name!r} knows {self._course.rounds} rounds of the study, and the server asks for what "
                f"follows {shown(round_)}. If this is no late message, it has lost its journal: begin anew, with "
                "feddag study anew.",
            )
        expected = self._course.expected(decisions)
        if not same_question(expected, message):
            raise RefusedError(
                Refusal.QUESTION,
                f"Site {self._name!r}: the server asks {task.name} in round {round_ + 1}, and the study's method would "
                f"ask {expected.name}{' with other contents' if expected.name == task.name else ''}. Look into the "
                "server, and use one version of feddag everywhere.",
            )
        question = self._course.question(hashlib.sha256(message).hexdigest(), decisions)
        again = self._memory.round == round_ and self._memory.question != question.hex()
        if again and self._secure is not None and self._secure.stands_for(round_):
            raise RefusedError(
                Refusal.QUESTION,
                f"Site {self._name!r} has helped to sum the answers of round {round_ + 1}, and the server words its "
                "question anew. One round has one sum.",
            )
        return question

    def _mask(self, content: Mapping[str, Any]) -> dict[str, Any]:
        relay, answer = content["relay"], self._memory.answer
        self._check_sum_of_last_answer()
        self._check_sites(list(relay["keys"]))
        self._log_protection("in", self._memory.round, relay)
        self._charge_numbers()
        masked = self._protection().mask(relay, decode_answer(answer))
        if self._protection().clamped:
            self._report(
                f"{self._protection().clamped} numbers of the answer to {self._memory.name} are too large for the sum, "
                "or no numbers: bring the columns to comparable scales. The sum will say that it is worthless"
            )
        self._log.record_heads({site: key["audit"] for site, key in relay["keys"].items() if site != self._name})
        self._log_answer(masked["vector"], SECURE_SUM, len(relay["keys"]))
        return {"masked": masked}

    def _confirm(self, content: Mapping[str, Any]) -> dict[str, Any]:
        confirmed = self._protection().confirm(content["survivors"], self._enter_sum)
        self._log.record_members(self._memory.round, confirmed["survivors"])
        self._log_protection("out", self._memory.round, confirmed)
        return {"confirmed": confirmed}

    def _charge_numbers(self) -> None:
        """Count the numbers of an answer before they leave; refuse them beyond what the policy allows."""
        numbers = sum(array.size for array in decode_answer(self._memory.answer).arrays.values())
        try:
            self._table.charge(self._answer_digest(), numbers)
            if self._terms.row_privacy is not None:
                share = self._tasks[self._memory.name].row_privacy
                for ledger in self._row_ledgers:
                    ledger.charge(self._answer_digest(), self._terms.study, self._terms.row_privacy, share)
        except FeddagError as error:
            raise RefusedError(Refusal.DECLINED, str(error)) from None

    def _answer_digest(self) -> str:
        """Identify the last answer; one of no weight, which is the same to many questions, by its question."""
        memory = self._memory
        counts = not memory.answer or decode_answer(memory.answer).weight > 0
        question = b"" if counts else bytes.fromhex(memory.question)
        return hashlib.sha256(memory.name.encode() + b"\0" + question + memory.answer).hexdigest()

    def _enter_sum(self, members: list[str]) -> None:
        """Refuse a sum of other sites than the policy, the task and all earlier sums of the table allow."""
        self._check_sum_of_last_answer()
        self._check_sites(members)
        if self._tasks[self._memory.name].every_site and len(members) < len(self._terms.sites):
            raise RefusedError(Refusal.ROSTER, f"A sum of {self._memory.name} must hold every site of the study.")
        fewest = max(self._policy.minimum_sites, self._terms.minimum_sites)
        self._table.enter(self._name, self._answer_digest(), members, fewest, self._course.rosters, self._memory.split)

    def _reveal(self, content: Mapping[str, Any]) -> dict[str, Any]:
        self._log_protection("in", self._memory.round, content["unmask"])
        revealed = self._protection().reveal(content["unmask"])
        self._log_protection("out", self._memory.round, revealed)
        return {"revealed": revealed}

    def _late(self, content: Mapping[str, Any]) -> dict[str, Any]:
        del content
        self._report(
            f"took longer than the {self._terms.timeout:g} seconds that the study allows for a task, so that the "
            "others went on without it; it takes part again now. Give it more of the machine, or the study more time"
        )
        return {}

    def _refused(self, content: Mapping[str, Any]) -> dict[str, Any]:
        reason = "".join(each for each in str(content["reason"])[:_MOST_WORDS] if each.isprintable())
        self._report(f"the server takes no more answers of this site: {reason}")
        return {}

    def _check_sum_of_last_answer(self) -> None:
        """Refuse to put the last answer into a sum that was opened for another question."""
        if self._protection().question.hex() != self._memory.question:
            raise RefusedError(Refusal.PROTOCOL, "The sum under way was opened for another question than the last one.")

    def _check_sites(self, sites: Sequence[str]) -> None:
        """Whether the policy allows a sum of those that are really in it, whatever the server had announced."""
        self._policy.check_task(
            self._memory.name,
            rounds_answered=self._memory.answered - 1,
            sites=_fewest(sites, self._memory.split),
            protected=True,
        )

    def _protection(self) -> SecureSite:
        if self._secure is None:
            raise FeddagError(f"Site {self._name!r}: the study has no secure sum, and the server asks for one.")
        return self._secure

    def _log_answer(self, sent: bytes, protection: str, sites: int) -> None:
        memory = self._memory
        arrays = decode_answer(memory.answer).arrays
        charged = (ledger.words for ledger in self._row_ledgers[1:])
        protection = " + ".join(filter(None, (protection, self._terms.noise, *charged)))
        self._log.record("out", memory.name, memory.round, arrays, sent, protection=protection, sites=sites)
        self._report(f"round {memory.round + 1}: {memory.name}, {len(sent):,} bytes sent ({protection})")

    def _log_protection(self, direction: Direction, round_: int, message: Message) -> None:
        self._log.record(direction, PROTECTING, round_, {}, to_text(message).encode(), protection=SECURE_SUM)

    def _answer(self, spec: TaskSpec, task: Task, question: bytes, round_: int) -> bytes:
        """Work on a task, unless it is the last one again."""
        memory = self._memory
        if (memory.round, memory.question) == (round_, question.hex()):
            return memory.answer
        before = memory.before if round_ == memory.round else memory.after
        self._site.restore(before)
        try:
            answer = self._site.answer(task)
        except (RefusedError, KeyError, TypeError, AttributeError) as error:
            # no fault of the message: that one reason leaves, and not another, must not depend on the rows
            raise RuntimeError(f"{task.name} failed") from error
        spec.check_answer(self._name, task, answer.arrays)
        for note in answer.notes:
            self._report(note)
        if self._secure is None:
            _check_finite(self._name, task, answer.arrays)
        else:
            answer = replace(answer, arrays={name: _finite(array) for name, array in answer.arrays.items()})
        encoded = encode_answer(answer)
        memory = LastAnswer(
            round=round_,
            name=task.name,
            question=question.hex(),
            answered=memory.answered + 1,
            split=self._of_study(spec.site_split(task)),
            before=before,
            after=self._site.snapshot(),
            answer=encoded,
        )
        save_checkpoint(self._path, {"data": self._data, **memory.document()}, memory.arrays())
        self._memory = memory
        return encoded

    def _of_study(self, split: Split | None) -> Split | None:
        """Tell groups of this study from those of others: what a method makes of the rows depends on the study."""
        return split and split._replace(key=f"{self._terms.study}/{split.key}")

    @property
    def numbers_per_value(self) -> float:
        """How many numbers have left this site's table, for each of its values."""
        return self._table.numbers_per_value

    def close(self) -> None:
        """Close the audit log, and follow the study no more."""
        self._course.close()
        self._log.close()


_REQUESTS: Mapping[str, Callable[[SiteEndpoint, Mapping[str, Any]], dict[str, Any]]] = {
    "join": SiteEndpoint._join,
    "accept": SiteEndpoint._accept,
    "work": SiteEndpoint._work,
    "mask": SiteEndpoint._mask,
    "confirm": SiteEndpoint._confirm,
    "reveal": SiteEndpoint._reveal,
    "late": SiteEndpoint._late,
    "refused": SiteEndpoint._refused,
}
"""All that a server can ask for, besides a sign of life."""

_OF_THE_SUM = ("accept", "mask", "confirm", "reveal")
"""Requests whose messages other participants have made."""


def _fewest(sites: Sequence[object], split: Split | None) -> int:
    """Return how many sites a sum is about: of two groups, the smaller one."""
    return len(sites) if split is None else min(split.sizes)


def _finite(array: np.ndarray) -> np.ndarray:
    """Turn what is no number into one that is too large: a secure sum clamps and counts it, and nobody sees whose."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array
    largest = np.finfo(array.dtype).max
    return np.nan_to_num(array, nan=largest, posinf=largest, neginf=-largest)


def _check_finite(site: str, task: Task, arrays: Arrays) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FeddagError(
                f"Site {site!r}: its answer to {task.name} has values in {name!r} that are not finite. Bring its "
                "columns to comparable scales."
            )


def _secure_site(folder: Path, name: str, terms: StudyTerms, identity: SiteIdentity) -> SecureSite:
    path = folder / _SECURE

    def keep(state: Message) -> None:
        with atomic_write(path) as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(to_text(state))

    state = from_text(path.read_text()) if path.exists() else None
    return SecureSite(name, terms, identity, keep=keep, state=state)


def audit_log(folder: Path) -> Path:
    """Return the audit log of the site with this folder."""
    return folder / _LOG
