"""The run folder: where a run's files are, who may write them, and the refusal to touch what is not a run's."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from a3c_tf.config import Config
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec, specs_from_json, specs_json
from a3c_tf.errors import UsageError
from a3c_tf.runs.files import half_written, written_whole

_LOCK, _HOLDER = ".lock", ".holder"
_HELD_BY = "process "


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The paths within one run's folder."""

    path: Path

    @classmethod
    def of(cls, path: str | Path) -> RunFolder:
        """The folder of a run that exists. Raises ``UsageError`` if it is none."""
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

    def resume_command(self, env: str) -> str:
        """What to type, where this process was started, to go on with this run on ``env``."""
        module, colon, name = env.partition(":")
        if "<" in name or module == "__main__":  # only Python has it
            return f"a3c_tf.resume({str(self.path)!r}, env={'…' if '<' in name else name})"
        python = Path(sys.executable)
        on_the_path = shutil.which("a3c-tf") == str(python.with_name("a3c-tf"))
        program = "a3c-tf" if on_the_path else f"{shlex.quote(str(python))} -m a3c_tf"
        named = f" --env {shlex.quote(env)}" if colon else ""
        return f"{program} train --resume {shlex.quote(str(self.path))}{named}"


@contextlib.contextmanager
def new_run(config: Config) -> Iterator[RunFolder]:
    """Make and hold the folder of a new run, missing parents too, with its ``config.json``.

    Nothing that exists is changed: raises ``UsageError`` if the folder holds anything, or if it cannot
    be made or written.
    """
    run = RunFolder(Path(config.log_dir) if config.log_dir else _fresh_path(config.env_name))
    with _plain_errors(run):
        run.path.mkdir(parents=True, exist_ok=True)
        _check_unused(run, config)
    with _held(run):
        with _plain_errors(run):
            _check_unused(run, config)  # another may have been quicker
            write_config(run, config)
        yield run


@contextlib.contextmanager
def existing_run(path: str | Path) -> Iterator[RunFolder]:
    """Hold the folder of a run that is to go on; what a kill left half written is removed.

    Raises ``UsageError`` if it is none, is held by another, or holds links: nothing elsewhere is written.
    """
    run = RunFolder.of(path)
    folders = (run.path, run.checkpoints, run.best)
    for entry in (entry for folder in folders if folder.is_dir() for entry in folder.iterdir()):
        if entry.is_symlink():
            raise UsageError(f"{entry}: is a link; a run is read and written in its own folder only")
    with _held(run):
        with _plain_errors(run):
            _clean(run)
        yield run


def write_config(run: RunFolder, config: Config) -> None:
    """Write ``config.json``."""
    with written_whole(run.config) as new:
        new.write_text(config.to_json(), encoding="utf-8")


def write_spaces(run: RunFolder, observations: ObservationSpec, actions: AnyActionSpec) -> None:
    """Write ``spaces.json``, so that a policy can be played without its environment at hand."""
    with written_whole(run.spaces) as new:
        new.write_text(specs_json(observations, actions), encoding="utf-8")


def read_spaces(run: RunFolder) -> tuple[ObservationSpec, AnyActionSpec]:
    """Read what ``write_spaces`` wrote. Raises ``UsageError`` if it is anything else."""
    try:
        return specs_from_json(run.spaces.read_text(encoding="utf-8"))
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{run.spaces}: expected the spaces of a run: {error!r}") from None


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
        holder.write_text(f"{_HELD_BY}{os.getpid()} on {socket.gethostname()}", encoding="utf-8")
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


def _check_unused(run: RunFolder, config: Config) -> None:
    if run.config.exists():
        if (run.path / _HOLDER).exists():
            with _held(run):  # says who, unless that one was killed
                pass
        go_on = run.resume_command(config.env_name)
        raise UsageError(f"run folder {run.path}: holds a run already; name another folder, or go on with it: {go_on}")
    if not all(_left_by_a_start(entry) for entry in run.path.iterdir()):
        raise UsageError(f"run folder {run.path}: holds files that are not a run's; name a new or an empty folder")


def _left_by_a_start(entry: Path) -> bool:
    """Whether a run that was killed before it began left this; a user's file or link of that name is none."""
    if entry.is_symlink() or not entry.is_file():
        return False
    if entry.name == _LOCK:
        return entry.stat().st_size == 0
    if entry.name == _HOLDER:
        return entry.read_bytes()[: len(_HELD_BY)] in (b"", _HELD_BY.encode())
    return entry == half_written(entry.with_name("config.json"))


def _clean(run: RunFolder) -> None:
    """Remove what a kill left of files that were being written: ours by their names, and no other's."""
    for path in (run.config, run.spaces, run.metrics, run.evaluations, run.learning_curve):
        half_written(path).unlink(missing_ok=True)
    for folder in (run.checkpoints, run.best):  # TensorFlow's names
        for file in (*folder.glob("model.ckpt-*.tempstate*"), *folder.glob("checkpoint.tmp*")):
            file.unlink()


def _fresh_path(env_name: str) -> Path:
    """``runs/<environment>-<time>``, numbered if two runs start within a second."""
    stem = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', env_name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path("runs") / stem, 1
    while os.path.lexists(path):
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path
