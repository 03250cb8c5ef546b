"""One option for a parameter, however many take it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from feddag.cli.options import Option, with_fields, with_options


def first(*, shared: int = 1, choice: Literal["a", "b"] = "a", amount: int = 1, tidy: bool = True) -> None: ...
def second(*, shared: int = 1, choice: Literal["b", "c"] = "b", amount: float | None = None) -> None: ...
def third(*, shared: int | None = 1, level: float = 2.0) -> None: ...


@pytest.fixture(scope="module")
def call():
    takers = {each.__name__: inspect.signature(each, eval_str=True).parameters for each in (first, second, third)}
    options = {name: Option(f"About {name}.") for name in ("shared", "choice", "amount", "tidy", "level")}
    got = []

    @with_options(takers, options, lambda names: f"Of {len(names)}")
    def command(*, given: dict[str, Any]) -> None:
        got.append(given)

    app = typer.Typer()
    app.command()(command)

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        return got.pop() if result.exit_code == 0 and got else result.output

    return run


def test_only_what_is_given_is_passed_on(call):
    assert call() == {}
    assert call("--shared", "3", "--level", "4") == {"shared": 3, "level": 4.0}


def test_a_choice_that_differs_may_be_that_of_any_taker(call):
    assert call("--choice", "c") == {"choice": "c"}
    assert "not one of 'a', 'b', 'c'" in call("--choice", "z")


def test_a_number_stays_whole_where_only_some_want_it_so(call):
    assert repr(call("--amount", "3")) == "{'amount': 3}"
    assert call("--amount", "0.5") == {"amount": 0.5}


def test_what_is_on_by_default_can_be_switched_off(call):
    assert call("--no-tidy") == {"tidy": False}


def test_help_names_the_takers_unless_all_or_one_take_it(call):
    text = " ".join(call("--help").replace("│", "").split())
    assert "About choice. (first, second)" in text
    assert "About shared. (" not in text
    assert "About level. (" not in text
    assert all(f"Of {count}" in text for count in (1, 2, 3))
    assert text.count("[default: (1)]") == 1  # not of amount, on whose default its takers differ


@dataclass(frozen=True)
class Shared:
    name: Annotated[str | None, typer.Option(help="Of whom.")] = None
    loud: Annotated[bool, typer.Option("--loud")] = False


def test_a_dataclass_is_a_group_of_options():
    got = []

    @with_fields("shared", Shared)
    def command(count: int, *, shared: Shared) -> None:
        """Count."""
        got.append((count, shared))

    app = typer.Typer()
    app.command()(command)
    assert CliRunner().invoke(app, ["3", "--name", "Ada"], catch_exceptions=False).exit_code == 0
    assert CliRunner().invoke(app, ["3", "--loud"], catch_exceptions=False).exit_code == 0
    assert got == [(3, Shared("Ada")), (3, Shared(loud=True))]
    assert "Of whom." in CliRunner().invoke(app, ["--help"]).output
