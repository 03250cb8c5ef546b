"""Write the generated parts of README.md and of pages in docs/ from the store, the registry and the tasks.

    .venv/bin/python benchmarks/pages.py
    .venv/bin/python benchmarks/pages.py --measure limits

The text around the tables is the pages' own; each table stands between two marks that name it. Nothing is run:
`feddag experiment run ... --store benchmarks/results.sqlite` fills the store. Only with `--measure` are the benchmarks
of these names run, as the page itself says in the command above the table, and what they print becomes the table.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median, pstdev

import settings
from feddag import compare
from feddag.deployment.study_tasks import known_tasks
from feddag.experiments import Cell, Store, find_experiment
from feddag.experiments.comparison import compare_with_published
from feddag.experiments.formats import grid, markdown_list, markdown_table
from feddag.experiments.published import figures
from feddag.experiments.reasons import notes
from feddag.experiments.result import Result, reported_graphs
from feddag.experiments.seeds import REPORTED
from feddag.experiments.settings import DATA, Setting, Simulated, with_data
from feddag.files import atomic_write
from feddag.learners.factory import leaves_site
from feddag.learners.registry import METHODS

ROOT = Path(__file__).parents[1]
STORE = ROOT / "benchmarks" / "results.sqlite"

BESIDE_PUBLISHED = {
    "linear": ("PC, all", "GES, all", "NOTEARS, all", "NOTEARS-ADMM, federated"),
    "voting": ("PC, voting",),
    "cam-homogeneous": ("CAM, all", "CAM, separate"),
    "gp": ("MCSL, all", "MCSL, separate", "NOTEARS-MLP, all", "DAG-GNN, all"),
    "admm-nonlinear": ("NOTEARS-MLP-ADMM, federated",),
}
"""By experiment, the rows that are held against the paper, each in the experiment's setting of ER2 with 10 nodes."""
SANITY_IN = ("linear", "gp")


