"""One file that holds all a run needs to go on: arrays, and a JSON document beside them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from feddag.errors import FeddagError
from feddag.federation.protocol import Arrays
from feddag.files import NO_ROOM, atomic_write

_DOCUMENT = "document.json"


def save_checkpoint(path: Path, document: dict[str, Any], arrays: Arrays) -> None:
    """Replace the file at once: a reader, or a run killed meanwhile, finds the old state or the new one."""
    text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    with atomic_write(path, "wb") as stream:
        np.savez(stream, **{_DOCUMENT: text, **arrays})  # pyright: ignore[reportArgumentType]


def not_kept(folder: Path, error: OSError) -> FeddagError:
    """Return the error of a participant whose disk does not take what it must remember."""
    remedy = "Make room there" if error.errno in NO_ROOM else "Mend this"
    return FeddagError(
        f"{folder}: {error.strerror or error}. {remedy}, and run the study again: what was done is kept."
    )


def load_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `save_checkpoint` wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return json.loads(arrays.pop(_DOCUMENT).tobytes()), arrays
    except FileNotFoundError:
        raise FeddagError(f"{path}: there is no such file. Restore it from a copy, or start the run anew.") from None
    except PermissionError:
        raise FeddagError(f"{path}: you may not read this file. Change its permissions.") from None
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile):
        # NumPy's own words would advise to load pickles, which would run whatever the file holds
        raise FeddagError(
            f"{path} is damaged, or not a checkpoint of feddag. Restore it from a copy, or start the run anew."
        ) from None
