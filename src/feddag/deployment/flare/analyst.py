"""The analyst's side: have the server run the study, follow it, take it up again after any mishap, bring the result.

A study is a chain of jobs. A job's sites are fixed, so that one which comes back after it was lost enters with the next
job; since the server keeps a journal, a new job goes on where the last one stood.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from feddag.deployment.engine import Standing
from feddag.deployment.flare.extra import flare
from feddag.deployment.flare.job import OUTCOME, PROGRESS, RESULT, write_job
from feddag.deployment.flare.kits import Kit
from feddag.deployment.flare.proxied import use_proxy
from feddag.deployment.offers import to_offer
from feddag.deployment.proxy import Proxy
from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint
from feddag.files import atomic_write
from feddag.learners.base import Learner
from feddag.learners.status import Progress, Status
from feddag.study import Study
from feddag.trust.graph_checks import GraphChecks

_POLL = 1.0
"""Seconds between two looks at the job."""
_GATHERING = 20.0
"""Seconds to wait for further sites once there are enough."""
_REJOIN_AFTER = 5.0
"""Seconds that a lost site must be back before the study is interrupted for it."""
_START = 120.0
"""Seconds in which a job's sites must have started."""
_MOST_LOSSES = 5
"""Jobs in a row that end without a word before the study is given up."""


@dataclass(frozen=True)
class _Outcome:
    """How a job ended."""

    status: str
    message: str
    learner: Learner | None = None
    absent: tuple[str, ...] = ()
    """Sites for lack of which it could not go on."""


