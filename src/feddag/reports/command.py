"""The command that learns a run's graph again."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from feddag.learners.registry import METHODS
from feddag.runs import Run
from feddag.silos import Preparation


def command_again(run: Run) -> str | None:
    """Return the command; `None` if the run does not know where its tables are, or its method has no name."""
    record, method = run.record, METHODS.get(run.record["method"])
    if method is None or any("source" not in site for site in record["sites"]):
        return None
    words = ["feddag", "learn", *map(_silo, record["sites"])]
    if record.get("study"):
        return shlex.join([*words, "--study", "study.toml", "--out", "run"])
    words += ["--method", method.name]
    if record["regime"] != method.regimes[0]:
        words += ["--regime", record["regime"]]
    defaults = {name: each.default for name, each in method.parameters().items()} | asdict(Preparation())
    given = record["parameters"] | {name: record.get("data", {}).get(name) for name in ("missing", "scale")}
    for name, value in given.items():
        if not _equal(value, defaults.get(name)):
            words += _option(name, value)
    return shlex.join([*words, "--out", "run"])


def _equal(value: Any, default: Any) -> bool:
    """JSON has lists where Python's defaults are tuples."""
    return value == (list(default) if isinstance(default, tuple) else default)


def _silo(site: dict[str, Any]) -> str:
    return site["source"] if Path(site["source"]).stem == site["name"] else f"{site['name']}={site['source']}"


def _option(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if name == "tiers":
        value = ";".join(",".join(tier) for tier in value)
    elif isinstance(value, list):
        value = ",".join(each if isinstance(each, str) else "->".join(each) for each in value)
    return [f"--{flag}", str(value)]
