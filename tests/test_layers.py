"""The layers stand in two places, the contract that `make lint` checks and the page that explains it, and agree."""

from __future__ import annotations

import tomllib

from snippets import ROOT, blocks

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
(LAYERS,) = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]


def _parts(layer: str) -> set[str]:
    return {part.strip().removeprefix("feddag.") for part in layer.split("|")}


def test_the_page_shows_the_layers_of_the_contract():
    (shown,) = blocks("docs/architecture.md", "layers")
    assert [_parts(line) for line in shown.splitlines()] == [_parts(layer) for layer in LAYERS]


def test_every_module_of_feddag_has_a_layer():
    in_layers = set().union(*map(_parts, LAYERS))
    modules = {
        path.stem
        for path in (ROOT / "src" / "feddag").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert modules - in_layers == {"__init__", "__main__"}


def test_the_page_says_what_each_package_holds():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("| package | holds |")[1].split("\n\n")[0]
    lacking = [part for layer in LAYERS for part in _parts(layer) if f"`{part}`" not in table]
    assert not lacking


def test_lint_holds_the_contract():
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nlint:")[1].split("\n\n")[0]
    assert "lint-imports" in lint
