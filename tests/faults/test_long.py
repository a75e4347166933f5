"""What must not grow: threads, file descriptors and memory, over many trainings and over a long one."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from a3c_tf.api import train
from a3c_tf.config import Config
from tests.faulty import Env, settings

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")


def resources() -> tuple[int, int, float]:
    """(threads, file descriptors, resident memory in MB) of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), pages * 4096 / 1e6


def train_once(run: Path) -> None:
    """Two workers, with evaluations."""
    changes = {"evaluation_interval": 40, "evaluation_episodes": 1}
    train(Config.for_env(**settings(run, workers=2, max_episodes=8, **changes)), "none")


def many(tmp_path: Path, number: int) -> list[tuple[int, int, float]]:
    seen = []
    for i in range(number):
        train_once(tmp_path / str(i))
        seen.append(resources())
    return seen


def test_many_trainings_in_one_program(tmp_path: Path) -> None:
    seen = many(tmp_path, 6)
    assert len({threads for threads, _, _ in seen}) == 1
    assert len({descriptors for _, descriptors, _ in seen}) == 1
    grown = seen[-1][2] - seen[2][2]
    assert grown < 25, f"{grown:.0f} MB in 3 trainings, of which each builds a graph of about 10 MB"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_trainings_in_one_program(tmp_path: Path) -> None:
    seen = many(tmp_path, 100)
    assert seen[-1][:2] == seen[0][:2]
    assert seen[-1][2] - seen[9][2] < 100, "1 MB a training"


def test_a_long_training(tmp_path: Path) -> None:
    """Measured from within, in an environment's ``reset``."""
    seen = []

    class Measured(Env):
        def reset(self, seed: int | None = None) -> object:
            if self.episode >= 0 and self.episode % 300 == 0:
                seen.append(resources())
            return super().reset(seed)

    train(Config.for_env(**settings(tmp_path / "run", env=Measured, max_episodes=1600)), "none")
    early, late = seen[0], seen[-1]
    assert len(seen) == 6
    assert late[0] == early[0]
    assert late[1] <= early[1] + 2, "descriptors; a save that is under way has some, and there are 16 saves"
    assert late[2] - seen[1][2] < 15, "MB in 1200 episodes"
