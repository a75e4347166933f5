"""The CSV files of a run: read them, and cut them back to where a resumed run goes on."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from a3c_tf.errors import UsageError
from a3c_tf.runs.files import written_whole


def read_columns(path: str | Path, needed: str) -> dict[str, np.ndarray]:
    """Columns by name, float64, but strings for ``worker``. A last row that a kill cut short is left out.

    Raises ``UsageError`` if the file is missing, or is no table with a column ``needed``.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        header.index(needed)  # or ValueError
        rows = [row for row in rows if len(row) == len(header)]
        columns = zip(*rows, strict=True) if rows else [()] * len(header)
        return {
            name: np.array(column, str if name == "worker" else np.float64)
            for name, column in zip(header, columns, strict=True)
        }
    except (OSError, ValueError, UnicodeError) as error:
        raise UsageError(f"{path}: expected a run's table with a column {needed}: {error}") from None


def begin(path: Path, columns: tuple[str, ...]) -> None:
    """Write the head of a new table, unless there is one: a kill may have left an empty file."""
    if not path.exists() or path.stat().st_size == 0:
        with written_whole(path) as new:
            new.write_text(",".join(columns) + "\n", encoding="utf-8")


def cut_back(path: Path, column: str, last: float) -> int:
    """Keep the whole rows in which ``column`` is at most ``last`` and cut off the rest. Returns their number.

    Raises ``UsageError`` if the file is no such table.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
        header = lines[0].strip().split(",")
        place = header.index(column)
        kept = [line for line in lines[1:] if _whole(line, header) and float(line.split(",")[place]) <= last]
    except (ValueError, IndexError) as error:
        raise UsageError(f"{path}: expected a table that a run wrote, with a column {column}: {error}") from None
    with written_whole(path) as new:
        new.write_text("".join([lines[0], *kept]), encoding="utf-8", newline="")
    return len(kept)


def _whole(line: str, header: list[str]) -> bool:
    return line.endswith("\n") and line.count(",") == len(header) - 1
