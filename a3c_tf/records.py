"""What travels between the parts: plain values that know no TensorFlow."""

from __future__ import annotations

import dataclasses
import json
from typing import NamedTuple


class Episode(NamedTuple):
    """What a worker tells of an episode that it finished."""

    worker: str
    episode_return: float
    """sum of the environment's own rewards"""
    length: int
    """steps"""
    actor_loss: float
    critic_loss: float
    """losses of the episode's last rollout"""
    more: tuple[float, ...] = ()
    """what else the network reports of that rollout"""


class FinishedEpisode(NamedTuple):
    """What the common count says of an episode just finished."""

    episode: int
    """its number among all workers' finished episodes, from 0"""
    running_return: float
    global_step: int
    """steps of all workers, those of rollouts still under way not included"""


@dataclasses.dataclass
class RunState:
    """Where a run stands between two episodes, apart from its variables.

    The random states and the learning rate's schedule are functions of these numbers.
    """

    steps: int = 0
    episodes: int = 0
    running_return: float | None = None
    wall_time: float = 0.0
    """seconds"""
    worker_episodes: dict[str, int] = dataclasses.field(default_factory=dict)
    """episodes that each worker has finished"""
    evaluation_steps: int = 0
    next_evaluation: int = 0
    """step at which the next evaluation is due"""

    @classmethod
    def from_json(cls, text: str | bytes) -> RunState:
        """Raises ``ValueError`` or ``TypeError`` if it was not written by this version."""
        return cls(**json.loads(text))
