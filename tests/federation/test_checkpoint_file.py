"""A checkpoint is one file, whole or not there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from feddag.errors import FeddagError
from feddag.federation.checkpoint import load_checkpoint, save_checkpoint

DOCUMENT = {"round": 3, "h": math.inf, "names": ["é", "b"], "nested": {"finished": False}}


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "shared/graph": rng.normal(size=(3, 3)).astype(np.float32),
        "sites/0/count": np.int32(7),
        "empty": np.zeros((0, 2)),
    }


def test_what_is_saved_is_loaded_to_the_bit(tmp_path, arrays):
    path = tmp_path / "run.npz"
    save_checkpoint(path, DOCUMENT, arrays)
    document, loaded = load_checkpoint(path)
    assert document == DOCUMENT
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype


def test_the_path_is_the_one_given_whatever_its_extension(tmp_path, arrays):
    save_checkpoint(tmp_path / "state.checkpoint", DOCUMENT, arrays)
    assert [file.name for file in tmp_path.iterdir()] == ["state.checkpoint"]


def test_a_failed_save_leaves_the_old_state(tmp_path, arrays):
    path = tmp_path / "run.npz"
    save_checkpoint(path, DOCUMENT, arrays)
    with pytest.raises(TypeError):
        save_checkpoint(path, {"round": object()}, arrays)
    assert load_checkpoint(path)[0] == DOCUMENT
    assert list(tmp_path.iterdir()) == [path]


def broken(content: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "text": b"not a checkpoint",
        "cut off": content[: len(content) // 2],
        "damaged": content[:200] + bytes(byte ^ 0xFF for byte in content[200:260]) + content[260:],
    }


@pytest.mark.parametrize("kind", ["empty", "text", "cut off", "damaged", "foreign", "a single array", "a pickle"])
def test_a_file_that_is_no_checkpoint_is_refused_by_name_in_one_line(tmp_path, arrays, kind):
    path = tmp_path / "run.npz"
    save_checkpoint(path, DOCUMENT, arrays)
    if kind == "foreign":
        np.savez(path, x=np.zeros(3))
    elif kind == "a single array":
        with path.open("wb") as stream:
            np.save(stream, np.zeros(3))
    elif kind == "a pickle":
        np.savez(path, **{"document.json": np.array([{}], dtype=object)})
    else:
        path.write_bytes(broken(path.read_bytes())[kind])
    with pytest.raises(FeddagError, match=r"is damaged, or not .*start the run anew\.$") as caught:
        load_checkpoint(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "pickle" not in str(caught.value)  # NumPy would advise to load one


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path):
    with pytest.raises(FeddagError, match=r"run\.npz: there is no such file"):
        load_checkpoint(tmp_path / "run.npz")
