"""What all workers count together: episodes, steps and the running return, under one lock."""

from __future__ import annotations

import threading

from a3c_tf.records import FinishedEpisode


class Counters:
    """Hands out a budget of episodes and steps so that exactly the budget is used.

    An episode and the steps of a rollout are claimed before they are run; what was claimed in vain is
    given back. ``None`` stands for no limit. ``episodes`` and ``steps`` are those used already.
    """

    def __init__(
        self,
        max_episodes: int | None,
        max_steps: int | None,
        running_return_decay: float,
        episodes: int = 0,
        steps: int = 0,
        running_return: float | None = None,
    ) -> None:
        self._max_episodes = max_episodes
        self._max_steps = max_steps
        self._decay = running_return_decay
        self._lock = threading.Lock()
        self.episodes = self._episodes_claimed = episodes
        self.steps = self._steps_claimed = steps
        self.running_return = running_return

    @property
    def used_up(self) -> bool:
        """Whether the whole budget was run: what is only claimed may come back."""
        episodes = self._max_episodes is not None and self.episodes >= self._max_episodes
        return episodes or (self._max_steps is not None and self.steps >= self._max_steps)

    def claim_episode(self) -> bool:
        """Whether there is an episode left to run, and a step to run it with; it is then the caller's."""
        with self._lock:
            if self._max_episodes is not None and self._episodes_claimed >= self._max_episodes:
                return False
            # whoever gives steps back goes on itself, so none is lost by leaving now
            if self._max_steps is not None and self._steps_claimed >= self._max_steps:
                return False
            self._episodes_claimed += 1
            return True

    def claim_steps(self, wanted: int) -> int:
        """How many of the ``wanted`` steps may be taken; ``settle_steps`` must follow."""
        with self._lock:
            if self._max_steps is not None:
                wanted = min(wanted, self._max_steps - self._steps_claimed)
            self._steps_claimed += wanted
            return wanted

    def settle_steps(self, claimed: int, taken: int) -> None:
        """Count the steps taken and give the rest of the claim back."""
        with self._lock:
            self._steps_claimed -= claimed - taken
            self.steps += taken

    def finish_episode(self, episode_return: float) -> FinishedEpisode:
        """Count a finished episode: running return = decay · old + (1 - decay) · new, at first the return."""
        with self._lock:
            if self.running_return is None:
                self.running_return = episode_return
            else:
                self.running_return = self._decay * self.running_return + (1 - self._decay) * episode_return
            self.episodes += 1
            return FinishedEpisode(self.episodes - 1, self.running_return, self.steps)

    def abandon_episode(self) -> None:
        """Give back an episode that was claimed and not finished."""
        with self._lock:
            self._episodes_claimed -= 1
