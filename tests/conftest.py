"""What several test files need: toy environments, small settings, and programs run as subprocesses."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from a3c_tf.config import Config
from a3c_tf.environments.spaces import ActionSpec, ObservationSpec

# A shell that starts the tests in the background has Ctrl-C ignored, by them and by all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
PENDULUM = ObservationSpec((3,)), ActionSpec((1,), (-2.0,), (2.0,))


def box(shape: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> SimpleNamespace:
    """A Box as a user's own class might be: just the three fields."""
    return SimpleNamespace(shape=shape, low=np.full(shape, low), high=np.full(shape, high))


class ToyEnv:
    """An environment of the 5-tuple API whose every answer is known beforehand.

    Every number of the observation is ``100 · episode + step``, the reward of step t is t; it
    terminates or is truncated at the steps given. It notes the actions and seeds that it gets.
    """

    def __init__(
        self, terminates_at: int | None = None, truncates_at: int | None = None, action_shape: tuple[int, ...] = (1,)
    ) -> None:
        self.observation_space = box((3,), -np.inf, np.inf)
        self.action_space = box(action_shape)
        self.terminates_at, self.truncates_at = terminates_at, truncates_at
        self.actions: list[np.ndarray] = []
        self.seeds: list[int | None] = []
        self.closed = False
        self.time, self.episode = 0, -1

    def observation(self) -> np.ndarray:
        return np.full(3, 100 * self.episode + self.time, np.float32)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        assert self.episode < 1000, "no test runs that many episodes: a worker does not see that the budget is used"
        self.seeds.append(seed)
        self.time, self.episode = 0, self.episode + 1
        return self.observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.time += 1
        self.actions.append(np.array(action))
        ends = self.time == self.terminates_at, self.time == self.truncates_at
        return self.observation(), float(self.time), *ends, {}

    def close(self) -> None:
        self.closed = True


def small_config(**changes: Any) -> Config:
    """Settings that build and train in a moment."""
    settings = {"workers": 1, "seed": 0, "actor_hidden": 8, "critic_hidden": 8, "max_episodes": 3, **changes}
    return Config(**settings)


def toy_env() -> ToyEnv:
    """Episodes of five steps."""
    return ToyEnv(terminates_at=5)


def read_rows(run_folder: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv."""
    with (run_folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def final_weights(run_folder: Path) -> dict[str, np.ndarray]:
    """All variables of a run's last checkpoint, read as anybody would."""
    from a3c_tf.graph.tf1 import tf

    prefix = tf.train.latest_checkpoint(str(run_folder / "checkpoints"))
    assert prefix, "there is no checkpoint"
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A finished training of two workers, ten episodes of five steps. Nobody changes its folder."""
    from a3c_tf.api import train

    folder = tmp_path_factory.mktemp("toy") / "run"
    return train(small_config(env=toy_env, workers=2, max_episodes=10, log_dir=str(folder)), show="none")


def run_python(*arguments: str | Path, **environment: str | None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own; a variable given as None is taken out of its environment."""
    changed = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={name: value for name, value in changed.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=120,
    )


def everything_in(folder: Path) -> dict[str, tuple[Any, ...]]:
    """All that a folder holds, links not followed: to tell whether anything was changed."""
    held: dict[str, tuple[Any, ...]] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        held[str(path.relative_to(folder))] = (state.st_mode, state.st_mtime_ns, content)
    return held


def run_together(number: int, target: Callable[[int], None]) -> None:
    """Run ``target(0)`` … ``target(number - 1)`` in threads that start together; raises the first failure."""
    start, failures = threading.Barrier(number), []

    def run(i: int) -> None:
        start.wait()
        try:
            target(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


@pytest.fixture
def switch_threads_at(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Makes new threads hand over after every line of the named source file.

    Python alone switches so rarely that a missing lock would pass unseen.
    """
    before = threading.gettrace()

    def switch_threads_at(file: str) -> None:
        def trace(frame: Any, event: str, argument: Any) -> Any:
            if not frame.f_code.co_filename.endswith(file):
                return None
            if event == "line":
                time.sleep(0)
            return trace

        threading.settrace(trace)

    yield switch_threads_at
    threading.settrace(before)


@pytest.fixture(autouse=True)
def own_signal_handlers() -> None:
    """Python's own, whatever a program that an earlier test or a module's fixture ran in this process has left."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


HEADER = "wall_time,global_step,episode,worker,episode_return,running_return,episode_length\n"
ROWS = "0.5,200,0,W_0,-1000.0,-1000.0,200\n0.75,400,1,W_1,-500.5,-950.05,200\n"


@pytest.fixture
def metrics_csv(tmp_path: Path) -> Path:
    """A run's table with two episodes."""
    path = tmp_path / "metrics.csv"
    path.write_text(HEADER + ROWS, encoding="utf-8")
    return path
