from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from feddag.cli.options import OutputFormat
from feddag.cli.tables import stdout
from feddag.federation.audit import BrokenLogError, Disclosure, Flow, Summary, verify
from feddag.federation.protection import PROTECTING, PROTECTING_DISCLOSES, describe_protection


def audit(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A site's audit log.", show_default=False)],
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="A head that was sent with results: the log must have it."),
    ] = None,
    *,
    format: OutputFormat = "text",  # noqa: A002 - the word every reader expects here
) -> None:
    """Checks that no line was changed, removed or inserted, and tells in plain words what left the site.
    Exits with code 1 where the log is not as it was written.

    Example: feddag audit audit.jsonl
    """
    try:
        summary = verify(log, head)
    except BrokenLogError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
    if format == "json":
        typer.echo(json.dumps(asdict(summary), indent=2, ensure_ascii=False, default=sorted))
        return
    _print(stdout(), summary)


def _print(console: Console, summary: Summary) -> None:
    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style))

    say(f"Site {summary.site!r} in the study {summary.study[:12]}…, with feddag {summary.version}")
    say(f"{_minute(summary.started)} to {_minute(summary.ended)}; the log is whole: {summary.lines} lines")
    say(f"Its head is {summary.head}")
    for event in _events(summary):
        say(event)
    for title, direction in (("What left the site", "out"), ("What came in", "in")):
        say(f"\n{title}:", "bold")
        flows = [flow for flow in summary.flows if flow.direction == direction]
        for flow in flows:
            for line in _described(flow, summary.disclosures):
                say(line)
        if not flows:
            say("  Nothing.")


def _events(summary: Summary) -> list[str]:
    events = []
    if summary.resumed:
        events.append(f"The site was restarted {_times(summary.resumed)}.")
    if summary.repaired:
        events.append(f"A line that a stop had cut short was removed {_times(summary.repaired)}.")
    if summary.unfinished:
        events.append("The last line was cut short, as by a stop while it was written; it says nothing.")
    return events


def _described(flow: Flow, disclosures: Mapping[str, Disclosure]) -> list[str]:
    amount = f"{_times(flow.messages)}, {decimal(flow.bytes)}"
    if flow.direction == "in":
        return [f"  {flow.task}: {amount}"]
    if flow.task == PROTECTING:
        return [f"  {PROTECTING_DISCLOSES}: {amount}"]
    disclosure = disclosures.get(flow.task, Disclosure(f"The task {flow.task}, which the log does not explain"))
    lines = [f"  {disclosure.summary}: {amount}, {describe_protection(flow.protection, flow.sites)}"]
    for name, seen in flow.arrays.items():
        words = disclosure.describe(name)
        lines.append(f"    {name}: {_shapes(seen)}{words and f', {words}'}")
    return lines


def _shapes(seen: set[tuple[Any, ...]]) -> str:
    shapes = sorted({tuple(shape) for _, *shape in seen})
    if len(shapes) > 1:
        return f"{len(shapes)} shapes, {_shape(shapes[0])} to {_shape(shapes[-1])}"
    return _shape(shapes[0])


def _shape(shape: tuple[int, ...]) -> str:
    if not shape:
        return "a number"
    if len(shape) == 1:
        return f"a list of {shape[0]}"
    return f"a {'×'.join(map(str, shape))} {'matrix' if len(shape) == 2 else 'array'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _minute(time: str) -> str:
    return f"{time[:10]} {time[11:16]}"
