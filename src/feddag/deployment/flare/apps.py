"""The two ends of a call, as FLARE finds them: the study's server, and a study's site.

A job names these classes and the study's digest, nothing more. Study, data and policy are those of the participant's
own machine, which `processes` puts into the environment.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.signal import Signal
from nvflare.collab import collab
from nvflare.widgets.info_collector import GroupInfoCollector, InfoCollector

from feddag.deployment.flare.environment import DATA, KIT, OWNER, POLICY
from feddag.deployment.flare.job import OUTCOME, PROGRESS, RESULT
from feddag.deployment.flare.kits import Kit
from feddag.deployment.server import build_server, run_study
from feddag.deployment.site import build_site, tables_folder
from feddag.errors import FeddagError
from feddag.federation.calls import Call, OutOfReachError, PausedError
from feddag.federation.checkpoint import not_kept, save_checkpoint
from feddag.federation.policy import Policy
from feddag.federation.refusals import Refusal, RefusedError
from feddag.federation.server_endpoint import ServerEndpoint
from feddag.federation.site_endpoint import SiteEndpoint
from feddag.files import atomic_write
from feddag.learners.status import Status

_PATIENCE = 10.0
"""Seconds that a process has to end when it is killed."""

_log = logging.getLogger("feddag.federation")


class StudyServer(FLComponent):
    """Runs the study of the server's own kit, if it is the one that the job names."""

    def __init__(self, study: str, offer: str = "") -> None:
        super().__init__()
        self._digest = study
        self._offer = offer
        self._progress_so_far: dict[str, Any] = {"messages": []}
        self._server: ServerEndpoint | None = None
        self.register_event_handler(InfoCollector.EVENT_TYPE_GET_STATS, self._send_progress)

    @collab.main
    def run(self) -> None:
        """Run the study, and leave its outcome in the job's folder, whatever happens."""
        context: FLContext = collab.fl_ctx
        folder = Path(context.get_workspace().get_run_dir(context.get_job_id()))
        outcome: dict[str, Any]
        try:
            outcome = self._learn(folder)
        except PausedError as error:
            absent = [] if self._server is None else list(self._server.absent)
            outcome = {"status": "paused", "message": str(error), "absent": absent}
        except FeddagError as error:
            outcome = {"status": "failed", "message": str(error)}
        except OSError as error:
            outcome = {"status": "failed", "message": str(not_kept(Path(os.environ[KIT]), error))}
        except Exception as error:
            _log.exception("the study failed")
            outcome = {"status": "failed", "message": f"{type(error).__name__}; the server's log says more."}
        self._server = None  # whoever comes back now comes too late to interrupt the study for
        outcome["messages"] = list(self._progress_so_far["messages"])
        self._report(outcome["message"])
        try:
            with atomic_write(folder / OUTCOME) as stream:
                json.dump(outcome, stream)
        except OSError as error:
            self._report(str(not_kept(folder, error)))
            raise

    def _learn(self, folder: Path) -> dict[str, Any]:
        kit = Kit.open(os.environ[KIT], "server")
        study = kit.agreed_study(self._digest, self._offer)
        calls = {proxy.name: _call(proxy) for proxy in collab.clients}
        over = _ending(collab.clients)
        self._server = build_server(study, calls, kit.memory(study), kit.trust(), self._report)
        try:
            result = run_study(study, self._server, self._progress, self._report)
        finally:
            over.trigger(True)
        save_checkpoint(folder / RESULT, *result.learner.snapshot())
        return {
            "status": "finished",
            "message": result.message,
            "checks": result.checks.document(),
            "record": result.record,
        }

    def _progress(self, status: Status) -> None:
        self._progress_so_far["status"] = vars(status)

    def _report(self, message: str) -> None:
        _log.info("%s", message)
        self._progress_so_far["messages"].append(message)

    def _send_progress(self, event: str, context: FLContext) -> None:
        """Give the study's progress to an analyst who asks for it."""
        collector = context.get_prop(InfoCollector.CTX_KEY_STATS_COLLECTOR)
        if isinstance(collector, GroupInfoCollector):
            absent, at_work = ([], {}) if self._server is None else (list(self._server.absent), self._server.at_work)
            now = time.monotonic()
            found = {"absent": absent, "at_work": {site: now - since for site, since in at_work.items()}}
            collector.set_info(PROGRESS, {"json": json.dumps({**self._progress_so_far, **found})})


def _ending(proxies: Any) -> Signal:
    """Return a signal that ends calls nobody waits for any more: FLARE would not end the job before they time out."""
    signal = Signal(parent=proxies[0].backend.abort_signal)
    for proxy in proxies:
        proxy.backend.abort_signal = signal
    return signal


def _call(proxy: Any) -> Call:
    def call(request: str, content: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        began = time.monotonic()
        try:
            reply = proxy(timeout=timeout).ask(request=request, content=dict(content))
        except Exception as error:  # whatever FLARE raises, the site did not reply
            # FLARE calls it a timeout, too, when a site's connection is lost long before
            early = "timed out" in str(error) and time.monotonic() - began < timeout / 2
            raise OutOfReachError("its connection was lost" if early else _one_line(error)) from None
        if not isinstance(reply, dict):
            raise OutOfReachError(f"its reply is no message but {type(reply).__name__}")
        return reply

    return call


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class StudySite:
    """Answers for the site whose kit this is, in the study that the kit holds."""

    def __init__(self, study: str, offer: str = "") -> None:
        self._digest = study
        self._offer = offer
        self._endpoint: SiteEndpoint | None = None
        self._lock = threading.Lock()
        threading.Thread(target=_end_with, args=(int(os.environ[OWNER]),), daemon=True).start()

    @collab.publish
    def ask(self, request: str, content: dict) -> dict:
        """Reply to a request of the server; build the site's end at the first."""
        try:
            with self._lock:
                if self._endpoint is None and request != "ping":
                    self._endpoint = _endpoint(self._digest, self._offer)
        except FeddagError as error:
            message, reason = str(error), error.reason if isinstance(error, RefusedError) else Refusal.DECLINED
        except OSError as error:
            message, reason = str(not_kept(Path(os.environ[KIT]), error)), Refusal.DECLINED
        else:
            return {} if self._endpoint is None else self._endpoint.reply(request, content)
        _log.error("%s", message)
        return {"refusal": reason.word}


def _endpoint(digest: str, offer: str) -> SiteEndpoint:
    kit = Kit.open(os.environ[KIT], "site")
    _end_earlier_jobs()
    policy = Policy.load(os.environ[POLICY]) if POLICY in os.environ else Policy()
    study = kit.agreed_study(digest, offer, policy)
    silo = study.silo(kit.name, os.environ[DATA])
    report = partial(_log.info, "%s: %s", kit.name)
    return build_site(study, silo, kit.memory(study), tables_folder(), kit.identity(), policy, report)


def _end_earlier_jobs() -> None:
    """End jobs that a server which died has left at this site: only one process may answer."""
    me = psutil.Process()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            same_kit = process.environ().get(KIT) == os.environ[KIT]
            if same_kit and process.cmdline()[1:3] == me.cmdline()[1:3] and process.create_time() < me.create_time():
                process.kill()
                process.wait(_PATIENCE)


def _end_with(owner: int) -> None:
    """End this process with the command that the user started: a site that was killed must not go on answering."""
    while psutil.pid_exists(owner):
        time.sleep(0.5)
    os._exit(1)
