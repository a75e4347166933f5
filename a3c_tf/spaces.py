"""What the graph needs to know of an environment's spaces, checked once and before any work.

gym's and gymnasium's spaces are different classes with the same fields, so they are read by their
fields; the result is a small record of our own that can be written down and read back.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.config import UsageError
from a3c_tf.files import written_whole


@dataclasses.dataclass(frozen=True)
class ObservationSpec:
    """A Box of observations; the network sees it flattened to ``size`` float32 numbers."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class ActionSpec:
    """A Box of actions with finite bounds; ``low`` and ``high`` are flat, in the order of the shape."""

    shape: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def observation_spec(space: Any) -> ObservationSpec:
    """Read an observation space (gym's, gymnasium's, or a spec). Raises ``UsageError`` if it is no Box."""
    if isinstance(space, ObservationSpec):
        return space
    if not _is_box(space):
        raise UsageError(
            f"observation space {space}: expected a Box; wrap the environment so that its observations are one array "
            "of numbers (FlattenObservation does it for Dict and Tuple)"
        )
    return ObservationSpec(tuple(int(n) for n in space.shape))


def action_spec(space: Any) -> ActionSpec:
    """Read an action space (gym's, gymnasium's, or a spec).

    Raises ``UsageError`` if it is no Box, or if a bound is infinite or not below the other.
    """
    if isinstance(space, ActionSpec):
        return space
    if not _is_box(space):
        raise UsageError(
            f"action space {space}: expected a Box with finite bounds; wrap the environment so that its actions are "
            "one array of numbers"
        )
    low, high = (np.asarray(bound, np.float64).ravel() for bound in (space.low, space.high))
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
        raise UsageError(
            f"action space {space}: expected finite bounds with low < high, got low {space.low} and high {space.high}; "
            "wrap the environment in RescaleAction or give its Box finite bounds"
        )
    return ActionSpec(tuple(int(n) for n in space.shape), tuple(low.tolist()), tuple(high.tolist()))


def write_specs(path: Path, observations: ObservationSpec, actions: ActionSpec) -> None:
    """Write both specs down as JSON, so that a policy can be played without its environment at hand."""
    specs = {"observations": dataclasses.asdict(observations), "actions": dataclasses.asdict(actions)}
    with written_whole(path) as new:
        new.write_text(json.dumps(specs, indent=1) + "\n", encoding="utf-8")


def read_specs(path: Path) -> tuple[ObservationSpec, ActionSpec]:
    """Read what ``write_specs`` wrote. Raises ``UsageError`` if it is anything else."""
    try:
        specs = json.loads(path.read_text(encoding="utf-8"))
        observations, actions = (
            {name: tuple(numbers) for name, numbers in specs[part].items()} for part in ("observations", "actions")
        )
        return ObservationSpec(**observations), ActionSpec(**actions)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: expected the spaces of a run: {error!r}") from None


def _is_box(space: Any) -> bool:
    return all(hasattr(space, field) for field in ("low", "high", "shape"))
