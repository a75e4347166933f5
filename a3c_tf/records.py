"""What travels between the parts: plain values that know no TensorFlow."""

from __future__ import annotations

import dataclasses
import json
from typing import NamedTuple

import numpy as np


class Episode(NamedTuple):
    """An episode that a worker finished."""

    worker: str
    """its name, ``W_0`` …"""
    episode_return: float
    """sum of the environment's own rewards"""
    length: int
    """steps"""


class FinishedEpisode(NamedTuple):
    """The common count at the moment when an episode finished."""

    episode: int
    """its number among all workers' finished episodes, from 0"""
    running_return: float
    global_step: int
    """steps of all workers, those of rollouts still under way not included"""


class Rollout(NamedTuple):
    """What a worker collected: T steps of B environments side by side.

    ============ ================= ====================================================================
    field        shape             meaning
    ============ ================= ====================================================================
    observations [T + 1, B, …]     float32, what the network saw; the last row is where it stopped
    actions      [T, B, N_A]       what the learner learns: float32, or int32 for discrete ones
    rewards      [T, B]            float64, as the learner sees them
    discounts    [T, B]            float64, γ; 0 where the state after the step is worth 0
    episodes                       the episodes that finished with it
    ============ ================= ====================================================================

    The state after a step is worth 0 where the episode terminated, and where it was cut by a time limit
    unless ``bootstrap_at_time_limit``. The arrays are the rollout's own: nobody writes into them later.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    discounts: np.ndarray
    episodes: tuple[Episode, ...]


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