def spread(values: Iterable[float | None]) -> str:
    """Write such as 1.4 ± 0.5 (5): mean, standard deviation unless there is one seed only, number of seeds."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    deviation = f" ± {pstdev(known):.1f}" if len(known) > 1 else ""
    return f"{fmean(known):.1f}{deviation} ({len(known)})"


def best_published(setting: Simulated, regime: str, method: str = "") -> float | None:
    """Find the best published mean SHD in a regime, of methods whose name contains `method`."""
    wanted = (*(setting.published or ()), 1.0, regime, "SHD")
    found = [
        figure.mean
        for key, figure in figures().items()
        if (key.functions, key.graph, key.nodes, key.rows, key.participation, key.regime, key.metric) == wanted
        and method in key.method
        and figure is not None
    ]
    return min(found, default=None)


def kept(store: Store, of: Callable[[Simulated, int], Cell], setting: Simulated) -> list[Result]:
    return list(store.results_of(of(setting, seed) for seed in REPORTED).values())


def comparison(store: Store) -> str:
    """Put the search beside FedDAG and the published figures, on three kinds of data; list what misses the bound."""
    rows: list[list[str]] = []
    missed: dict[str, dict[str, list[Result]]] = {data: {} for data in DATA[:2]}
    run = dict.fromkeys(missed, 0)
    rises: dict[str, list[float]] = {"the search": [], "FedDAG": []}
    for setting in settings.SETTINGS:
        ours = {data: kept(store, _search_for(setting), with_data(setting, data)) for data in DATA}
        theirs = {data: kept(store, settings.feddag, with_data(setting, data)) for data in DATA[:2]}
        published, pooled = best_published(setting, "federated", "FedDAG"), best_published(setting, "all")
        if published is None or not any(ours.values()):
            continue
        bound = min(published / 4, float("inf") if pooled is None else pooled)
        for by_data, its in zip((ours, theirs), rises.values(), strict=True):
            its.extend(rise(*(by_data[data] for data in missed)))
        verdicts = {data: _within(ours[data], bound) for data in missed}
        for data, verdict in verdicts.items():
            run[data] += verdict != ""
            if verdict == "no":
                missed[data][setting.title] = ours[data]
        rows.append(
            [
                setting.title,
                *(spread(result.shd for result in each) for each in (*ours.values(), *theirs.values())),
                f"{published}",
                "" if pooled is None else f"{pooled}",
                f"{bound:.2f}",
                *verdicts.values(),
            ]
        )
    header = ["setting", *(f"search, {data}" for data in DATA), *(f"FedDAG here, {data}" for data in DATA[:2])]
    header += ["FedDAG published", "best published on pooled data", "bound", *(f"{data} within it" for data in missed)]
    told = [*(_misses(data, each, run[data]) for data, each in missed.items()), _describe_rises(rises)]
    return "\n\n".join([markdown_table(header, rows), *told])


def without_error(store: Store) -> str:
    """Count the graphs of 10 variables that the search and FedDAG find without an error, raw and standardised.

    Of all seeds that have been run in every setting, with both methods.
    """
    smaller = [setting for setting in settings.SETTINGS if setting.nodes == 10]
    found = {
        (name, data): [
            {result.seed: result.shd for result in kept(store, of(setting), with_data(setting, data))}
            for setting in smaller
        ]
        for data in DATA[:2]
        for name, of in {"the search": _search_for, "FedDAG": lambda _: settings.feddag}.items()
    }
    seeds = set(REPORTED).intersection(*(each for by_setting in found.values() for each in by_setting))
    if not seeds:
        raise SystemExit(f"{store.path} has no seed that was run in every setting of 10 variables.")
    right = {key: sum(each[seed] == 0 for each in by_setting for seed in seeds) for key, by_setting in found.items()}
    text = (
        f"Of {len(smaller) * len(seeds)} simulated graphs of 10 variables ({len(smaller)} of the paper's settings, "
        f"{len(seeds)} seed{'s' * (len(seeds) > 1)}),"
        f" the search finds {right['the search', 'raw']} without an error, and FedDAG "
        f"{right['FedDAG', 'raw']}; with every column standardised, {right['the search', 'standardised']} and "
        f"{right['FedDAG', 'standardised']}. [docs/search-figures.md](docs/search-figures.md) has the figures of every "
        "setting."
    )
    return textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False)


def _search_for(setting: Simulated) -> Callable[[Simulated, int], Cell]:
    """Let the search assume noise of equal variance where the setting is linear, as FedDAG does everywhere."""
    return partial(settings.search, noise="equal" if setting.functions == "linear" else "free")


def rise(raw: list[Result], standardised: list[Result]) -> list[float]:
    """Compute how much the mean SHD rises with standardised data, over shared seeds; nothing without any."""
    before = {result.seed: result.shd or 0.0 for result in raw}
    changes = [(result.shd or 0.0) - before[result.seed] for result in standardised if result.seed in before]
    return [fmean(changes)] if changes else []


def _describe_rises(rises: dict[str, list[float]]) -> str:
    rising = [
        f"of {name} in {sum(each > 0 for each in its)} of {len(its)} settings (median change {median(its):+.1f})"
        for name, its in rises.items()
        if its
    ]
    sentence = f"Standardised columns raise the mean SHD, over the seeds that both have, {', and '.join(rising)}."
    return sentence if rising else ""


def _within(results: list[Result], bound: float) -> str:
    if not results:
        return ""
    return "yes" if fmean(result.shd or 0.0 for result in results) <= bound else "no"


def _misses(data: str, missed: dict[str, list[Result]], of: int) -> str:
    if not missed:
        return f"All {of} settings keep the bound on {data} data."
    results = [result for each in missed.values() for result in each]
    counts = {name: sum(getattr(result, name) or 0 for result in results) for name in ("missing", "extra", "reversed")}
    errors = ", ".join(f"{count:.0f} {name}" for name, count in counts.items())
    return f"{len(missed)} of {of} settings miss the bound on {data} data: {'; '.join(missed)}. Their errors: {errors}."


def linear(store: Store) -> str:
    """Linear settings without the assumption of equal noise; SHD as reported where the reported graph was kept."""
    rows = []
    for setting in settings.SETTINGS:
        for data in DATA if setting.functions == "linear" else ():
            results = kept(store, settings.search, with_data(setting, data))
            if results:
                edges = spread((result.missing or 0.0) + (result.extra or 0.0) for result in results)
                reported = spread(_shd_reported(with_data(setting, data), result) for result in results)
                rows.append([with_data(setting, data).title, reported, edges, spread(each.shd for each in results)])
    header = ["setting", "SHD, open directions counted as right", "edges extra or missing", "SHD, directions guessed"]
    return markdown_table(header, rows)


def sharing(store: Store) -> str:
    """Put the search that lets the data decide what sites have in common beside the two that are told."""
    rows, worse = [], []
    for setting in settings.SETTINGS:
        by_sharing = {
            shared: {each.seed: each for each in kept(store, partial(settings.search, shared=shared), setting)}
            for shared in ("graph", "all", "auto")
        }
        seeds = set.intersection(*(set(each) for each in by_sharing.values()))
        if setting.nodes == 10 and seeds:
            shds = {name: [each[seed].shd or 0.0 for seed in seeds] for name, each in by_sharing.items()}
            rows.append([setting.title, *map(spread, shds.values())])
            if fmean(shds["auto"]) > min(fmean(shds["graph"]), fmean(shds["all"])) + 0.2:
                worse.append(setting.title)
    told = f"Worse than the better of the two by more than 0.2: {'; '.join(worse) or 'none'}."
    return f"{markdown_table(['setting', *(f'sharing = {name}' for name in ('graph', 'all', 'auto'))], rows)}\n\n{told}"


def _shd_reported(setting: Setting, result: Result) -> float | None:
    graphs = reported_graphs(result)
    return None if graphs is None else compare(graphs[0], setting.draw(result.seed).truth).shd


def sachs(store: Store) -> str:
    experiment = find_experiment("sachs")
    rows = []
    for block in compare_with_published(experiment, store):
        for line in block.lines:
            results = list(store.results_of(line.row.cell(block.setting, seed) for seed in experiment.seeds).values())
            if not results:
                continue
            counts = [mean(getattr(each, name) for each in results) for name in ("reversed", "extra", "missing")]
            right = mean((each.true_edges or 0) - (each.missing or 0) - (each.reversed or 0) for each in results)
            guesses = line.row.method == "search"
            reported = mean(_shd_reported(block.setting, each) for each in results) if guesses else ""
            figures = [mean(each.shd for each in results), reported, right, *counts]
            which = [block.setting.title, line.name, "sanity" if line.row.sanity else line.row.regime]
            rows.append([*which, *figures, str(line.seeds), f"{line.seconds:.1f}"])
    header = ["data", "method", "regime", "SHD", "as reported", "right", "reversed", "extra", "missing", "seeds"]
    return markdown_table([*header, "seconds"], rows)


def mean(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{round(fmean(known), 1):g}" if known else ""


def methods(_: Store) -> str:
    """List what a user must know to choose a method, from the registry."""
    rows = [
        [
            f"`{each.name}`",
            each.summary,
            each.assumptions,
            leaves_site(each)[each.regimes[0]],
            ", ".join(each.regimes),
            each.reference,
        ]
        for each in METHODS.values()
    ]
    return markdown_table(["method", "what it does", "assumes", "leaves a site", "regimes", "reference"], rows)


def disclosures(_: Store) -> str:
    """List what each task of feddag's own methods discloses, from its declaration."""
    rows = [
        [
            f"`{name}`",
            spec.discloses,
            "; ".join(f"`{array}`: {output.discloses}" for array, output in spec.answers.items()),
            "every site" if spec.every_site else "a quorum",
        ]
        for name, spec in sorted(known_tasks().items())
    ]
    return markdown_table(["task", "an answer discloses", "its arrays", "the sum needs"], rows)


