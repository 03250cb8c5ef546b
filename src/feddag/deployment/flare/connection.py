"""Whether a participant's daemon has its connection, looked at from outside: FLARE itself would keep silent.

A site is connected while its daemon has an established connection to the server's port; a server while it listens.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Literal

from feddag.deployment.flare.extra import flare
from feddag.deployment.flare.kits import Kit
from feddag.deployment.proxy import Proxy, UnreachableError
from feddag.errors import FeddagError

State = Literal["starting", "connected", "unreachable"]

_STEADY = 3
"""Looks in a row that must find a connection: one that is refused lasts shorter."""
_PATIENCE = 6.0
"""Seconds without a connection after which the operator is told."""
_PROBE = 3.0
"""Seconds that a trial connection may take."""
_FREE_WITHIN = 5.0
"""Seconds that an earlier server has to let go of its port."""


def check_port(port: int) -> None:
    """Refuse a port that another program listens on; a server that was just ended may need a moment."""
    ends = time.monotonic() + _FREE_WITHIN
    while True:
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", port))
            return
        except OSError as error:
            if time.monotonic() > ends:
                raise FeddagError(
                    f"Port {port} cannot be used ({error.strerror}). Stop the program that listens on it, or make kits "
                    "for another port: feddag federation provision --port"
                ) from None
            time.sleep(0.2)


class Connection:
    """The connection of a kit's daemon."""

    def __init__(self, kit: Kit, proxy: Proxy | None = None) -> None:
        self._role = kit.role
        self._host, self._port = kit.server_address
        self._proxy = proxy
        self._found = 0
        self._lost_at = time.monotonic()
        self.state: State = "starting"
        self.since = time.time()
        """When the state began."""

    def look(self, daemon: int) -> str | None:
        """Look at the daemon with a process id; return what to tell the operator, if something has changed."""
        self._found = self._found + 1 if self._is_there(daemon) else 0
        if self._found:
            self._lost_at = time.monotonic()
        if self._found >= (1 if self._role == "server" else _STEADY):
            return self._enter("connected", self._connected())
        if not self._found and time.monotonic() - self._lost_at > _PATIENCE:
            return self._enter("unreachable", None)
        return None

    def _enter(self, state: State, message: str | None) -> str | None:
        if state == self.state:
            return None
        self.state, self.since = state, time.time()
        return message or self._unreachable()

    def _is_there(self, daemon: int) -> bool:
        psutil = flare("psutil")
        away = self._port if self._proxy is None else self._proxy.port
        with suppress(psutil.Error):
            for each in psutil.Process(daemon).net_connections("tcp"):
                listens = each.status == psutil.CONN_LISTEN and each.laddr.port == self._port
                reaches = each.status == psutil.CONN_ESTABLISHED and each.raddr and each.raddr.port == away
                if listens if self._role == "server" else reaches:
                    return True
        return False

    def _connected(self) -> str:
        if self._role == "server":
            return f"Listening on port {self._port}. Waiting for sites and for the analyst."
        through = "" if self._proxy is None else f" through the proxy {self._proxy}"
        where = f"{self._host}:{self._port}{through}"
        return f"Connected to the server at {where}. Waiting for the study to begin, or to go on."

    def _unreachable(self) -> str:
        if self._role == "server":
            return f"Nothing listens on port {self._port} yet: see log.txt in the kit."
        try:
            if self._proxy is None:
                socket.create_connection((self._host, self._port), _PROBE).close()
            else:
                self._proxy.probe(self._host, self._port)
        except FeddagError as error:
            return f"{error} Trying again."
        except (OSError, UnreachableError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return f"Cannot reach {self._host}:{self._port} ({why}). Trying again until it answers."
        return f"{self._host}:{self._port} answers, but does not let this site in yet. Trying again."
