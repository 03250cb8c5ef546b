"""The one exception for a user's mistake, and the warning of data that are not as a method assumes them."""

from __future__ import annotations


class FeddagError(ValueError):
    """Input that feddag cannot use.

    The message is one line that names what was found, where (site, column, parameter), and what to do about it.
    The command line prints it without a traceback and exits with code 2.
    """


class AssumptionWarning(UserWarning):
    """After a fit: the data are not as the method assumes them. The message names the variables and a remedy."""
