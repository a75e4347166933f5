"""The run folder: where a run's files are, who may write there, and the refusal to touch what is not a run's."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from a3c_tf.config import Config, UsageError

_LOCK, _HOLDER = ".lock", ".holder"


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The paths within one run's folder."""

    path: Path

    @classmethod
    def of(cls, path: str | Path) -> RunFolder:
        """The folder of a run that is there. Raises ``UsageError`` if it is none."""
        run = cls(Path(path))
        if not run.config.is_file():
            raise UsageError(f"run folder {path}: expected the folder of a run, with a config.json; there is none")
        return run

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def spaces(self) -> Path:
        return self.path / "spaces.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations.csv"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        return self.path / "best"

    @property
    def learning_curve(self) -> Path:
        return self.path / "learning_curve.png"


@contextlib.contextmanager
def new_run(config: Config) -> Iterator[RunFolder]:
    """Make and hold the folder of a new run, missing parents too, with its ``config.json``.

    Nothing that exists is changed: raises ``UsageError`` if the folder holds anything, or if it cannot
    be made or written.
    """
    run = RunFolder(Path(config.log_dir) if config.log_dir else _fresh_path(config.env_name))
    with _plain_errors(run):
        run.path.mkdir(parents=True, exist_ok=True)
        _check_unused(run)
    with _held(run):
        with _plain_errors(run):
            _check_unused(run)  # another may have been quicker
            write_config(run, config)
        yield run


@contextlib.contextmanager
def existing_run(path: str | Path) -> Iterator[RunFolder]:
    """Hold the folder of a run that is to go on. Raises ``UsageError`` if it is none, or held by another."""
    run = RunFolder.of(path)
    with _held(run):
        yield run


def write_config(run: RunFolder, config: Config) -> None:
    """Write ``config.json``; a kill leaves the old one or the new one."""
    new = run.path / ".config.json.new"
    new.write_text(config.to_json(), encoding="utf-8")
    new.replace(run.config)


@contextlib.contextmanager
def _held(run: RunFolder) -> Iterator[None]:
    """Hold the folder's lock, which the system frees if this process dies in whatever way."""
    holder = run.path / _HOLDER
    with _plain_errors(run):
        lock = FileLock(run.path / _LOCK, blocking=False)
        try:
            lock.acquire()
        except Timeout:
            who = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
            raise UsageError(f"run folder {run.path}: in use by {who}; stop it or name another folder") from None
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    try:
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


@contextlib.contextmanager
def _plain_errors(run: RunFolder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"run folder {run.path}: cannot be written: {error.strerror or error}") from None


def _check_unused(run: RunFolder) -> None:
    if run.config.exists():
        raise UsageError(f"run folder {run.path}: holds a run already; resume it with --resume, or name another folder")
    if any(entry.name not in (_LOCK, _HOLDER) for entry in run.path.iterdir()):
        raise UsageError(f"run folder {run.path}: holds files that are not a run's; name a new or an empty folder")


def _fresh_path(env_name: str) -> Path:
    """``runs/<environment>-<time>``, numbered if two runs start within a second."""
    stem = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', env_name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path("runs") / stem, 1
    while os.path.lexists(path):
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path
