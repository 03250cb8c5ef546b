"""How many numbers a search with common mechanisms may ask for, and how many functions of a variable that allows.

Sums of many functions over few rows tell about single rows, however well each site's part is hidden. So the numbers of
a whole study stay below a share of the values that the sites hold.
"""

from __future__ import annotations

from itertools import count

from feddag.regression.features import FUNCTIONS

NUMBERS_PER_VALUE = 1 / 4
"""The numbers that sites release in all, for each value (rows times variables) of all sites."""
_LEAST_FUNCTIONS = 3
"""Of each variable: itself, a bell and a wave. With fewer, no curve is told from another."""


def _further_numbers(nodes: int) -> int:
    """Return about how many numbers the scores of families take and, in the end, the comparisons of graphs."""
    return nodes * min(50, 9 * (nodes + 1))


def summed_numbers(nodes: int, functions: int) -> int:
    """Count the means of all functions, so many of each variable, and of all their products."""
    size = nodes * functions
    return size + size * (size + 1) // 2


def most_summed_functions(nodes: int, rows: float) -> int:
    """Return how many functions of each variable may be summed over so many rows at all sites; 0 if it takes more."""
    allowed = NUMBERS_PER_VALUE * nodes * rows - _further_numbers(nodes)
    fitting = (each for each in range(FUNCTIONS, _LEAST_FUNCTIONS - 1, -1) if summed_numbers(nodes, each) <= allowed)
    return next(fitting, 0)


def least_rows(nodes: int) -> int:
    """Return how many rows the sites must have in all, for functions of so many variables to be summed."""
    return next(rows for rows in count(1) if most_summed_functions(nodes, rows))
