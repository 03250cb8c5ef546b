"""Whether a participant is alive, for monitors: a health page and Prometheus metrics over HTTP, on loopback by default.

They hold counts of messages and times, and nothing about rows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from feddag.errors import FeddagError

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Metric:
    """A figure for monitors, with a value for each set of labels."""

    name: str
    meaning: str
    values: Sequence[tuple[Mapping[str, str], float]]
    kind: str = "gauge"

    @classmethod
    def of(cls, name: str, meaning: str, value: float, kind: str = "gauge") -> Metric:
        """Make a metric without labels."""
        return cls(name, meaning, [({}, value)], kind)

    def __str__(self) -> str:
        lines = [f"# HELP feddag_{self.name} {self.meaning}", f"# TYPE feddag_{self.name} {self.kind}"]
        for labels, value in self.values:
            given = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"feddag_{self.name}{f'{{{given}}}' if given else ''} {value:.15g}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Health:
    """How a participant is."""

    healthy: bool
    state: str
    """In one or a few words."""
    details: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[Metric] = ()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def parse_address(text: str) -> tuple[str, int]:
    """Read an address such as 9100, which is on loopback, or 10.0.0.5:9100."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise FeddagError(f"{text!r} is no address for --health. Give a port, such as 9100, or HOST:PORT.")
    return host.strip("[]") or _LOOPBACK, int(port)


@contextmanager
def serving(address: tuple[str, int] | None, read: Callable[[], Health]) -> Iterator[None]:
    """Answer /health and /metrics until the block ends; without an address, do nothing."""
    if address is None:
        yield
        return
    try:
        server = ThreadingHTTPServer(address, _handler(read))
    except OSError as error:
        raise FeddagError(
            f"The health page cannot be at {address[0]}:{address[1]} ({error.strerror}). Give another --health."
        ) from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _handler(read: Callable[[], Health]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = read()
            if self.path == "/health":
                document = {"healthy": health.healthy, "state": health.state, **health.details}
                self._send(200 if health.healthy else 503, "application/json", json.dumps(document) + "\n")
            elif self.path == "/metrics":
                up = Metric.of("healthy", "Whether the participant is connected, or listening.", float(health.healthy))
                text = "\n".join(map(str, (up, *health.metrics)))
                self._send(200, "text/plain; version=0.0.4; charset=utf-8", text + "\n")
            else:
                self._send(404, "text/plain; charset=utf-8", "There are /health and /metrics.\n")

        def _send(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as of its base
            """Log nothing: monitors ask often."""

    return Handler
