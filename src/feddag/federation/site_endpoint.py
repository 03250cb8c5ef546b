"""A site's side of a federation on a network: it answers the tasks of the study it agreed to, and nothing else.

It knows nothing of how messages travel. An engine hands it requests by name, and carries its replies back.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from feddag import constraints
from feddag.errors import FeddagError
from feddag.federation.arrays import prefixed, under
from feddag.federation.audit import AuditLog, Direction
from feddag.federation.checkpoint import load_checkpoint, not_kept, save_checkpoint
from feddag.federation.policy import Policy
from feddag.federation.protection import PLAIN, PROTECTING, SECURE_SUM
from feddag.federation.protocol import Arrays, Site, Task
from feddag.federation.secure import Message, SecureSite, from_text, public_identity, to_text
from feddag.federation.tasks import TaskSpec, find_task
from feddag.federation.terms import IDENTITY_BYTES, StudyTerms
from feddag.federation.wire import decode_answer, decode_task, encode_answer
from feddag.files import atomic_write

_STATE, _LOG, _SECURE, _IDENTITY = "site.npz", "audit.jsonl", "secure-sum.json", "identity.key"

_MOST_WORDS = 500
"""Characters of what a server may have a site say in its own terminal."""


@dataclass
class _Memory:
    """What a site remembers of the last task, and what it must have been before."""

    round: int = -1
    name: str = ""
    task: str = ""
    """The digest of what was asked."""
    answered: int = 0
    before: Arrays = field(default_factory=dict)
    after: Arrays = field(default_factory=dict)
    answer: bytes = b""

    def document(self) -> dict[str, Any]:
        return {"round": self.round, "name": self.name, "task": self.task, "answered": self.answered}

    def arrays(self) -> dict[str, np.ndarray]:
        answer = np.frombuffer(self.answer, dtype=np.uint8)
        return {"answer": answer, **prefixed("before", self.before), **prefixed("after", self.after)}

    @classmethod
    def of(cls, document: Mapping[str, Any], arrays: Arrays) -> _Memory:
        return cls(
            **document,
            answer=arrays["answer"].tobytes(),
            before=under("before", arrays),
            after=under("after", arrays),
        )


class SiteEndpoint:
    """One site of one study, with all that it must remember in a folder of its own.

    After every task it keeps its state, the state before, and its answer: a server that lost a round asks for it again,
    and gets the same answer without the work being done twice.
    """

    def __init__(
        self,
        folder: Path,
        terms: StudyTerms,
        site: Site,
        *,
        tasks: Mapping[str, TaskSpec],
        rows: int,
        data: str,
        policy: Policy,
        report: Callable[[str], None],
    ) -> None:
        """Take part in a study, or take up what the folder keeps of it.

        Args:
            folder: What this site remembers of this study; its parent holds the site's identity, for all studies.
            terms: The study's terms.
            site: What works on the tasks.
            tasks: The study's tasks, by name.
            rows: The number of rows of the site's table.
            data: The digest of the table, which must not change while the study runs.
            policy: The site's own rules.
            report: Takes messages for the site's operator.
        """
        folder.mkdir(parents=True, exist_ok=True)
        policy.check_study(rows=rows, sites=len(terms.sites), protected=terms.secure_sum)
        self._path = folder / _STATE
        self._terms = terms
        self._name = site.name
        self._site = site
        self._tasks = tasks
        self._data = data
        self._policy = policy
        self._report = report
        self._log = AuditLog(audit_log(folder), terms.study, site.name)
        self._secure = _secure_site(folder, site.name, terms) if terms.secure_sum else None
        self._memory = _Memory(after=site.snapshot())
        self._busy = threading.Lock()
        if self._path.exists():
            self._take_up()

    def _take_up(self) -> None:
        document, arrays = load_checkpoint(self._path)
        if document.pop("data") != self._data:
            raise FeddagError(
                f"Site {self._name!r}: the data have changed since the study began. Restore them, or have a "
                "new study begun."
            )
        self._memory = _Memory.of(document, arrays)
        self._site.restore(self._memory.after)

    def reply(self, request: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked, or say in one line why not. Nothing else leaves this method."""
        try:
            if request == "ping":
                return {"busy": self._busy.locked()}
            if request not in _REQUESTS:
                raise FeddagError(f"there is no request {request!r}")
            with self._busy:
                return _REQUESTS[request](self, content)
        except FeddagError as error:
            message = str(error)
        except OSError as error:
            message = f"Site {self._name!r}: {not_kept(self._path.parent, error)}"
        except Exception as error:
            logging.getLogger(__name__).exception("%s failed", request)
            message = f"Site {self._name!r}: {request} failed ({type(error).__name__}); its log says more."
        self._report(message)
        return {"error": message}

    def _join(self, content: Mapping[str, Any]) -> dict[str, Any]:
        if content["study"] != self._terms.study:
            raise FeddagError(
                f"Site {self._name!r} has agreed to the study {self._terms.study[:12]}…, and the "
                f"server runs {content['study'][:12]}…. Give all the same study file."
            )
        self._report(f"takes part in the study {self._terms.study[:12]}…, {len(self._terms.sites)} sites")
        return {} if self._secure is None else {"advertisement": self._secure.advertise()}

    def _accept(self, content: Mapping[str, Any]) -> dict[str, Any]:
        self._protection().accept(content["roster"])
        return {}

    def _work(self, content: Mapping[str, Any]) -> dict[str, Any]:
        message, round_ = content["task"], content["round"]
        name, sites = self._name, len(self._terms.sites)
        if not constraints.is_whole(round_, 0):
            raise FeddagError(f"Site {name!r}: the server asks for a round that is no whole number.")
        task = decode_task(message)
        spec = find_task(name, task, self._tasks)
        spec.check_task(name, task, sites)
        self._policy.check_task(
            task.name,
            rounds_answered=self._memory.answered,
            sites=len(task.participants),
            protected=self._terms.secure_sum,
        )
        self._log.declare(spec)
        self._log.record("in", task.name, round_, task.arrays, message)
        answer = self._answer(spec, task, message, round_)
        if self._terms.sites.index(self._name) not in task.participants:
            return {}
        self._policy.check_answer(task.name, len(answer))
        if self._secure is not None:
            prepared = self._secure.prepare(content["opening"])
            self._log_protection("out", round_, prepared)
            return {"prepared": prepared}
        self._log_answer(answer, PLAIN, len(task.participants))
        return {"answer": answer}

    def _mask(self, content: Mapping[str, Any]) -> dict[str, Any]:
        relay, answer = content["relay"], self._memory.answer
        self._check_sites(list(relay["keys"]))
        self._log_protection("in", self._memory.round, relay)
        with kept_here(self._name, "mask its numbers", self._report):
            masked = self._protection().mask(relay, decode_answer(answer))
        self._log_answer(masked["vector"], SECURE_SUM, len(relay["keys"]))
        return {"masked": masked}

    def _confirm(self, content: Mapping[str, Any]) -> dict[str, Any]:
        confirmed = self._protection().confirm(content["survivors"])
        self._check_sites(confirmed["survivors"])
        self._log_protection("out", self._memory.round, confirmed)
        return {"confirmed": confirmed}

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

    def _check_sites(self, sites: Sequence[str]) -> None:
        """Whether the policy allows a sum of those that are really in it, whatever the server had announced."""
        self._policy.check_task(
            self._memory.name, rounds_answered=self._memory.answered - 1, sites=len(sites), protected=True
        )

    def _protection(self) -> SecureSite:
        if self._secure is None:
            raise FeddagError(f"Site {self._name!r}: the study has no secure sum, and the server asks for one.")
        return self._secure

    def _log_answer(self, sent: bytes, protection: str, sites: int) -> None:
        memory = self._memory
        arrays = decode_answer(memory.answer).arrays
        protection = " + ".join(filter(None, (protection, self._terms.noise)))
        self._log.record("out", memory.name, memory.round, arrays, sent, protection=protection, sites=sites)
        self._report(f"round {memory.round + 1}: {memory.name}, {len(sent):,} bytes sent ({protection})")

    def _log_protection(self, direction: Direction, round_: int, message: Message) -> None:
        self._log.record(direction, PROTECTING, round_, {}, to_text(message).encode(), protection=SECURE_SUM)

    def _answer(self, spec: TaskSpec, task: Task, message: bytes, round_: int) -> bytes:
        """Work on a task, unless it is the last one again."""
        memory, digest = self._memory, hashlib.sha256(message).hexdigest()
        if (memory.round, memory.task) == (round_, digest):
            return memory.answer
        if round_ < memory.round:
            raise FeddagError(
                f"Site {self._name!r} has answered round {memory.round + 1}, and the server asks for round "
                f"{round_ + 1}. If this is no message that came late, it has lost its journal: start a new study."
            )
        before = memory.before if round_ == memory.round else memory.after
        self._site.restore(before)
        with kept_here(self._name, f"work on {task.name}", self._report):
            answer = self._site.answer(task)
        spec.check_answer(self._name, task, answer.arrays)
        _check_finite(self._name, task, answer.arrays)
        encoded = encode_answer(answer)
        memory = _Memory(round_, task.name, digest, memory.answered + 1, before, self._site.snapshot(), encoded)
        save_checkpoint(self._path, {"data": self._data, **memory.document()}, memory.arrays())
        self._memory = memory
        return encoded

    def close(self) -> None:
        """Close the audit log."""
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


