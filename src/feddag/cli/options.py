"""The parameters of library functions as the options of a command.

Names, types and defaults come from the functions' signatures. An option that is not given is not passed on, so
that the function's own default holds and stands nowhere else.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, Optional, get_args, get_origin, get_type_hints

import typer

from feddag.errors import FeddagError

OutputFormat = Annotated[Literal["text", "json"], typer.Option(help="For people, or for programs.")]
"""For commands that print what they have found."""
LocalTables = Annotated[
    Optional[list[str]],  # noqa: UP045 - as Typer reads it
    typer.Option(metavar="SITE=SILO", help="Of a network run, at a site: the site's own table.", show_default=False),
]
"""For commands that need rows, where those of a run stayed at its sites."""


_WORDS = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Option:
    """The parts of an option that the signature lacks."""

    help: str
    parse: Callable[[str], Any] | None = None
    """From the text of the command line, where the parameter has no plain type."""
    metavar: str | None = None


def names(text: str) -> list[str]:
    """Parse names such as A,B,C."""
    return [name.strip() for name in text.split(",") if name.strip()]


def edges(text: str) -> list[list[str]]:
    """Parse edges such as A->B,B->C."""
    pairs = [[name.strip() for name in pair.split("->")] for pair in text.split(",") if pair.strip()]
    for pair in pairs:
        if len(pair) != 2 or not all(pair):
            raise ValueError(f"{'->'.join(pair)!r} is no edge such as A->B")
    return pairs


def tiers(text: str) -> list[list[str]]:
    """Parse tiers such as A,B;C,D."""
    return [names(tier) for tier in text.split(";")]


def number(text: str) -> int | float:
    """Parse a number, and keep apart 1 and 1.0, as some parameters do."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def ranges(text: str) -> tuple[float, float] | dict[str, tuple[float, float]]:
    """Parse ranges such as age=0:120,bmi=12:50, or one for all such as 0:120."""
    if "=" not in text:
        return _range(text)
    return {name: _range(limits) for name, limits in _by_name(text, "age=0:120")}


def counts(text: str) -> dict[str, int]:
    """Parse whole numbers by name, such as sex=2,stage=4."""
    return {name: int(count) for name, count in _by_name(text, "stage=4")}


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is no range such as 0:120")
    return float(low), float(high)


def _by_name(text: str, example: str) -> list[tuple[str, str]]:
    """Split such as a=1,b=2 at commas, each part at its last equals sign."""
    parts = [tuple(each.strip() for each in part.rpartition("=")) for part in text.split(",") if part.strip()]
    for name, _, found in parts:
        if not (name and found):
            raise ValueError(f"{name or found!r} is not written such as {example}")
    return [(name, found) for name, _, found in parts]


def grid(texts: list[str], *, example: str = "l1=0.01,0.1") -> dict[str, list[Any]]:
    """Parse texts such as the example; each value once."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name.strip() and equals and values.strip()):
            raise FeddagError(f"{text!r} is no parameter with its values. Write it such as {example}.")
        name = name.strip().replace("-", "_")
        if name in found:
            raise FeddagError(f"{name!r} is given twice. Put all its values in one place, such as {example}.")
        read = [value(each) for each in values.split(",")]
        found[name] = [*{(type(each), each): each for each in read}.values()]  # 1 site is not 1.0, the share of all
    return found


def assignments(texts: list[str]) -> dict[str, Any]:
    """Parse texts such as l1=0.01."""
    found = grid(texts, example="l1=0.01")
    for name, values in found.items():
        if len(values) > 1:
            raise FeddagError(f"{name!r} has {len(values)} values here. Give one.")
    return {name: values[0] for name, values in found.items()}


def value(text: str) -> Any:
    """Parse a number, None, True or False; return any other text as it is."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return number(text)
    except ValueError:
        return text


def command(words: str, options: Mapping[str, Any]) -> str:
    """Return a command line: the words, and the options that are not None."""
    given = {f"--{name.replace('_', '-')}": str(value) for name, value in options.items() if value is not None}
    return " ".join([words, *(f"{name} {shlex.quote(value)}" for name, value in given.items())])


