from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from feddag.cli.options import OutputFormat
from feddag.cli.tables import stdout
from feddag.deployment.site import follow_study
from feddag.deployment.terms import study_terms
from feddag.federation.audit import BrokenLogError, Disclosure, Flow, Summary, heads_seen, verify
from feddag.federation.protection import PROTECTING, PROTECTING_DISCLOSES, describe_protection
from feddag.federation.replay import Replay
from feddag.federation.replay import replay as replay_log
from feddag.study import Study


def audit(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A site's audit log.", show_default=False)],
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="A head that was sent with results: the log must have it."),
    ] = None,
    *,
    witness: Annotated[
        list[Path] | None,
        typer.Option(metavar="LOG", help="Another site's log of the study: what it has seen must be in this one."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY", help="Run the study's method again on the log's sums: the server must have asked the same."
        ),
    ] = None,
    format: OutputFormat = "text",  # noqa: A002 - the word every reader expects here
) -> None:
    """Checks that no line was changed, removed or inserted, and tells in plain words what left the site.
    Exits with code 1 where the log is not as it was written, or the server asked what the study's method would not ask.

    Example: feddag audit audit.jsonl --replay study.toml
    """
    try:
        summary = verify(log)
        seen = [each for path in witness or () for each in heads_seen(path, summary.site)]
        verify(log, [*seen, *([] if head is None else [head])])
        replayed = None if replay is None else _replayed(log, replay)
    except BrokenLogError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None
    if format == "json":
        document = asdict(summary) | ({} if replayed is None else {"replay": asdict(replayed)})
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False, default=sorted))
    else:
        _print(stdout(), summary)
        if witness:
            typer.echo(f"\nThe other sites' logs have seen {len(seen)} heads of this one, and it has them all.")
        if replayed is not None:
            _print_replay(replayed)
    if replayed is not None and replayed.deviations:
        raise typer.Exit(1)


def _replayed(log: Path, study_file: Path) -> Replay:
    study = Study.load(study_file)
    with Console(stderr=True).status("Running the study's method again on the sums of the log"):
        return replay_log(log, study_terms(study), partial(follow_study, study))


def _print_replay(replayed: Replay) -> None:
    typer.echo(
        f"\nThe study's method, run again on the {replayed.sums} sums of this log: "
        + (
            f"each of the server's {replayed.questions} questions is the one that it asks."
            if not replayed.deviations
            else f"{len(replayed.deviations)} of the server's {replayed.questions} questions are not those it asks."
        )
    )
    for each in replayed.deviations:
        expected = f"the method asks {each.expected}" if each.expected else "the method asks nothing then"
        other = " with other contents" if each.expected == each.asked else ""
        typer.echo(f"  Line {each.line}, round {each.round + 1}: the server asked {each.asked}; {expected}{other}.")


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
    if summary.refusals:
        reasons = ", ".join(f"{reason} {_times(count)}" for reason, count in sorted(summary.refusals.items()))
        events.append(f"The site refused requests of the server: {reasons}. Its terminal said why.")
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
