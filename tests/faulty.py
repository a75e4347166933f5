"""Environments that fail in every way, and a program to run them in that can be stopped, killed and timed.

``python -m tests.faulty JSON`` trains as a program of this package does. In the JSON: ``run`` (the run
folder), ``env`` (a class below), ``resume``, ``fill`` (what ``filling`` takes), and settings of ``Config``.
"""

from __future__ import annotations

import contextlib
import csv
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from a3c_tf.commands.exit_codes import exit_code
from a3c_tf.config import Config

ROOT = Path(__file__).parent.parent
START_SECONDS = 90
"""how long a program may take to start on a busy machine: importing TensorFlow takes most of it"""


def box(shape: tuple[int, ...], bound: float) -> SimpleNamespace:
    return SimpleNamespace(shape=shape, low=np.full(shape, -bound), high=np.full(shape, bound))


class Env:
    """Episodes of ten steps that depend on the seed and the actions. ``fault`` is called in the middle of the third."""

    length = 10
    pause = 0.0
    """seconds a step takes"""

    def __init__(self) -> None:
        self.observation_space = box((3,), np.inf)
        self.action_space = box((1,), 2.0)
        self.episode, self.time = -1, 0

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.rng = np.random.default_rng(seed)
        self.episode, self.time = self.episode + 1, 0
        return self.observation(), {}

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        self.time += 1
        if self.pause:
            time.sleep(self.pause)
        answer = (self.observation(), -float(np.sum(action**2)), False, self.time == self.length, {})
        if self.episode == 2 and self.time == 5:
            return self.fault(*answer)
        return answer

    def observation(self) -> np.ndarray:
        return self.rng.standard_normal(3).astype(np.float32)

    def fault(self, *answer: Any) -> tuple[Any, ...]:
        return answer


class Slow(Env):
    """A run that lasts until it is stopped."""

    pause = 0.001


class Hangs(Env):
    def fault(self, *answer: Any) -> tuple[Any, ...]:
        time.sleep(1000)
        return answer


class Raises(Env):
    error: BaseException = ZeroDivisionError("in the physics")

    def fault(self, *answer: Any) -> tuple[Any, ...]:
        raise self.error


class OwnInterrupt(KeyboardInterrupt):
    """An environment's own, not Ctrl-C."""


def raising(error: BaseException) -> type[Raises]:
    return type("Raises", (Raises,), {"error": error})


RaisesSystemExit = raising(SystemExit(0))
RaisesOwnInterrupt = raising(OwnInterrupt("a bus error of the robot"))


class AnswersNan(Env):
    def fault(self, observation: Any, *rest: Any) -> tuple[Any, ...]:
        return observation * np.nan, *rest


def settings(run: Path | str, **changes: Any) -> dict[str, Any]:
    """Settings that build and train in a moment, with an environment of this module."""
    small = {"workers": 1, "seed": 5, "actor_hidden": 8, "critic_hidden": 8, "rollout_steps": 4, "max_episodes": 8}
    return {"env": Env, "log_dir": str(run), **small, **changes}


def rows(run: Path, table: str = "metrics.csv", without: str = "wall_time") -> list[dict[str, str]]:
    with (run / table).open(newline="", encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if name != without} for row in csv.DictReader(file)]


def newest(run: Path, folder: str = "checkpoints") -> Path:
    """Prefix of the newest checkpoint."""
    steps = [int(path.stem.rpartition("-")[2]) for path in (run / folder).glob("model.ckpt-*.index")]
    return run / folder / f"model.ckpt-{max(steps)}"


def tensors(prefix: Path) -> dict[str, Any]:
    from a3c_tf.graph.tf1 import tf

    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def learnt(prefix: Path) -> dict[str, np.ndarray]:
    """Weights and slots of a checkpoint."""
    return {name: value for name, value in tensors(prefix).items() if name != "run_state"}


class Program:
    """A training as a process group of its own."""

    def __init__(self, run: Path, *command: str, **changes: Any) -> None:
        self.run = run
        self.changes = changes
        told = json.dumps({"run": str(run), **changes})
        self.process = subprocess.Popen(
            [sys.executable, *(command or ("-X", "faulthandler", "-m", "tests.faulty", told))],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=run.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def until(self, holds: Callable[[], bool]) -> Program:
        """Wait until ``holds``; fails if the program has ended before."""
        deadline = time.monotonic() + START_SECONDS
        while not holds():
            assert time.monotonic() < deadline, "nothing happens"
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.01)
        return self

    def until_rows(self, number: int) -> Program:
        return self.until(lambda: self.number_of_rows() >= number)

    def number_of_rows(self) -> int:
        table = self.run / "metrics.csv"
        return table.read_text(encoding="utf-8").count("\n") - 1 if table.exists() else 0

    def send(self, number: signal.Signals) -> Program:
        self.sent_at = time.monotonic()
        self.process.send_signal(number)
        return self

    def end(self, within: float = START_SECONDS) -> tuple[int, str]:
        """(exit code, all that it wrote), once it has ended; nothing of its process group is left."""
        try:
            output, _ = self.process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler tells where it is
            raise AssertionError(f"not ended after {within} s:\n{self.process.communicate(timeout=10)[0]}") from None
        with pytest.raises(ProcessLookupError):
            os.killpg(self.process.pid, 0)
        return self.process.returncode, output

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    """Starts programs; those that are left at the end of a test are killed."""
    started: list[Program] = []

    def start(*arguments: Any, **changes: Any) -> Program:
        started.append(Program(*arguments, **changes))
        return started[-1]

    yield start
    for program in started:
        if program.process.poll() is None:
            program.kill()


def filling(env: type[Env], file_size: int | None = None, path: str | None = None) -> type[Env]:
    """``env``, which fills the disk in its third episode: no file may pass ``file_size``, or ``path`` takes all."""

    def fault(self: Env, *answer: Any) -> tuple[Any, ...]:
        if file_size is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, resource.RLIM_INFINITY))
        if path is not None:
            with contextlib.suppress(OSError), Path(path).open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        return answer

    return type(env.__name__, (env,), {"fault": fault, "__module__": env.__module__})


def main() -> int:
    told = json.loads(sys.argv[1])
    run, resumed, fill = told.pop("run"), told.pop("resume", False), told.pop("fill", None)
    env = getattr(sys.modules["tests.faulty"], told.pop("env", "Env"))
    env = filling(env, **fill) if fill else env
    from a3c_tf.api import resume, train

    if resumed:
        resume(run, "none", env=env, **told)
    else:
        train(Config.for_env(**settings(run, env=env, **told)), "none")
    return 0


if __name__ == "__main__":
    import tests.faulty  # an environment's name holds its module's, which must be the same in a test

    assert tests.faulty
    faulthandler.dump_traceback_later(200, exit=True)
    sys.exit(exit_code(main))
