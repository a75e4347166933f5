"""The run's ledger, as a worker in another process has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a3c_tf.config import Config
from a3c_tf.records import Episode

LEASE_ROLLOUTS = 20
"""steps of a budget are claimed for this many rollouts at once, so that not every rollout asks"""


class RemoteLedger:
    """A ``Ledger`` of ``training.worker`` that asks the chief.

    ``steps`` are those of all workers, as of the last pull. ``stopped`` is set when the run is to end.
    """

    def __init__(self, ask: Callable[..., Any], config: Config, steps: int, worker_episodes: dict[str, int]) -> None:
        self._ask, self._limited, self._before = ask, config.max_steps is not None, steps
        self._granted = 0
        self.steps, self.stopped, self.worker_episodes = steps, False, worker_episodes

    def on_pull(self, pushed: int, stop: bool) -> None:
        """Take what a pull brought beside the parameters."""
        self.steps, self.stopped = self._before + pushed, stop

    def should_stop(self) -> bool:
        return self.stopped

    def claim_episode(self) -> bool:
        self._granted = 0  # the chief takes back what is left, or nobody could begin an episode with it
        return bool(self._ask("claim_episode"))

    def claim_steps(self, wanted: int) -> int:
        if not self._limited:
            return wanted
        if self._granted == 0:
            self._granted = int(self._ask("claim_steps", wanted * LEASE_ROLLOUTS))
        return min(wanted, self._granted)

    def settle_steps(self, claimed: int, taken: int) -> None:
        """The server counted them with the push; what was claimed in vain stays with this worker."""
        if self._limited:
            self._granted -= taken

    def abandon_episode(self) -> None:
        self._ask("abandon_episode")

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        self._ask("episode", episode, report)
