"""How a participant is, from what its kit and its study's memory hold: for `deployment.health`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from feddag.deployment.flare.connection import Connection
from feddag.deployment.flare.kits import Kit
from feddag.deployment.flare.milestones import read_joined
from feddag.deployment.health import Health, Metric
from feddag.federation.journal import Journal
from feddag.federation.site_endpoint import audit_log


def vitals(kit: Kit, connection: Connection) -> Health:
    """Return the health of the participant whose kit and connection these are."""
    study = kit.study()
    memory = kit.memory(study)
    days = (kit.certificates_end() - datetime.now(UTC)).total_seconds() / 86400
    metrics = [
        Metric.of("state_seconds", "For how long the connection has been as it is.", time.time() - connection.since),
        Metric.of("certificate_days_left", "Days until the first certificate of the kit expires.", days),
    ]
    metrics += _of_server(kit, memory, study) if kit.role == "server" else _of_site(memory)
    details = {"role": kit.role, "name": kit.name, "study": study.digest, "certificate_days_left": round(days, 1)}
    return Health(connection.state == "connected", connection.state, details, metrics)


def _of_server(kit: Kit, memory: Path, study: Any) -> list[Metric]:
    journal = Journal(memory / "journal")
    rounds, joined = len(journal), read_joined(kit.folder)
    times = [journal.path(rounds - 1).stat().st_mtime] if rounds else []
    connected = [({"site": site.name}, float(joined.get(site.name, False))) for site in study.sites]
    return [
        Metric.of("rounds_total", "Rounds of the study in the server's journal.", rounds, "counter"),
        Metric("site_connected", "Whether a site of the study is connected.", connected),
        *_last_contact(times),
    ]


def _of_site(memory: Path) -> list[Metric]:
    path = audit_log(memory)
    entries = list(_entries(path))
    messages = [entry for entry in entries if entry.get("event") == "message"]
    sent = sum(entry["bytes"] for entry in messages if entry["direction"] == "out")
    received = sum(entry["bytes"] for entry in messages if entry["direction"] == "in")
    rounds = len({entry["round"] for entry in messages if entry["direction"] == "out"})
    refusals = sum(entry.get("event") == "refused" for entry in entries)
    return [
        Metric.of("rounds_total", "Rounds of the study that the site has answered.", rounds, "counter"),
        Metric.of("sent_bytes_total", "Bytes of all answers.", sent, "counter"),
        Metric.of("received_bytes_total", "Bytes of all questions.", received, "counter"),
        Metric.of("refusals_total", "Requests of the server that the site has refused.", refusals, "counter"),
        *_last_contact([path.stat().st_mtime] if path.exists() else []),
    ]


def _last_contact(times: list[float]) -> list[Metric]:
    meaning = "When the study last went on here, in seconds since 1970."
    return [Metric.of("last_contact_timestamp_seconds", meaning, max(times))] if times else []


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Read a log's lines; one that is being written just now is left out."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
