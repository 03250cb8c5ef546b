from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parent))  # where flare_processes is

if TYPE_CHECKING:
    from flare_processes import Federation


@pytest.fixture(scope="module")
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A federation whose study, the module's `STUDY`, has ended, and which is still up."""
    from flare_processes import Federation  # noqa: PLC0415 - needs nvflare

    with Federation(tmp_path_factory.mktemp("federation"), **request.module.STUDY).after_study() as federation:
        yield federation
