"""What a user reads where feddag refuses something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from feddag.errors import FeddagError


def refusal(function: Callable[..., Any], *arguments: object) -> str:
    """The message, which is one line, of a call that is refused."""
    with pytest.raises(FeddagError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)