class Analyst:
    """Runs one study through a server that its kit names."""

    def __init__(self, kit: Kit, study: Study, report: Callable[[str], None]) -> None:
        self._kit = kit
        self._study = study
        self._show = report
        self._messages: list[str] = []
        self._names = [site.name for site in study.sites]
        self._session: Any = None
        self.record: dict[str, Any] = {}
        """What a finished study adds to the run's record."""
        self.checks = GraphChecks()
        """What a finished study has found out about the learned graph."""
        logging.getLogger("nvflare").setLevel(logging.CRITICAL)

    def run(self, progress: Progress) -> Learner:
        """Run the study to its end, whatever happens on the way, and return what was learned."""
        awaited: tuple[str, ...] = ()
        losses = 0
        self._mark().unlink(missing_ok=True)
        while True:
            outcome = self._follow(self._submit(self._gathered(awaited)), progress)
            awaited = outcome.absent
            losses = losses + 1 if outcome.status == "lost" else 0
            if outcome.status == "lost":
                self._raise_if_stopped()
            if losses == _MOST_LOSSES:
                raise FeddagError(f"{outcome.message} It did so {losses} times in a row: see the server's log.txt.")
            if outcome.learner is not None:
                return outcome.learner
            if outcome.status == "failed":
                raise FeddagError(f"The study failed: {outcome.message}")
            self._report(f"{outcome.message} What was done is kept; the study goes on as soon as it can.")

    def connected(self) -> dict[str, float]:
        """Return the study's sites that the server sees, and since when."""
        clients = self._asked(lambda session: session.get_system_info()).client_info
        return {each.name: each.last_connect_time for each in clients if each.name in self._names}

    def status(self) -> Standing | None:
        """Return how the server stands; `None` where it is out of reach."""
        try:
            info = self._once(lambda session: session.get_system_info())
        except _LostServerError:
            return None
        jobs, now = [each.job_id for each in info.job_info], time.time()
        found = self._reported(jobs[0]) if jobs else {}
        return Standing(
            "running" if jobs else "idle",
            {each.name: now - each.last_connect_time for each in info.client_info},
            jobs,
            found.get("at_work", {}),
            found.get("status", {}).get("figures", {}),
        )

    def stop(self) -> list[str]:
        """Have the server end all that runs, also where another process of this kit follows it; return the jobs."""
        with atomic_write(self._mark()) as stream:
            stream.write("")
        try:
            jobs = [each.job_id for each in self._once(lambda session: session.get_system_info()).job_info]
        except _LostServerError as error:
            raise FeddagError(
                f"The server is out of reach ({error}). What runs there ends when it is stopped: Ctrl-C there."
            ) from None
        for job in jobs:
            self._end(job)
        return jobs

    def _mark(self) -> Path:
        """Return the file that tells whoever follows the study that it was stopped on purpose."""
        return self._kit.memory(self._study) / "stopped"

    def _raise_if_stopped(self) -> None:
        if self._mark().exists():
            raise FeddagError(
                "The study was stopped (feddag federation stop). What was done is kept: the same command goes on."
            )

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _gathered(self, awaited: tuple[str, ...]) -> list[str]:
        """Wait for all sites, or for the quorum, one of those `awaited`, and a while longer."""
        enough_since: float | None = None
        reported = None
        while True:
            self._raise_if_stopped()
            sites = list(self.connected())
            if len(sites) == len(self._names):
                return sites
            if len(sites) >= self._study.federation.quorum and (not awaited or set(awaited) & set(sites)):
                enough_since = enough_since or time.monotonic()
                if time.monotonic() - enough_since > _GATHERING:
                    return sites
            else:
                enough_since = None
            if reported != sites:
                missing = [name for name in self._names if name not in sites]
                self._report(
                    f"Waiting for {', '.join(missing)}: {len(sites)} of {len(self._names)} sites are connected"
                )
                reported = sites
            time.sleep(_POLL)

    def _submit(self, sites: list[str]) -> str:
        self._show(f"Starting at {', '.join(sites)}")  # which takes FLARE some seconds
        terms = self._study.federation
        with TemporaryDirectory() as folder:
            job = Path(folder) / self._study.name
            write_job(job, self._study.name, self._study.digest, sites, terms.quorum, _START, to_offer(self._study))
            return self._asked(lambda session: session.submit_job(str(job)))

    def _follow(self, job: str, progress: Progress) -> _Outcome:
        messages = 0
        back_since: dict[str, float] = {}
        while True:
            time.sleep(_POLL)
            try:
                status = self._once(lambda session: session.get_job_meta(job)).get("status", "")
                if status.startswith("FINISHED"):
                    return self._outcome(job, status, messages)
            except _LostServerError:
                self._end(job)
                return _Outcome("interrupted", "The server was lost.")
            except _NoJobError:
                return _Outcome("lost", "The server does not know this study's job any more: its kit was replaced.")
            found = self._reported(job)
            for message in found.get("messages", [])[messages:]:
                self._report(message)
                messages += 1
            if "status" in found:
                progress(Status(**found["status"]))
            if self._returned(found.get("absent", []), back_since):
                self._end(job)
                return _Outcome("regrouping", f"Back again: {', '.join(back_since)}.")

    def _returned(self, absent: list[str], back_since: dict[str, float]) -> bool:
        """Whether a site that the job has lost, or never had, has been connected for a while."""
        if not absent:
            back_since.clear()
            return False
        connected = self.connected()
        for site in absent:
            if site in connected:
                back_since.setdefault(site, time.monotonic())
            else:
                back_since.pop(site, None)
        return any(time.monotonic() - since > _REJOIN_AFTER for since in back_since.values())

    def _reported(self, job: str) -> dict[str, Any]:
        """Return what the job's server reports; nothing while it starts."""
        try:
            stats = self._once(lambda session: session.show_stats(job, "server"))
            return json.loads(stats["server"][PROGRESS]["json"])
        except (_LostServerError, _NoJobError, KeyError, TypeError):
            return {}

    def _report(self, message: str) -> None:
        self._messages.append(message)
        self._show(message)

    def _outcome(self, job: str, status: str, messages: int) -> _Outcome:
        """Bring what a job has left, and report those of its messages that were not seen while it ran."""
        with TemporaryDirectory() as folder:
            place = self._asked(lambda session: session.download_job_result(job, folder))
            found = {path.name: path for path in Path(place).rglob("*") if path.name in (OUTCOME, RESULT)}
            if OUTCOME not in found:
                return _Outcome("lost", f"The job ended without a result ({status}).")
            outcome = json.loads(found[OUTCOME].read_bytes())
            for message in outcome["messages"][messages:]:
                self._report(message)
            if outcome["status"] == "finished":
                learner = self._study.learner().restore(*load_checkpoint(found[RESULT]))
                self.record = outcome["record"]
                self.checks = GraphChecks.of(outcome["checks"])
                self.record["federation"]["messages"] = list(self._messages)
                return _Outcome("finished", outcome["message"], learner)
            return _Outcome(outcome["status"], outcome["message"], absent=tuple(outcome.get("absent", ())))

    def _end(self, job: str) -> None:
        """Have a job end, and wait until it has; a server that was started anew does not know it any more."""
        with suppress(_NoJobError, _LostServerError, FeddagError):
            self._asked(lambda session: session.abort_job(job))
            for _ in range(60):
                status = self._asked(lambda session: session.get_job_meta(job)).get("status", "")
                if status.startswith("FINISHED"):
                    return
                time.sleep(_POLL)

    def _asked(self, ask: Callable[[Any], Any]) -> Any:
        """Ask the server, and wait for one that is out of reach."""
        reported = False
        while True:
            try:
                return self._once(ask)
            except _LostServerError as error:
                if not reported:
                    self._report(f"The server is out of reach ({error}). Waiting for it")
                    reported = True
                time.sleep(_POLL)

    def _once(self, ask: Callable[[Any], Any]) -> Any:
        api = flare("nvflare.fuel.flare_api.api_spec")
        lost = (api.NoConnection, api.NoReply, api.SessionClosed, api.SessionExpired, ConnectionError)
        try:
            with redirect_stdout(io.StringIO()):  # FLARE's own messages: what matters reaches us as an exception
                if self._session is None:
                    self._session = flare("nvflare.fuel.flare_api.flare_api").new_secure_session(
                        self._kit.name, str(self._kit.folder), timeout=10.0
                    )
                return ask(self._session)
        except lost as error:
            self.close_quietly()
            raise _LostServerError(" ".join(str(error).split())) from None
        except (api.AuthenticationError, api.AuthorizationError) as error:
            raise FeddagError(f"The server refuses the analyst's kit: {error}. Ask for a new kit.") from None
        except (api.JobNotFound, api.JobNotRunning) as error:
            raise _NoJobError(str(error)) from None
        except (api.InternalError, api.CommandError, api.InvalidJobDefinition) as error:
            raise FeddagError(f"The server refused: {' '.join(str(error).split())}") from None

    def close_quietly(self) -> None:
        """Close the connection, whatever state it is in."""
        try:
            self.close()
        except Exception:
            self._session = None


class _LostServerError(Exception):
    """The server cannot be reached."""


class _NoJobError(Exception):
    """The job has not begun, or is over."""


@contextmanager
def analyst(kit: Kit, study: Study, report: Callable[[str], None], proxy: Proxy | None = None) -> Iterator[Analyst]:
    """Connect with a kit until the block ends."""
    if proxy is not None:
        proxy.check(*kit.server_address)
        use_proxy(proxy.url)
    if kit.warning is not None:
        report(kit.warning)
    found = Analyst(kit, study, report)
    try:
        yield found
    finally:
        found.close_quietly()
