"""A library function's parameters as the options of a command.

Names, types and defaults come from the function's signature. An option that is not given is not passed on, so
that the function's own default holds and stands nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer


@dataclass(frozen=True)
class Option:
    """What the signature does not tell."""

    help: str
    parse: Callable[[str], Any] | None = None
    """From the text of the command line, where the parameter has no plain type."""
    metavar: str | None = None


def number(text: str) -> int | float:
    """Keeps apart 1 and 1.0, which some parameters do."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def with_options_of(
    function: Callable[..., Any], options: Mapping[str, Option], *, panel: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each parameter of `function`; its argument `given` holds those used."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def called(**arguments: Any) -> None:
            chosen = {name: arguments.pop(name) for name in options}
            command(**arguments, given={name: value for name, value in chosen.items() if value is not None})

        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [each for each in own if each.name != "given"] + _parameters(function, options, panel)
        called.__doc__ = command.__doc__
        called.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate


def _parameters(function: Callable[..., Any], options: Mapping[str, Option], panel: str) -> list[inspect.Parameter]:
    types = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_annotation(types[name], parameter, options[name], panel),
        )
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def _annotation(kind: Any, parameter: inspect.Parameter, option: Option, panel: str) -> Any:
    default = parameter.default
    shown = f"{default:g}" if isinstance(default, float) and default > 1e6 else str(default)
    return Annotated[
        (Any if option.parse else kind) | None,
        typer.Option(
            f"--{parameter.name.replace('_', '-')}",
            rich_help_panel=panel,
            help=option.help,
            parser=option.parse,
            metavar=option.metavar,
            show_default=False if default is None or default is False else shown,
        ),
    ]
