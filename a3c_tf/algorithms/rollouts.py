"""What every learner does with a rollout before it feeds it: lay it out as a batch, and check it. Pure NumPy."""

from __future__ import annotations

import math

import numpy as np

from a3c_tf.errors import RunError
from a3c_tf.records import Rollout

_MEND = "mend the environment"


class NotFiniteError(RunError, FloatingPointError):
    """A rollout holds NaN or an infinity; it was not learnt."""


def batch(array: np.ndarray) -> np.ndarray:
    """[T, B, …] → [T · B, …]."""
    return array[:, 0] if array.shape[1] == 1 else array.reshape(-1, *array.shape[2:])


def check_finite(rollout: Rollout, targets: np.ndarray) -> None:
    """Called before every push, so that nothing wrong is ever learnt; ``targets`` are [T, B].

    Raises ``NotFiniteError`` that names what was not finite first. Rewards need no look of their own:
    one that is not finite spoils its target.
    """
    observations, actions = rollout.observations, rollout.actions
    squares = float(np.vdot(observations, observations)) + float(np.vdot(actions, actions))
    if math.isfinite(squares + float(np.vdot(targets, targets))):  # the quickest look; if it overflows, a slower one
        return
    if not all(np.isfinite(array).all() for array in (observations, actions, targets)):
        raise _not_finite(rollout, targets)


def _not_finite(rollout: Rollout, targets: np.ndarray) -> NotFiniteError:
    """In the order of time, because one thing spoils the other; the targets are reckoned last."""
    found = [("observation", rollout.observations[0], _MEND)]
    for action, reward, observation in zip(rollout.actions, rollout.rewards, rollout.observations[1:], strict=True):
        found.append(("action", action, "the policy diverged: lower actor_learning_rate"))
        found.append(("reward", reward, _MEND))
        found.append(("observation", observation, _MEND))
    found.append(("value target", targets, "the critic diverged: lower critic_learning_rate"))
    field, numbers, advice = next(each for each in found if not np.isfinite(each[1]).all())
    first = numbers[~np.isfinite(numbers)][0]
    return NotFiniteError(
        f"expected finite numbers, got {field} {first} in the last {len(rollout.rewards)} steps; {advice}"
    )
