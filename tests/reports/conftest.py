from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddag import make_learner
from feddag.reports import write_report
from feddag.reports.pdf import browser_flags, find_browser
from feddag.runs import Run

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=`owned`">',
    "a & b < c | d * e_f",
    "漢字 Größe",
    "a name that is much too long to fit into any node of a drawing",
)


class Page(HTMLParser):
    """A page's elements, by name and attributes, and its text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    def all(self, name, class_=None):
        return [
            attributes
            for tag, attributes in self.elements
            if tag == name and (class_ is None or class_ in (attributes.get("class") or "").split())
        ]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="session")
def page_of() -> Callable[[Path], Page]:
    """The page of a run's report."""
    return lambda folder: Page(write_report(folder).read_text(encoding="utf-8"))


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a run's folder, for tests that write into it."""
    return lambda folder: shutil.copytree(folder, tmp_path / "run")


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a finished run on small tables."""

    def learn(method: str, names: Sequence[str], *, sites: Sequence[str] = ("Basel", "Lyon"), **parameters) -> Path:
        folder = tmp_path_factory.mktemp("run")
        draw = np.random.default_rng(1)
        sources = []
        for k in range(len(sites)):
            values = draw.normal(size=(60, len(names))).cumsum(axis=1)
            sources.append(folder / f"site-{k}.csv")
            pd.DataFrame(values, columns=list(names)).to_csv(sources[-1], index=False)
        learner = make_learner(method, **parameters)
        silos = learner.check(dict(zip(sites, sources, strict=True)))
        Run.start(folder / "run", learner, silos, sources, method).learn()
        return folder / "run"

    return learn


@pytest.fixture(scope="session")
def random_run(run_of) -> Callable[[int], Path]:
    made: dict[int, Path] = {}

    def of(nodes: int) -> Path:
        if nodes not in made:
            names = [f"x{k}" for k in range(nodes)]
            made[nodes] = run_of("random", names, edges_per_node=1.3 if nodes > 2 else 0.5, seed=3)
        return made[nodes]

    return of


@pytest.fixture(scope="session")
def notears_run(run_of) -> Path:
    """Linear, so that its history has figures; five variables."""
    return run_of("notears", [f"x{k}" for k in range(5)])


@pytest.fixture(scope="session")
def hostile_run(run_of) -> Path:
    """Of variables and sites whose names would do harm wherever they are not escaped."""
    return run_of("random", HOSTILE, sites=("</script><b>Basel</b>", "Lyon & 'Söhne'"), edges_per_node=1.5, seed=1)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """Chromium without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    program, driver = find_browser(), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no Chromium with its chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in [*browser_flags(tmp_path_factory.mktemp("profile")), "--window-size=1280,900"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=service.Service(driver))
    yield chrome
    chrome.quit()