@contextmanager
def kept_here(site: str, what: str, report: Callable[[str], None]) -> Iterator[None]:
    """Report an error, which may name a value, at the site alone; the server learns that there is one."""
    try:
        yield
    except FeddagError as error:
        report(str(error))
        raise FeddagError(f"Site {site!r} could not {what}. Its own log says why.") from None


def _check_finite(site: str, task: Task, arrays: Arrays) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FeddagError(
                f"Site {site!r}: its answer to {task.name} has values in {name!r} that are not finite. Bring its "
                "columns to comparable scales."
            )


def _secure_site(folder: Path, name: str, terms: StudyTerms) -> SecureSite:
    path = folder / _SECURE

    def keep(state: Message) -> None:
        with atomic_write(path) as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(to_text(state))

    state = from_text(path.read_text()) if path.exists() else None
    return SecureSite(name, terms, _own_identity(folder), keep=keep, state=state)


def identity(folder: Path) -> str:
    """Return the public identity of the site with this folder, in hexadecimal: what a study can pin."""
    return public_identity(_own_identity(folder)).hex()


def audit_log(folder: Path) -> Path:
    """Return the audit log of the site with this folder."""
    return folder / _LOG


def _own_identity(folder: Path) -> bytes:
    """Return the site's secret key, which is made here when it is first needed and never leaves."""
    path = folder.parent / _IDENTITY
    if not path.exists():
        with atomic_write(path, "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(os.urandom(IDENTITY_BYTES))
    return path.read_bytes()
