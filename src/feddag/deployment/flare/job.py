"""The job that the analyst submits: which of our classes to run, and the study. It carries no code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OUTCOME, RESULT = "outcome.json", "result.npz"
"""What a job leaves behind: how it ended, and what was learned."""
PROGRESS = "feddag"
"""Where a job's statistics hold its progress."""


def write_job(
    folder: Path, name: str, study: str, sites: Sequence[str], quorum: int, timeout: float, offer: str = ""
) -> None:
    """For the named sites, of which so many must be there to begin; `offer` is the study's content."""
    arguments = {"study": study, "offer": offer}
    parts: dict[str, dict[str, Any]] = {
        "meta.json": {
            "name": name,
            "resource_spec": {},
            "min_clients": min(quorum, len(sites)),
            "deploy_map": {"app": ["server", *sites]},
        },
        "app/config/config_fed_server.json": {
            "format_version": 2,
            "workflows": [
                {
                    "id": "controller",
                    "path": "nvflare.collab.runtime.controller.CollabController",
                    "args": {"server_obj_id": "_server", "collab_obj_ids": [], "sync_task_timeout": timeout},
                }
            ],
            "components": [{"id": "_server", "path": "feddag.deployment.flare.apps.StudyServer", "args": arguments}],
            "task_data_filters": [],
            "task_result_filters": [],
        },
        "app/config/config_fed_client.json": {
            "format_version": 2,
            "executors": [
                {
                    "tasks": ["*"],
                    "executor": {
                        "path": "nvflare.collab.runtime.executor.CollabExecutor",
                        "args": {"client_obj_id": "_client", "collab_obj_ids": []},
                    },
                }
            ],
            "components": [{"id": "_client", "path": "feddag.deployment.flare.apps.StudySite", "args": arguments}],
            "task_data_filters": [],
            "task_result_filters": [],
        },
    }
    for path, content in parts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=2))
