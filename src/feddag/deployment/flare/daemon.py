"""FLARE's daemon, with two things added: a proxy, and terminals on both sides that say why a certificate is refused.

FLARE itself would try again and again, and the operator see nothing.
"""

from __future__ import annotations

import logging
import os
import runpy
import ssl
import sys
import time
from pathlib import Path
from typing import Any

from cryptography import x509

from feddag.deployment.flare.environment import KIT, PROXY
from feddag.deployment.flare.kits import REVOKED, ROOT
from feddag.deployment.flare.proxied import use_proxy
from feddag.federation.revocations import Revocations

_QUIET = 60.0
"""Seconds until the same reason is logged again: whoever is refused tries again at once."""
_KIT = "Use the kit that the others' authority has signed; or have it renewed: feddag federation renew."

_log = logging.getLogger("feddag.federation")
_told: dict[str, float] = {}


class TellingConnection(ssl.SSLObject):
    """A TLS connection that says why it fails, here and to the other side, where a certificate is the cause."""

    _refusing = False

    def do_handshake(self) -> None:
        """Shake hands; log why a certificate is refused, and let the other side know."""
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            _tell(error)
            if isinstance(error, ssl.SSLCertVerificationError) and not self._refusing:
                # asyncio would drop the alert, which is ready to be sent, but sends all before it waits for more
                self._refusing = True
                raise ssl.SSLWantReadError from None
            raise
        self._refuse_revoked()

    def _refuse_revoked(self) -> None:
        """Refuse the other side if the authority has revoked its key."""
        startup = Path(os.environ[KIT]) / "startup"
        certificate = self.getpeercert(binary_form=True)
        if certificate is None or not (startup / REVOKED).exists():
            return
        root = x509.load_pem_x509_certificate((startup / ROOT).read_bytes())
        if Revocations.read(startup / REVOKED, root).has_certificate(certificate):
            names = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
            _log_seldom(f"A connection was refused: the authority has revoked the key of {names}.")
            raise ssl.SSLError("the authority has revoked this key")

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - as of its base
        """Read; log that the other side refuses our certificate, which becomes known only now."""
        try:
            return super().read(len, buffer)
        except ssl.SSLError as error:  # who connects learns only now that its certificate was refused
            _tell(error)
            raise


def _tell(error: ssl.SSLError) -> None:
    reason = (error.reason or "").lower()
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"A connection was refused: the other side's certificate is not valid here ({error.verify_message})."
    elif "alert" in reason and ("certificate" in reason or "unknown_ca" in reason):
        words = reason.rpartition("alert_")[2].replace("unknown_ca", "unknown authority").replace("_", " ")
        message = f"The other side refuses a certificate: {words}."
    else:
        return
    _log_seldom(f"{message} {_KIT}")


def _log_seldom(message: str) -> None:
    now = time.monotonic()
    if now - _told.get(message, -_QUIET) >= _QUIET:
        _told[message] = now
        _log.error("%s", message)


if __name__ == "__main__":
    ssl.SSLContext.sslobject_class = TellingConnection
    if proxy := os.environ.get(PROXY):
        use_proxy(proxy)
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
