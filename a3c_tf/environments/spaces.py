"""What the graph needs to know of an environment's spaces, checked once and before any work.

gym's and gymnasium's spaces are different classes with the same fields, so they are read by their
fields; the result is a small record of our own that can be written down and read back.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, ClassVar

import numpy as np

from a3c_tf.errors import UsageError


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
    dtype: ClassVar[type] = np.float32

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_raw(self) -> bool:
        """Whether the environment takes the network's [N_A] as it is."""
        return len(self.shape) == 1

    def to_raw(self, action: np.ndarray) -> np.ndarray:
        """The action as the environment takes it, from the network's [N_A]."""
        return action.reshape(self.shape)


@dataclasses.dataclass(frozen=True)
class DiscreteSpec:
    """``n`` actions, numbered from ``start`` by the environment and from 0 by the network."""

    n: int
    start: int
    size: ClassVar[int] = 1
    dtype: ClassVar[type] = np.int32
    is_raw: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def to_raw(self, action: np.ndarray) -> int:
        """The action as the environment takes it, from the network's [1]."""
        return self.start + int(action[0])


AnyActionSpec = ActionSpec | DiscreteSpec


_ACTION_WRAPPERS = {
    "Dict": "(ActionWrapper) so that its actions are one array of numbers",
    "MultiDiscrete": "(ActionWrapper) so that one Discrete number stands for each combination",
    "MultiBinary": "(ActionWrapper) so that one Discrete number stands for each combination",
}


def observation_spec(space: Any) -> ObservationSpec:
    """Read an observation space (gym's, gymnasium's, or a spec). Raises ``UsageError`` if it is no Box."""
    if isinstance(space, ObservationSpec):
        return space
    if not _is_box(space):
        raise UsageError(
            f"observation space {space}: expected a Box; wrap the environment so that its observations are one array "
            "of numbers (FlattenObservation does it for Dict, Tuple and Discrete)"
        )
    return ObservationSpec(tuple(int(n) for n in space.shape))


def action_spec(space: Any) -> AnyActionSpec:
    """Read an action space (gym's, gymnasium's, or a spec).

    Raises ``UsageError`` if it is neither a Discrete nor a Box, or if a bound is infinite or not below the other.
    """
    if isinstance(space, AnyActionSpec):
        return space
    if hasattr(space, "n") and not space.shape:
        return DiscreteSpec(int(space.n), int(getattr(space, "start", 0)))
    if not _is_box(space):
        raise UsageError(
            f"action space {space}: expected a Box with finite bounds or a Discrete; wrap the environment "
            f"{_ACTION_WRAPPERS.get(type(space).__name__, _ACTION_WRAPPERS['Dict'])}"
        )
    low, high = (np.asarray(bound, np.float64).ravel() for bound in (space.low, space.high))
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low < high)):
        raise UsageError(
            f"action space {space}: expected finite bounds with low < high, got low {space.low} and high {space.high}; "
            "wrap the environment in RescaleAction or give its Box finite bounds"
        )
    return ActionSpec(tuple(int(n) for n in space.shape), tuple(low.tolist()), tuple(high.tolist()))


def specs_json(observations: ObservationSpec, actions: AnyActionSpec) -> str:
    """Both specs as JSON text."""
    specs = {"observations": dataclasses.asdict(observations), "actions": dataclasses.asdict(actions)}
    return json.dumps(specs, indent=1) + "\n"


def specs_from_json(text: str) -> tuple[ObservationSpec, AnyActionSpec]:
    """Both specs from what ``specs_json`` made. Raises one of a few errors if it is anything else."""
    specs = json.loads(text)
    observations, actions = ObservationSpec(tuple(specs["observations"]["shape"])), specs["actions"]
    if "n" in actions:
        return observations, DiscreteSpec(**actions)
    return observations, ActionSpec(**{name: tuple(numbers) for name, numbers in actions.items()})


def _is_box(space: Any) -> bool:
    return all(hasattr(space, field) for field in ("low", "high", "shape"))
