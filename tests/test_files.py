"""A file appears whole or not at all."""

from __future__ import annotations

import errno
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddag.errors import FeddagError
from feddag.files import as_text, atomic_write, from_text


def test_text_is_utf_8_with_line_ends_as_written(tmp_path):
    with atomic_write(tmp_path / "f") as stream:
        stream.write("é\n\r\n")
    assert (tmp_path / "f").read_bytes() == "é\n\r\n".encode()


def test_bytes_are_written_in_binary_mode(tmp_path):
    with atomic_write(tmp_path / "f", "wb") as stream:
        stream.write(b"\x00\xff")
    assert (tmp_path / "f").read_bytes() == b"\x00\xff"


def test_the_old_content_stands_until_the_new_is_complete(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    with atomic_write(path) as stream:
        stream.write("new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_half_way_leaves_the_old_file_and_no_temporary(tmp_path, error):
    def fail_half_way():
        with atomic_write(path) as stream:
            stream.write("half")
            raise error

    path = tmp_path / "f"
    path.write_text("old")
    with pytest.raises(error):
        fail_half_way()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_an_error_half_way_leaves_nothing_where_nothing_was(tmp_path):
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "f"):
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_a_replacement_that_fails_leaves_no_temporary(tmp_path):
    with pytest.raises(OSError, match="f"), atomic_write(tmp_path / "f"):
        (tmp_path / "f").mkdir()
    assert os.listdir(tmp_path) == ["f"]
    with pytest.raises(FeddagError, match="f is a directory"), atomic_write(tmp_path / "f"):
        pass


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_the_umask(tmp_path, umask, expected):
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "f") as stream:
            stream.write("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == expected


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_a_symbolic_link_is_written_through(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_write(tmp_path / "link") as stream:
        stream.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_missing_directory_is_refused_by_name(tmp_path):
    with pytest.raises(FeddagError, match="absent does not exist"), atomic_write(tmp_path / "absent" / "f"):
        pass


def test_an_error_names_the_file_that_was_to_be_written(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError) as error, atomic_write(tmp_path / "graph.csv"):
        pass
    assert error.value.filename == str(tmp_path / "graph.csv")


@pytest.mark.skipif(os.name != "posix", reason="Windows cannot open a directory")
def test_content_and_name_are_on_the_disk_when_the_block_has_ended(tmp_path, monkeypatch):
    synced = []
    sync, replace = os.fsync, os.replace

    def recorded_sync(descriptor):
        status = os.fstat(descriptor)
        synced.append(status.st_ino if stat.S_ISDIR(status.st_mode) else "content")
        sync(descriptor)

    def recorded_replace(source, target):
        synced.append("renamed")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    with atomic_write(tmp_path / "f") as stream:
        stream.write("new")
    assert synced == ["content", "renamed", tmp_path.stat().st_ino]


@given(st.text(alphabet="'=+-@\t\r\n a1") | st.text())
def test_no_cell_is_a_formula_and_each_is_read_as_it_was(cell):
    written = as_text(cell)
    assert not written.startswith(tuple("=+-@\t\r\n"))
    assert from_text(written) == cell


@pytest.mark.parametrize("cell", ["age", "'age'", "", 1, -1.5, None])
def test_other_cells_stay_as_they_are(cell):
    assert as_text(cell) is cell