def published(store: Store) -> str:
    """Put each method to compare with beside its published figures, with the sanity checks; then why they differ."""
    rows, reasons = [], []
    for name, wanted in BESIDE_PUBLISHED.items():
        experiment = find_experiment(name)
        setting = Simulated("linear" if name == "linear" else "gp")
        for block in compare_with_published(replace(experiment, settings=(setting,)), store):
            _, texts = grid(experiment, block, published=True)
            for line, (regime, _, *cells, _, seeds, seconds) in zip(block.lines, texts, strict=True):
                if line.seeds and (line.row.in_regime in wanted or (line.row.sanity and name in SANITY_IN)):
                    rows.append([f"`{line.row.method}`", regime, setting.title, *cells, seeds, seconds])
            reasons += [note for note in notes(block) if note.startswith(wanted)]
    header = ["method", "regime", "data", "SHD", "published", "", "TPR", "published", "", "seeds", "seconds"]
    return f"{markdown_table(header, rows)}\n\n{markdown_list(reasons)}"


PAGES = {
    ROOT / "README.md": {"without-error": without_error},
    ROOT / "docs" / "search-figures.md": {
        "comparison": comparison,
        "sharing": sharing,
        "linear": linear,
        "sachs": sachs,
    },
    ROOT / "docs" / "hidden-causes.md": {},
    ROOT / "docs" / "federation.md": {"disclosures": disclosures},
    ROOT / "docs" / "security.md": {},
    ROOT / "docs" / "methods.md": {"methods": methods, "published": published},
}


def make_page(page: Path, store: Store) -> str:
    """Return the page with its tables made anew."""
    text = page.read_text(encoding="utf-8")
    for name, make in PAGES[page].items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        table = make(store).rstrip()
        text, count = between.subn(lambda marks, table=table: f"{marks[1]}\n{table}\n\n{marks[2]}", text)
        if count != 1:
            raise SystemExit(
                f"{page} must have the marks <!-- {name} --> and <!-- end --> once, and has them {count} times."
            )
    return text


MEASURED = re.compile(
    r"(?P<command>```console\n\$ python (?P<program>benchmarks/(?P<name>\w+)\.py)(?P<options>.*?)\n```\n\n"
    r"<!-- measured -->\n).*?(?P<end><!-- end -->)",
    re.DOTALL,
)
"""A command that prints a table, and the table that it printed."""


def measure(text: str, names: Iterable[str]) -> str:
    """Return the page with the tables of these benchmarks measured anew, here and now."""

    def run(table: re.Match[str]) -> str:
        if table["name"] not in names:
            return table[0]
        options = shlex.split(table["options"].replace("\\\n", " "))
        command = [sys.executable, table["program"], *options]
        printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
        return f"{table['command']}\n{printed.strip()}\n\n{table['end']}"

    return MEASURED.sub(run, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=STORE, help="where results are kept")
    shown = {table["name"] for page in PAGES for table in MEASURED.finditer(page.read_text(encoding="utf-8"))}
    parser.add_argument("--measure", nargs="+", default=[], choices=sorted(shown), help="benchmarks to run again")
    options = parser.parse_args()
    store = Store(options.store, create=False)
    for page in PAGES:
        text = measure(make_page(page, store), options.measure)
        with atomic_write(page) as stream:
            stream.write(text)
        print(f"Wrote {page}")


if __name__ == "__main__":
    main()
