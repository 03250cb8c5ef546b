"""Check until when a kit's certificates hold, and say so before a connection fails for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from feddag.deployment.flare.extra import flare
from feddag.errors import FeddagError
from feddag.federation.terms import CERTIFICATE_NOTICE

_REMEDY = "Have it renewed by whoever has signed the kit (feddag federation renew), and install what comes back"


def check_certificates(startup: Path, names: Sequence[str], now: datetime | None = None) -> str | None:
    """Refuse certificates that do not hold now; a warning where one soon will not."""
    now = now or datetime.now(UTC)
    warning = None
    for path in (startup / name for name in names):
        certificate = _read(path)
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if now > ends:
            raise FeddagError(f"{path}: this certificate expired on {ends:%Y-%m-%d %H:%M} UTC. {_REMEDY}.")
        if now < begins:
            raise FeddagError(
                f"{path}: this certificate holds from {begins:%Y-%m-%d %H:%M} UTC, and this machine's clock says "
                f"{now:%Y-%m-%d %H:%M}. Set the clock."
            )
        if ends - now < CERTIFICATE_NOTICE:
            warning = f"{path}: this certificate expires on {ends:%Y-%m-%d}, in {(ends - now).days} days. {_REMEDY}."
    return warning


def ends_first(startup: Path, names: Sequence[str]) -> datetime:
    """Return when the first of some certificates expires."""
    return min(_read(startup / name).not_valid_after_utc for name in names)


def _read(path: Path) -> Any:
    try:
        return flare("cryptography.x509").load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        raise FeddagError(f"{path} is not there. Install the kit again.") from None
    except ValueError as error:
        if isinstance(error, FeddagError):
            raise
        raise FeddagError(f"{path} is damaged ({error}). Install the kit again.") from None
