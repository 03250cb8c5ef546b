"""The one exception for a user's mistake."""

from __future__ import annotations


class FeddagError(ValueError):
    """Input that feddag cannot use.

    The message is one line that names what was found, where (site, column, parameter), and what to do about it.
    The command line prints it without a traceback and exits with code 2.
    """
