"""Write the tables of `docs/search.md` from what is kept in `comparison.csv`, `limits.csv` and `sachs.csv`.

    .venv/bin/python benchmarks/search_page.py

The text around the tables is the page's own; each table stands between two marks that name it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from statistics import mean, pstdev

import compare
import limits
import sachs
from cells import CELLS, DATA

PAGE = Path(__file__).parents[1] / "docs" / "search.md"


def shd(figures: list[float]) -> str:
    """Such as 1.4 ± 0.5 (5): mean, standard deviation, number of seeds."""
    if not figures:
        return ""
    return f"{mean(figures):.1f} ± {pstdev(figures):.1f} ({len(figures)})"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def comparison() -> str:
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in compare.STORE.rows():
        found[row["cell"], row["data"], row["method"]].append(float(row["shd"]))
    rows = []
    for cell in CELLS.values():
        method = "search-equal-noise" if cell.functions == "linear" else "search"
        ours = {data: found[cell.name, data, method] for data in DATA}
        published, pooled = cell.published("federated", "FedDAG"), cell.published("all")
        if published is None or not any(ours.values()):
            continue
        bound = min(published / 4, float("inf") if pooled is None else pooled)
        figures = ours["raw"]
        verdict = "" if not figures else "yes" if mean(figures) <= bound else "no"
        rows.append(
            [
                f"{cell.functions} {cell.graph}, {cell.nodes} nodes"
                + ("" if cell.rows == 600 else f", {cell.rows} rows"),
                *(shd(ours[data]) for data in DATA),
                shd(found[cell.name, "raw", "feddag"]),
                shd(found[cell.name, "standardised", "feddag"]),
                f"{published}",
                "" if pooled is None else f"{pooled}",
                f"{bound:.2f}",
                verdict,
            ]
        )
    header = [
        "setting",
        "search, raw",
        "search, standardised",
        "search, unequal noise",
        "FedDAG here, raw",
        "FedDAG here, standardised",
        "FedDAG published",
        "best published on pooled data",
        "bound",
        "raw within bound",
    ]
    return table(header, rows)


def linear_without_equal_noise() -> str:
    found: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in compare.STORE.rows():
        if row["method"] == "search" and row["cell"].startswith("linear"):
            found[row["cell"], row["data"]].append(row)
    rows = [
        [
            f"{cell}, {data}",
            shd([float(each["shd_reported"]) for each in kept]),
            shd([float(each["extra"]) + float(each["missing"]) for each in kept]),
        ]
        for (cell, data), kept in sorted(found.items())
    ]
    return table(["setting", "SHD, open directions counted as right", "edges extra or missing"], rows)


def what_limits() -> str:
    rows = []
    for row in limits.STORE.rows():
        better = float(row["truth"]) > float(row["found"]) + 1e-5
        same = row["shd"] == "0"
        rows.append(
            [
                row["cell"],
                row["seed"],
                row["shd"],
                row["found"],
                row["truth"],
                "" if same else "search" if better else "score",
            ]
        )
    return table(["setting", "seed", "SHD", "log-evidence of the graph found", "of the truth", "limited by"], rows)


def real_data() -> str:
    header = ["data", "method", "SHD", "right", "undirected", "reversed", "extra", "missing", "seconds"]
    return table(header, [[row[name.lower()] for name in header] for row in sachs.STORE.rows()])


TABLES = {
    "comparison": comparison,
    "linear": linear_without_equal_noise,
    "limits": what_limits,
    "sachs": real_data,
}


def main() -> None:
    page = PAGE.read_text()
    for name, make in TABLES.items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = between.subn(lambda marks, make=make: f"{marks[1]}\n{make()}\n\n{marks[2]}", page)
        if count != 1:
            raise SystemExit(f"{PAGE} must have the marks of the table {name!r} once, and has them {count} times.")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
