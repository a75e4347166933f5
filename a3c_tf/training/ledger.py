"""Takes the workers' finished episodes one at a time: counts, records, evaluates, remembers the run's state."""

from __future__ import annotations

import threading
from collections.abc import Callable

from a3c_tf.config import Config
from a3c_tf.records import Episode, RunState
from a3c_tf.runs.checkpoint import Checkpointer
from a3c_tf.runs.metrics import Metrics
from a3c_tf.training.best import BestKeeper
from a3c_tf.training.counters import Counters


class Ledger(Counters):
    """Where all workers meet between two episodes. Any thread may call.

    To the budget that ``Counters`` hands out it adds what happens to a finished episode.
    """

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        checkpointer: Checkpointer,
        best: BestKeeper | None,
        state: RunState,
        should_stop: Callable[[], bool],
    ) -> None:
        super().__init__(
            config.max_episodes,
            config.max_steps,
            config.running_return_decay,
            state.episodes,
            state.steps,
            state.running_return,
        )
        self.worker_episodes = dict(state.worker_episodes)
        self.evaluation_steps = state.evaluation_steps
        self.should_stop = should_stop
        self._metrics, self._checkpointer, self._best = metrics, checkpointer, best
        self._interval = config.evaluation_interval or 0
        self._next_evaluation = state.next_evaluation or self._interval
        self._meeting = threading.Lock()
        self._evaluating = threading.Lock()

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        """Take a finished episode; its worker goes on when this returns."""
        with self._meeting:  # rows stand in the order of their numbers, and a snapshot belongs to its row
            count = self.finish_episode(episode.episode_return)
            self.worker_episodes[episode.worker] = self.worker_episodes.get(episode.worker, 0) + 1
            self._metrics.episode(episode, count, report)
            due = self._best is not None and count.global_step >= self._next_evaluation
            if due:
                self._next_evaluation += self._interval
        if due and not self._evaluate():
            return  # the run is resumed before this episode, and its evaluation made then
        with self._meeting:
            self._checkpointer.snapshot(self.state())

    def last_evaluation(self) -> None:
        """Evaluate what the whole budget came to, unless that is done."""
        if self._best is not None and self._best.evaluated_at != self.steps:
            self._evaluate()

    def finish(self) -> None:
        """Close the books on a budget that is used up."""
        self._checkpointer.snapshot(self.state())

    def _evaluate(self) -> bool:
        """Evaluate the policy, while the other workers go on; False if that had to stop."""
        assert self._best is not None
        with self._evaluating:
            steps = self._best.evaluate(self.steps, self.evaluation_steps, self.should_stop)
            self.evaluation_steps = self.evaluation_steps if steps is None else steps
        return steps is not None

    def state(self) -> RunState:
        """The run's state as it is now."""
        return RunState(
            steps=self.steps,
            episodes=self.episodes,
            running_return=self.running_return,
            wall_time=self._metrics.wall_time(),
            worker_episodes=dict(self.worker_episodes),
            evaluation_steps=self.evaluation_steps,
            next_evaluation=self._next_evaluation,
        )
