from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # where endpoints_by_call is


@pytest.fixture
def net(tmp_path):
    from endpoints_by_call import Net, study_of  # noqa: PLC0415 - after the path

    return Net(tmp_path, study_of())


@pytest.fixture
def loose_net(tmp_path):
    """A study whose sites may leave and come back."""
    from endpoints_by_call import ANY_SITES, Net, study_of  # noqa: PLC0415 - after the path

    return Net(tmp_path, study_of(more=ANY_SITES))
