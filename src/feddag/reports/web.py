"""The page of a run that is under way, for a browser on this machine; when the run has finished, its report."""

from __future__ import annotations

import json
import math
import os
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from feddag.drawing.figures import find_figure, format_figure
from feddag.errors import FeddagError
from feddag.learners.status import Status
from feddag.reports.html import render_html, render_page
from feddag.reports.model import build_report
from feddag.runs import Run, RunMonitor, resume_command

LOOPBACK = "127.0.0.1"
_MOST_STATUSES = 300
"""The page shows up to twice as many of each site."""
_OWN_NAMES = (LOOPBACK, "localhost")


class LivePage:
    """The pages of one run."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = folder
        self._followed = RunMonitor(folder)
        self._lock = Lock()
        self._report: str | None = None

    def state(self) -> dict[str, Any]:
        """Return where the run stands, as the page's program shows it."""
        with self._lock:
            self._followed.look()
            state: dict[str, Any] = {"state": self._followed.state}
            if state["state"] == "stopped":
                state["resume"] = resume_command(self._folder)
            statuses = _thinned(self._followed.statuses)
            return state | {"now": _last_figures(statuses), "curves": _curves(statuses)}

    def page(self) -> str:
        """Return the page: the report once the run has finished."""
        with self._lock:
            self._followed.look()
            if self._followed.state != "finished":
                return render_page("live.html", "live.js", connects=True, folder=os.fspath(self._folder))
            if self._report is None:
                self._report = render_html(build_report(Run.open(self._folder)))
            return self._report


def _thinned(statuses: list[Status]) -> list[Status]:
    """Keep enough statuses for curves, and the last of each site."""
    by_site: dict[str | None, list[Status]] = {}
    for status in statuses:
        by_site.setdefault(status.site, []).append(status)
    return [status for its in by_site.values() for status in its[-1 :: -max(1, len(its) // _MOST_STATUSES)][::-1]]


def _last_figures(statuses: list[Status]) -> list[dict[str, Any]]:
    """Return the last status of each site, as the page shows it."""
    last = {status.site: status for status in statuses}.values()
    return [
        {
            "site": status.site,
            "figures": [
                (find_figure(name).heading, format_figure(name, each)) for name, each in status.figures.items()
            ],
            "seconds": status.seconds,
            "seconds_left": status.seconds_left,
        }
        for status in last
    ]


def _curves(statuses: list[Status]) -> list[dict[str, Any]]:
    """Return the course of each figure that changes, as a line of points for each site."""
    lines: dict[str, dict[str | None, list[tuple[float, float]]]] = {}
    for status in statuses:
        for name, value in status.figures.items():
            if not isinstance(value, str) and math.isfinite(value):
                lines.setdefault(name, {}).setdefault(status.site, []).append((status.seconds, value))
    return [
        {"title": find_figure(name).title, "lines": drawn}
        for name, of_sites in lines.items()
        if (drawn := [line for line in of_sites.values() if len(line) > 1])
        and len({value for line in drawn for _, value in line}) > 1
    ]


def live_server(folder: str | os.PathLike[str], port: int = 0) -> ThreadingHTTPServer:
    """Make a server, not yet running, that only this machine can reach. Port 0 is any that is free."""
    handler = partial(_Handler, LivePage(folder))
    try:
        return ThreadingHTTPServer((LOOPBACK, port), handler)
    except (OSError, OverflowError) as error:
        raise FeddagError(f"Port {port} cannot be used ({error}). Choose another, or 0 for any that is free.") from None


class _Handler(BaseHTTPRequestHandler):
    server_version = "feddag"
    sys_version = ""

    def __init__(self, live: LivePage, *arguments: Any) -> None:
        self._live = live
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Send the page or its state."""
        # a page from elsewhere must not read this one by a name of its own that leads here
        if self.headers.get("Host", "").rpartition(":")[0] not in _OWN_NAMES:
            self._send(403, "text/plain", "Open this page by the address that feddag watch printed.\n")
        elif self.path == "/":
            self._send(200, "text/html", self._live.page())
        elif self.path == "/state.json":
            self._send(200, "application/json", json.dumps(self._live.state(), ensure_ascii=False))
        else:
            self._send(404, "text/plain", "There is nothing here.\n")

    def _send(self, code: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Nobody reads a log of one's own page."""
