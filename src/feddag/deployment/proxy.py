"""The way out through an HTTP proxy (CONNECT), as hospitals have it: TLS goes through it to the server, unopened."""

from __future__ import annotations

import base64
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urlsplit

from feddag.errors import FeddagError

_PATIENCE = 10.0
"""Seconds that the proxy may take to answer."""
_LONGEST_LINE = 65536
_FORMS = "Give HOST:PORT, or http://USER:PASSWORD@HOST:PORT."


class UnreachableError(Exception):
    """The proxy works, and does not reach the server now."""


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy that takes CONNECT."""

    url: str
    """With its user and password, if it wants these."""
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a proxy such as proxy.example.org:3128, or http://me:secret@proxy.example.org:3128."""
        url = text if "://" in text else f"http://{text}"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        else:
            if parts.scheme != "http":
                raise FeddagError(f"A proxy is reached by http, not by {parts.scheme}. {_FORMS}")
            if parts.path not in ("", "/") or parts.query:
                host = None
        if not host or not port:
            raise FeddagError(f"That is no address of a proxy. {_FORMS}")
        return cls(url, host, port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def without_password(self) -> str:
        """Return the address for a file that others can read; refuse one with a password."""
        if urlsplit(self.url).username is not None:
            raise FeddagError(
                "The proxy's address has a user, and a unit file is no place for a password: others can read it. Leave "
                "--proxy out, and have the unit read FEDDAG_PROXY from a file of mode 600 (EnvironmentFile=)."
            )
        return str(self)

    def check(self, host: str, port: int) -> None:
        """Refuse a proxy that is out of reach, or that forbids the server's address; the server itself may be down."""
        with suppress(UnreachableError):
            self.probe(host, port)

    def probe(self, host: str, port: int) -> None:
        """Open a connection to the server through the proxy, and close it.

        Raises:
            FeddagError: The proxy cannot be reached, or refuses.
            UnreachableError: The proxy does not reach the server.
        """
        try:
            opened = socket.create_connection((self.host, self.port), _PATIENCE)
        except OSError as error:
            raise FeddagError(f"The proxy {self} cannot be reached ({_why(error)}). Check --proxy.") from None
        with opened as connection:
            try:
                connection.sendall(self._question(host, port))
                reply = _read_line(connection)
            except OSError as error:
                raise UnreachableError(f"the proxy {self} does not answer: {_why(error)}") from None
        status, words = self._parse(reply)
        if status == 407:
            raise FeddagError(
                f"The proxy {self} wants a user and a password (407), or others than these. Set FEDDAG_PROXY="
                "http://USER:PASSWORD@HOST:PORT in the environment."
            )
        if status // 100 == 4:
            raise FeddagError(
                f"The proxy {self} refuses to connect to {host}:{port} ({status} {words}). Ask its operator to allow "
                "CONNECT to that host and port."
            )
        if status // 100 != 2:
            raise UnreachableError(f"the proxy {self} says {status} {words}")

    def _parse(self, reply: str) -> tuple[int, str]:
        protocol, _, rest = reply.partition(" ")
        number, _, words = rest.partition(" ")
        if not protocol.startswith("HTTP/") or not number.isdecimal():
            raise FeddagError(f"{self} does not answer as an HTTP proxy does. Check --proxy.")
        return int(number), words

    def _question(self, host: str, port: int) -> bytes:
        target = f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        parts = urlsplit(self.url)
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(secret.encode()).decode()}")
        return "\r\n".join([*lines, "", ""]).encode()


def _read_line(connection: socket.socket) -> str:
    reply = b""
    while b"\r\n" not in reply and len(reply) < _LONGEST_LINE and (more := connection.recv(4096)):
        reply += more
    return reply.split(b"\r\n")[0].decode("latin-1")


def _why(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
