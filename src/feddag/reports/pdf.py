"""The report as PDF: the page, printed by the browser that is on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from feddag.errors import FeddagError

_BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_SECONDS = 120


def find_browser() -> str | None:
    """Find Chromium or one of its relatives."""
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def browser_flags(profile: str | os.PathLike[str]) -> list[str]:
    """Return the flags that keep the browser from a window, the network and the user's own profile."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [
        "--headless=new",
        *(["--no-sandbox"] if root else []),
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={os.fspath(profile)}",
    ]


def print_pdf(page: str) -> bytes:
    """Print a page with the browser that is on this machine."""
    browser = find_browser()
    if browser is None:
        raise FeddagError(
            "A PDF needs Chromium or Chrome, and neither is on this machine. Install one, or write HTML and print it "
            "with another browser."
        )
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        source, target = Path(scratch) / "report.html", Path(scratch) / "report.pdf"
        source.write_text(page, encoding="utf-8", newline="")
        command = [
            browser,
            *browser_flags(Path(scratch) / "profile"),
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise FeddagError(f"{browser} did not print the report within {_SECONDS} s. Write HTML instead.") from None
        if not target.exists():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise FeddagError(f"{browser} could not print the report ({''.join(last)}). Write HTML instead.")
        return target.read_bytes()
