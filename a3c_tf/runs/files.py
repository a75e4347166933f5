"""Writing files so that neither a kill nor a full disk leaves half of one unnoticed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from a3c_tf.errors import RunError


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write the new ``path`` at: it takes its place in one step, so that a kill leaves the old or the new."""
    new = half_written(path)
    yield new
    new.replace(path)


def half_written(path: Path) -> Path:
    """Where ``written_whole`` has the new file until it is whole; a kill may leave it behind."""
    return path.with_name(f".{path.name}.new")


@contextlib.contextmanager
def writing(path: Path, errors: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Raises ``RunError`` in one line for any of ``errors``, which say that the disk does not take ``path``."""
    try:
        yield
    except errors as error:
        lines = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()
        # TensorFlow has the system's reason after a semicolon, on any of its lines
        reason = next((line.rpartition("; ")[2] for line in lines if "; " in line), lines[0])
        raise RunError(f"{path}: cannot be written: {reason}") from None
