import os
import sys
import time
import types
import warnings

import joblib
import pytest
from joblib.externals.loky import get_reusable_executor

from feddag import FeddagError
from feddag.parallel import as_finished


@pytest.mark.parametrize(
    ("chosen", "jobs", "expected"),
    [
        pytest.param(None, 2, "1", id="several processes have one thread each"),
        pytest.param("3", 2, "3", id="a choice of the user stands"),
        pytest.param(None, 1, None, id="one alone has all"),
    ],
)
def test_how_many_threads_jax_has(monkeypatch, chosen, jobs, expected):
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    if chosen is not None:
        monkeypatch.setenv("PJRT_NPROC", chosen)
    get_reusable_executor().shutdown()  # its processes have the environment that they began with
    found = list(as_finished((joblib.delayed(os.getenv)("PJRT_NPROC") for _ in range(3)), jobs))
    assert found == [expected] * 3
    assert os.getenv("PJRT_NPROC") == chosen


def test_a_process_that_has_grown_is_replaced_in_silence():
    def growing():
        vars(time).setdefault("grown", []).append(b"1" * 400_000_000)  # where it outlives the call
        time.sleep(1.5)  # loky looks once a second
        return os.getpid()

    get_reusable_executor().shutdown()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = list(as_finished((joblib.delayed(growing)() for _ in range(6)), 2))
    assert len(found) == 6
    assert len(set(found)) > 2
    assert not warned


def test_what_another_process_cannot_load_is_told(monkeypatch):
    here_alone = types.ModuleType("here_alone")
    exec("def answer():\n    return 42", vars(here_alone))
    monkeypatch.setitem(sys.modules, "here_alone", here_alone)
    with pytest.raises(FeddagError, match=r"could not load .*No module named 'here_alone'.* installed"):
        list(as_finished((joblib.delayed(here_alone.answer)() for _ in range(2)), 2))
