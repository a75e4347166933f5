"""The run folder: where a run's files are, and the refusal to touch what is not a run's."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from pathlib import Path

from a3c_tf.config import Config, UsageError


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The paths within one run's folder."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def spaces(self) -> Path:
        return self.path / "spaces.json"

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations.csv"

    @property
    def best(self) -> Path:
        return self.path / "best"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def learning_curve(self) -> Path:
        return self.path / "learning_curve.png"

    @classmethod
    def create(cls, config: Config) -> RunFolder:
        """Make the folder of a new run, missing parents too, and write ``config.json``.

        Nothing that exists is changed: raises ``UsageError`` if the folder holds anything, or if it
        cannot be made or written.
        """
        run = cls(Path(config.log_dir) if config.log_dir else _fresh_path(config.env_name))
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            if run.config.exists():
                raise UsageError(f"run folder {run.path}: holds a run already; name another folder")
            if any(run.path.iterdir()):
                raise UsageError(
                    f"run folder {run.path}: holds files that are not a run's; name a new or an empty folder"
                )
            run.config.write_text(config.to_json(), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"run folder {run.path}: cannot be written: {error.strerror or error}") from None
        return run


def _fresh_path(env_name: str) -> Path:
    """``runs/<environment>-<time>``, numbered if two runs start within a second."""
    stem = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', env_name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = Path("runs") / stem, 1
    while os.path.lexists(path):
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path
