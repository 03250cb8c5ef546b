"""From whatever a user hands over to checked silos: frames, arrays, a simulation, or paths of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from feddag.errors import FeddagError
from feddag.silos.checks import checked_silo, checked_silos
from feddag.silos.silo import Silo
from feddag.silos.simulation import Simulation


def as_silos(silos: Any) -> tuple[Silo, ...]:
    """Check and name the sites' tables, columns in the first site's order.

    Args:
        silos: A `Simulation`; or one table per site, as a mapping from site names or as a sequence. A table is a
            DataFrame, a two-dimensional array, a `Silo`, or the path of a `.csv`, `.tsv` or `.parquet` file. Sites
            of a sequence are named after their files, or `site-01`, `site-02`, ...
    """
    if isinstance(silos, Simulation):
        silos = silos.silos
    if isinstance(silos, str | PathLike):
        silos = [silos]
    if isinstance(silos, Mapping):
        return checked_silos([_silo(str(name), table) for name, table in silos.items()])
    if not isinstance(silos, Sequence):
        raise FeddagError(
            f"silos must be a list or dict of tables or paths, or a Simulation. Got {type(silos).__name__} "
            "instead; put a single table into a list."
        )
    names = _site_names(silos)
    return checked_silos([_silo(name, table) for name, table in zip(names, silos, strict=True)])


def _site_names(tables: Sequence[Any]) -> list[str]:
    """After the file's stem where there is one, unless two files share it: then after the whole path."""
    stems = [Path(table).stem if isinstance(table, str | PathLike) else None for table in tables]
    width = max(2, len(str(len(tables))))
    names = []
    for number, (table, stem) in enumerate(zip(tables, stems, strict=True), start=1):
        if isinstance(table, Silo):
            names.append(table.name)
        elif stem is None:
            names.append(f"site-{number:0{width}}")
        else:
            names.append(stem if stems.count(stem) == 1 else str(table))
    return names


def _silo(name: str, table: Any) -> Silo:
    if isinstance(table, Silo):
        table = table.to_frame()
    elif isinstance(table, str | PathLike):
        table = read_table(name, Path(table))
    elif isinstance(table, np.ndarray):
        if table.ndim != 2:
            raise FeddagError(
                f"Site {name!r}: an array must have two dimensions (rows, columns). Got {table.ndim} instead."
            )
        width = len(str(max(table.shape[1] - 1, 0)))
        table = pd.DataFrame(table, columns=[f"x{column:0{width}}" for column in range(table.shape[1])])
    elif not isinstance(table, pd.DataFrame):
        raise FeddagError(
            f"Site {name!r}: a table must be a DataFrame, a two-dimensional array or a path. "
            f"Got {type(table).__name__} instead."
        )
    return checked_silo(name, table)


def read_table(site: str, path: Path) -> pd.DataFrame:
    """Read a site's file; every failure says which file, and what to do."""
    if path.is_dir():
        raise FeddagError(f"Site {site!r}: {path} is a folder. Name the file of the site's table.")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise FeddagError(
            f"Site {site!r}: {path} has the extension {path.suffix!r}, which feddag does not read. "
            f"Use one of {', '.join(_READERS)}."
        )
    try:
        return reader(path)
    except FileNotFoundError:
        raise FeddagError(f"Site {site!r}: {path} does not exist. Check the path.") from None
    except PermissionError:
        raise FeddagError(f"Site {site!r}: {path} may not be read. Check its permissions.") from None
    except pd.errors.EmptyDataError:
        raise FeddagError(f"Site {site!r}: {path} is empty. Give a header and rows.") from None
    except ImportError:
        raise FeddagError(
            f"Site {site!r}: reading {path} needs pyarrow. Install it with: pip install 'feddag[parquet]'"
        ) from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise FeddagError(f"Site {site!r}: {path} could not be read ({reason}). Check the file.") from None


def _read_separated(path: Path, separator: str) -> pd.DataFrame:
    """Read the header as it stands: pandas would rename a repeated column, and hide it."""
    header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
    frame = pd.read_csv(path, sep=separator, header=0, names=range(header.shape[1]))
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError(f"rows have more than the header's {header.shape[1]} fields")
    frame.columns = pd.Index([name.strip() for name in header.iloc[0]])
    return frame


_READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": lambda path: _read_separated(path, ","),
    ".tsv": lambda path: _read_separated(path, "\t"),
    ".parquet": pd.read_parquet,
}
