"""The one exception for a user's mistake, mistakes in names, and the warning of data unlike a method's assumptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches


class FeddagError(ValueError):
    """Input that feddag cannot use.

    The message is one line that names what was found, where (site, column, parameter), and what to do about it.
    The command line prints it without a traceback and exits with code 2.
    """


class AssumptionWarning(UserWarning):
    """After a fit: the data are not as the method assumes them. The message names the variables and a remedy."""


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a question after the nearest known name, to be put behind an error."""
    close = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else otherwise


def check_unique(names: Iterable[str], what: str, remedy: str) -> None:
    """Refuse a name that occurs twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise FeddagError(f"{what} {name!r} occurs {count} times. {remedy}")
