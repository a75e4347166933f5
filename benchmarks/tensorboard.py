"""What TensorBoard's scalars and histograms cost: pairs of blocks of episodes of one training, with and without them.

    python benchmarks/tensorboard.py --pairs 75

Measured in CPU time of the whole process, and half a second after each other: on a shared machine the speed varies
by more than what is to be seen. Which of a pair comes first alternates. All that a block gives to the writer is
flushed within the block. Histograms are written ten times as often as in a usual run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from a3c_tf.api import train
from a3c_tf.config import Config
from a3c_tf.runs import tensorboard
from a3c_tf.training import trainer

EPISODES = 10
"""of a block, of all workers together"""


class Alternating(tensorboard.Events):
    """Writes in every other block of each two pairs: with, without, without, with."""

    speeds: tuple[list[float], list[float]] = ([], [])
    """steps per CPU second of each block, without and with"""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._episodes, self._steps, self._begun = 0, 0, time.process_time()

    def episode(self, episode: Any, count: Any, report: Any) -> None:
        block = self._episodes // EPISODES
        writes = block % 4 in (0, 3)
        if writes:
            super().episode(episode, count, report)
        self._episodes += 1
        if self._episodes % EPISODES:
            return
        if writes:
            self.flush()
        now = time.process_time()
        self.speeds[writes].append((count.global_step - self._steps) / (now - self._begun))
        self._steps, self._begun = count.global_step, now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=75)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    tensorboard.HISTOGRAMS_SECONDS /= 10
    trainer.Events = Alternating  # type: ignore[misc,assignment]
    episodes = 2 * EPISODES * (arguments.pairs + 1)  # the first pair warms up
    with tempfile.TemporaryDirectory() as folder:
        log_dir = str(Path(folder) / "run")
        config = Config.preset("classic", workers=arguments.workers, seed=0, max_episodes=episodes, log_dir=log_dir)
        train(config, show="none")
    without, with_ = (speeds[1:] for speeds in Alternating.speeds)
    costs = [100 * (1 - slow / fast) for slow, fast in zip(with_, without, strict=True)]
    low, median, high = statistics.quantiles(costs, n=4)
    print(f"with: {statistics.median(with_):,.0f} steps per CPU second, without: {statistics.median(without):,.0f}")
    print(f"cost: median {median:.1f} %, quartiles {low:.1f} and {high:.1f} %, {len(costs)} pairs")


if __name__ == "__main__":
    main()
