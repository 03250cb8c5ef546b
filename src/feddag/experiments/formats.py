"""Write a comparison in text, Markdown, LaTeX, HTML or CSV."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from feddag.experiments.comparison import Block, Entry, Line
from feddag.experiments.experiment import Experiment
from feddag.experiments.published import Figure
from feddag.experiments.reasons import notes
from feddag.experiments.seeds import format_seeds, role_of
from feddag.files import as_text

Format = Literal["text", "markdown", "latex", "csv", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)
MARKS = {"better": "▲", "within": "=", "worse": "▼", "different": "≠", None: ""}
LEGEND = "▲ better, = within, ▼ worse than the published mean by its standard deviation; ≠ off it, neither way better"
_LATEX_NEEDS = r"% needs \usepackage{booktabs}, \usepackage{amssymb} and \usepackage{adjustbox}"
_LATEX = str.maketrans(
    {
        "±": r"$\pm$",
        "▲": r"$\blacktriangle$",
        "=": "$=$",
        "▼": r"$\blacktriangledown$",
        "≠": r"$\neq$",
        "²": "$^2$",
        "ρ": r"$\rho$",
        "α": r"$\alpha$",
        "_": r"\_",
        "%": r"\%",
        "&": r"\&",
        "#": r"\#",
        "<": "$<$",
        ">": "$>$",
        "`": "",
    }
)
_DIGITS = {"SHD": 1, "NNZ": 1, "impossible": 1, "TPR": 2, "FDR": 2}


def render(experiment: Experiment, blocks: Sequence[Block], format: Format) -> str:  # noqa: A002
    """Render all blocks in a format, with a newline at the end."""
    return _WRITERS[format](experiment, blocks)


def grid(experiment: Experiment, block: Block, *, published: bool | None = None) -> tuple[list[str], list[list[str]]]:
    """Make the header, and the texts of each line.

    Args:
        experiment: Whose metrics are the columns.
        block: The lines.
        published: Whether to show published figures; None shows them where there are any.
    """
    published = _has_published(block) if published is None else published
    header = ["regime", "method"]
    for metric in experiment.metrics:
        header += [metric, "published", ""] if published else [metric]
    return [*header, "p", "seeds", "seconds"], [_texts(experiment, line, published) for line in block.lines]


def _has_published(block: Block) -> bool:
    return any(entry.published for line in block.lines for entry in line.entries.values())


def _texts(experiment: Experiment, line: Line, published: bool) -> list[str]:
    texts = ["sanity" if line.row.sanity else line.row.regime, line.name]
    for metric in experiment.metrics:
        entry = line.entries[metric]
        texts.append(_spread(entry, metric))
        if published:
            texts += [_spread(entry.published, metric), MARKS[entry.verdict]]
    p = "" if line.p_value is None else f"{line.p_value:.3f}"
    seconds = "" if line.seconds is None else f"{line.seconds:.1f}"
    return [*texts, p, str(line.seeds or ""), seconds]


def _spread(figure: Entry | Figure | None, metric: str) -> str:
    if figure is None or figure.mean is None:
        return ""
    digits = _DIGITS[metric]
    return f"{figure.mean:.{digits}f}" + ("" if figure.deviation is None else f" ± {figure.deviation:.{digits}f}")


def _below(experiment: Experiment, block: Block) -> list[str]:
    """Explain the signs in the block, list its seeds, and say why figures differ from the published ones."""
    signs = [f"{LEGEND}."] if _has_published(block) else []
    if block.tested_against:
        signs.append(f"p: signed-rank test of {experiment.metrics[0]} against {block.tested_against}.")
    if block.seeds:
        chosen_on = [seed for seed in block.seeds if role_of(seed) == "tuning"]
        warning = f" Parameters are chosen on {format_seeds(chosen_on)}." if chosen_on else ""
        signs.append(f"Seeds {format_seeds(block.seeds)}.{warning}")
    return [*([" ".join(signs)] if signs else []), *notes(block)]


def _text(experiment: Experiment, blocks: Sequence[Block]) -> str:
    parts = [experiment.heading, *([experiment.about] if experiment.about else [])]
    for block in blocks:
        header, rows = grid(experiment, block)
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in [header, *rows]
        ]
        parts += ["", block.title, *(line.rstrip() for line in lines), *_below(experiment, block)]
    return "\n".join(parts).rstrip() + "\n"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Make a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_list(texts: Sequence[str]) -> str:
    """Make a Markdown list."""
    return "\n".join(f"- {text}" for text in texts)


def _markdown(experiment: Experiment, blocks: Sequence[Block]) -> str:
    parts = [f"## {experiment.heading}", *([experiment.about] if experiment.about else [])]
    for block in blocks:
        parts += [f"### {block.title}", markdown_table(*grid(experiment, block))]
        parts.append(markdown_list(_below(experiment, block)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _latex(experiment: Experiment, blocks: Sequence[Block]) -> str:
    parts = [_LATEX_NEEDS]
    for block in blocks:
        header, rows = grid(experiment, block)
        head, *body = (" & ".join(text.translate(_LATEX) for text in row) + r" \\" for row in (header, *rows))
        notes_below = (note.translate(_LATEX) for note in _below(experiment, block))
        lines = [
            r"\begin{table}[ht]",
            r"\centering",
            rf"\caption{{{f'{experiment.title}: {block.title}'.translate(_LATEX)}}}",
            r"\begin{adjustbox}{max width=\linewidth}",
            rf"\begin{{tabular}}{{{'l' * len(header)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{adjustbox}",
            *(rf"\par\smallskip\raggedright\footnotesize {note}" for note in notes_below),
            r"\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _html(experiment: Experiment, blocks: Sequence[Block]) -> str:
    parts = ["<!doctype html>", '<meta charset="utf-8">', f"<title>{html.escape(experiment.heading)}</title>"]
    parts.append(f"<h1>{html.escape(experiment.heading)}</h1>")
    if experiment.about:
        parts.append(f"<p>{html.escape(experiment.about)}</p>")
    for block in blocks:
        header, rows = grid(experiment, block)
        parts += [f"<h2>{html.escape(block.title)}</h2>", "<table>"]
        parts.append("<tr>" + "".join(f"<th>{html.escape(text)}</th>" for text in header) + "</tr>")
        parts += ["<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows]
        parts += ["</table>", *(f"<p>{html.escape(note)}</p>" for note in _below(experiment, block))]
    return "\n".join(parts) + "\n"


def _csv(experiment: Experiment, blocks: Sequence[Block]) -> str:
    """Write a row for each metric of each line, nothing rounded: for programs."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    which = ("experiment", "setting", "data", "regime", "row", "method", "parameters", "chosen", "seeds")
    figures = ("metric", "mean", "std", "published_mean", "published_std", "verdict", "reference", "p_value")
    writer.writerow([*which, *figures, "seconds", "peak_memory", "bytes_sent"])
    for block in blocks:
        for line in block.lines:
            for metric, entry in line.entries.items():
                published = entry.published
                writer.writerow(
                    as_text(cell)
                    for cell in (
                        experiment.name,
                        block.setting.title,
                        block.setting.data,
                        line.row.regime,
                        line.row.name,
                        line.row.method,
                        json.dumps(dict(line.row.parameters)),
                        line.chosen,
                        line.seeds,
                        metric,
                        entry.mean,
                        entry.deviation,
                        None if published is None else published.mean,
                        None if published is None else published.deviation,
                        entry.verdict,
                        block.reference,
                        line.p_value,
                        line.seconds,
                        line.peak_memory,
                        line.bytes_sent,
                    )
                )
    return stream.getvalue()


_WRITERS: dict[Format, Callable[[Experiment, Sequence[Block]], str]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}