Takers = Mapping[str, Mapping[str, inspect.Parameter]]
"""By name, those that the options are for, and their parameters."""


def with_options(
    takers: Takers, options: Mapping[str, Option], panel: Callable[[Sequence[str]], str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each parameter of the takers; its argument `given` holds those used.

    A parameter of several takers is one option, whose help names them unless all take it. `panel` returns the
    heading of an option, given the names of those that take it.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        added = _parameters(takers, options, panel)

        def called(**arguments: Any) -> None:
            chosen = {each.name: arguments.pop(each.name) for each in added}
            command(**arguments, given={name: value for name, value in chosen.items() if value is not None})

        return _with_parameters(called, command, "given", added)

    return decorate


def with_fields(name: str, group: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a dataclass, annotated as Typer takes it; its argument `name` holds
    the dataclass.
    """
    annotations = get_type_hints(group, include_extras=True)
    added = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=annotations[each.name]
        )
        for each in fields(group)
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def called(**arguments: Any) -> None:
            held = group(**{each.name: arguments.pop(each.name) for each in added})
            command(**arguments, **{name: held})

        return _with_parameters(called, command, name, added)

    return decorate


def _with_parameters(
    called: Callable[..., None], command: Callable[..., None], replaced: str, added: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """Give `called` the docstring and parameters of `command`, with `added` in place of the one that they fill."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [*(each for each in own if each.name != replaced), *added]
    called.__doc__ = command.__doc__
    called.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _parameters(
    takers: Takers, options: Mapping[str, Option], panel: Callable[[Sequence[str]], str]
) -> list[inspect.Parameter]:
    names = dict.fromkeys(name for parameters in takers.values() for name in parameters)
    by_name = {
        name: {taker: parameters[name] for taker, parameters in takers.items() if name in parameters} for name in names
    }
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_annotation(
                list(theirs.values()),
                options[name],
                panel(list(theirs)),
                of=f" ({', '.join(theirs)})" if 1 < len(theirs) < len(takers) else "",
            ),
        )
        for name, theirs in by_name.items()
    ]


def _annotation(parameters: Sequence[inspect.Parameter], option: Option, panel: str, *, of: str) -> Any:
    kind, parse = _kind_and_parser([each.annotation | None for each in parameters], option)
    first, *others = [each.default for each in parameters]
    shown = f"{first:g}" if isinstance(first, float) and first > 1e6 else str(first)
    flag = parameters[0].name.replace("_", "-")
    hidden = first is False or not isinstance(first, str | int | float) or any(each != first for each in others)
    return Annotated[
        kind,
        typer.Option(
            f"--{flag}/--no-{flag}" if first is True else f"--{flag}",
            rich_help_panel=panel,
            help=f"{option.help}{of}",
            parser=parse,
            metavar=option.metavar or ("NUMBER" if parse else None),
            show_default=False if hidden else shown,
        ),
    ]


def _kind_and_parser(kinds: Sequence[Any], option: Option) -> tuple[Any, Callable[[str], Any] | None]:
    """Return how to parse an option. Where its takers differ, each refuses what it does not accept."""
    if option.parse:
        return Any | None, option.parse
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0], None
    if all(set(get_args(kind)) <= {int, float, type(None)} for kind in kinds):
        return Any | None, number
    choices = [_choices(kind) for kind in kinds]
    if all(choices):
        known = tuple(dict.fromkeys(choice for each in choices for choice in each))
        return Optional[Literal[known]], None  # noqa: UP045 - a Literal made here has no |
    return str | None, None


def _choices(kind: Any) -> tuple[str, ...]:
    """Return the choices of a type such as Literal["a", "b"] | None; none for other types."""
    of_each = [
        get_args(each) if get_origin(each) is Literal else () for each in get_args(kind) if each is not type(None)
    ]
    return tuple(choice for each in of_each for choice in each) if all(of_each) else ()
