"""Spaces of gym, gymnasium and of nobody are read by their fields; what cannot be learnt is refused."""

from __future__ import annotations

import contextlib
import io
import math
from types import ModuleType

import gymnasium
import numpy as np
import pytest

from a3c_tf.environments.spaces import ActionSpec, ObservationSpec, action_spec, observation_spec
from a3c_tf.errors import UsageError
from tests.conftest import box

with contextlib.redirect_stderr(io.StringIO()):  # gym's banner
    import gym

LIBRARIES = pytest.mark.parametrize("library", [gym, gymnasium], ids=["gym", "gymnasium"])


@LIBRARIES
def test_a_box_of_observations(library: ModuleType) -> None:
    spec = observation_spec(library.spaces.Box(-np.inf, np.inf, (2, 3), np.float32))
    assert spec == ObservationSpec((2, 3))
    assert spec.size == 6


@LIBRARIES
def test_a_box_of_actions_with_its_bounds_in_the_order_of_the_shape(library: ModuleType) -> None:
    low, high = np.array([[-1, -2], [-3, -4]], np.float32), np.array([[1, 2], [3, 5]], np.float32)
    spec = action_spec(library.spaces.Box(low, high, dtype=np.float32))
    assert spec == ActionSpec((2, 2), (-1, -2, -3, -4), (1, 2, 3, 5))
    assert spec.size == 4


def test_a_users_own_box() -> None:
    assert action_spec(box((1,))) == ActionSpec((1,), (-2.0,), (2.0,))
    assert observation_spec(box((5,))) == ObservationSpec((5,))


def test_a_spec_is_taken_as_it_is() -> None:
    observations, actions = ObservationSpec((3,)), ActionSpec((1,), (0.0,), (1.0,))
    assert observation_spec(observations) is observations
    assert action_spec(actions) is actions


def test_a_spec_can_be_compared_and_used_as_a_key() -> None:
    assert {ObservationSpec((3,)): 1}[ObservationSpec((3,))] == 1


@LIBRARIES
@pytest.mark.parametrize("kind", ["MultiDiscrete", "MultiBinary", "Dict"])
def test_other_kinds_are_refused_with_what_is_expected(library: ModuleType, kind: str) -> None:
    made = {"MultiDiscrete": [2, 3], "MultiBinary": 4, "Dict": {"a": library.spaces.Discrete(2)}}
    space = getattr(library.spaces, kind)(made[kind])
    with pytest.raises(UsageError, match=rf"action space {kind}.*expected a Box with finite bounds"):
        action_spec(space)
    with pytest.raises(UsageError, match=rf"observation space {kind}.*expected a Box"):
        observation_spec(space)


@LIBRARIES
@pytest.mark.parametrize(("low", "high"), [(-np.inf, 1.0), (-1.0, np.inf), (-np.inf, np.inf)])
def test_unbounded_actions_are_refused_with_the_bounds(library: ModuleType, low: float, high: float) -> None:
    with pytest.raises(UsageError, match=r"expected finite bounds with low < high, got low .*inf"):
        action_spec(library.spaces.Box(low, high, (2,), np.float32))


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, -2.0), (math.nan, 1.0)])
def test_bounds_without_room_between_are_refused(low: float, high: float) -> None:
    with pytest.raises(UsageError, match="low < high"):
        action_spec(box((1,), low, high))


def test_one_unbounded_dimension_is_enough_to_refuse() -> None:
    space = box((3,))
    space.high[1] = np.inf
    with pytest.raises(UsageError, match="finite"):
        action_spec(space)
