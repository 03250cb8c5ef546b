"""Write a file so that no reader, no crash and no second writer ever meets half of it, and no spreadsheet runs it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shlex
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TextIO, overload

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

from feddag.errors import FeddagError

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""What a spreadsheet takes for a formula, or for the whitespace before one; with apostrophes that `as_text` added."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The numbers of an `OSError` that room on the disk would mend."""
_LOCK_ATTEMPTS = 5
"""Whoever only looks whether a file is locked holds it for a moment."""


def as_text(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run as a formula; `from_text` undoes it.

    All writers of CSV use it: names of variables and sites come from other participants.
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def from_text(cell: str) -> str:
    """Read a cell that `as_text` wrote."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def check_target(path: Path, *inputs: str | Path) -> None:
    """Refuse a file that cannot be written, or that is one of `inputs`; call it before the work, not after."""
    if path.is_dir():
        raise FeddagError(f"{path} is a directory. Name a file.")
    for each in inputs:
        if os.path.realpath(each) == os.path.realpath(path):
            raise FeddagError(f"{path} is what this is made from, and would be lost. Name another file to write to.")
    if not path.parent.is_dir():
        raise FeddagError(f"{path}: the directory {path.parent} does not exist. Create it first.")


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that holds anything, or that is a file; call it before the work, not after."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "one with content" if folder.is_dir() else "a file"
        raise FeddagError(f"{folder} must be a new or an empty folder. Got {found} instead.")


def check_private(folder: Path) -> None:
    """Refuse a folder that others may enter, whose keys others may read, or that has symbolic links or is one.

    A link in a folder that somebody sent would let its sender choose what is read here, and what is overwritten.
    """
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in (*folders, *files))):
            if path.is_symlink():
                raise FeddagError(f"{path} is a symbolic link. Put what it stands for in its place, or remove it.")
            private = path == folder or path.suffix == ".key"
            if private and os.name == "posix" and path.stat().st_mode & 0o077:
                mode = "700" if path == folder else "600"
                raise FeddagError(
                    f"{path}: others than its owner may read it. Type: chmod {mode} {shlex.quote(str(path))}"
                )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an `OSError` the name of what could not be written.

    A full disk says only that there is no room, and a path beside the target, hidden and temporary, is not the user's.
    """
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None or Path(os.fsdecode(error.filename)).name.startswith(f".{path.name}")
        if error.errno is not None and unnamed:
            error.filename = str(path)
        raise


@overload
def atomic_write(path: str | os.PathLike[str], mode: Literal["w"] = "w") -> AbstractContextManager[TextIO]: ...
@overload
def atomic_write(path: str | os.PathLike[str], mode: Literal["wb"]) -> AbstractContextManager[BinaryIO]: ...
@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """Open a file for writing that appears under its name only once it is complete.

    The content goes to a temporary file in the same directory (a rename is atomic only within one file
    system), reaches the disk, and then takes the place of `path`, which reaches the disk as well: once the block has
    ended, even a power cut leaves the new content. If the body raises, `path` stays as it was and nothing is left
    behind. A symbolic link is written through, as `open` would.

    Text is UTF-8 and its line ends are written as given, so that a file is the same on every platform.
    """
    target = Path(os.path.realpath(path))
    check_target(target)
    # Opened by name rather than by tempfile, whose files are private (0600): this one obeys the umask.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    encoding, newline = (None, None) if mode == "wb" else ("utf-8", "")
    try:
        with naming(target), open(temporary, mode.replace("w", "x"), encoding=encoding, newline=newline) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        _sync_directory(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_directory(path: Path) -> None:
    """Bring a rename to the disk: until then, a power cut may bring back the old file, or none."""
    if os.name != "posix":  # Windows has no descriptors of directories
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(stream: IO[Any], refusal: str) -> None:
    """Keep a second writer off a file until it is closed or its process has ended; raise `refusal` at the second."""
    if fcntl is None:
        return
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if attempt + 1 == _LOCK_ATTEMPTS:
                raise FeddagError(refusal) from None
            time.sleep(0.02)
        except OSError:  # some network file systems have no locks
            return


def is_locked(path: Path) -> bool:
    """Return whether a process holds a file's lock; on a system without locks, always `True`."""
    if fcntl is None:
        return True
    try:
        with open(path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
