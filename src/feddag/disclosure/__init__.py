"""What a study releases about one table: before it begins, and after it has ended."""

from feddag.disclosure.disclose import disclose, disclose_quickly
from feddag.disclosure.expected import check_budget, describe_release
from feddag.disclosure.figures import Disclosure, Figure, figures
from feddag.disclosure.log import disclose_log, disclosed, with_table

__all__ = [
    "Disclosure",
    "Figure",
    "check_budget",
    "describe_release",
    "disclose",
    "disclose_log",
    "disclose_quickly",
    "disclosed",
    "figures",
    "with_table",
]
