"""One protocol over gym, gymnasium and a user's own environments, old API and new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec, action_spec, observation_spec
from a3c_tf.errors import RunError, UsageError

Answer = tuple[np.ndarray, float, bool, bool]
"""(observation, reward, terminated, truncated)"""
_FORM = "(observation, reward, terminated, truncated, info)"
_FLAGS = {False: False, True: True}
"""by what an environment answers: NumPy's bool and 0 or 1 are found too"""


class WrongAnswerError(RunError, ValueError):
    """An environment's ``reset`` or ``step`` returned what cannot be understood."""


class Environment:
    """An environment as the worker sees it.

    ``observation_spec`` and ``action_spec`` describe its spaces; ``time_limit`` is the number of steps
    after which its maker cuts an episode, or None where it does that itself or never. ``shown`` says that
    it draws itself. Raises ``UsageError`` for spaces that cannot be learnt, ``WrongAnswerError`` for answers of
    the wrong form.
    """

    def __init__(self, raw: Any, name: str, time_limit: int | None = None, shown: bool = False) -> None:
        for part in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(raw, part):
                raise UsageError(f"environment {name}: expected an object with {part!r}, got {type(raw).__name__}")
        self.name = name
        self.time_limit = time_limit
        try:
            self.observation_spec: ObservationSpec = observation_spec(raw.observation_space)
            self.action_spec: AnyActionSpec = action_spec(raw.action_space)
        except UsageError as error:
            raise UsageError(f"environment {name}: {error}") from None
        self._raw = raw
        self._step = self._raw_step(shown)
        self._shape = self.observation_spec.shape
        self._dtype: np.dtype[Any] | None = None  # until the first answer
        self._reset_takes_seed = True

    def reset(self, seed: int) -> np.ndarray:
        """Start an episode; returns the first observation in the space's shape."""
        answer = self._reset_raw(seed)
        if isinstance(answer, tuple):
            if len(answer) != 2 or not isinstance(answer[1], dict):
                raise self._wrong("reset", "an observation or (observation, info)", f"a tuple of {len(answer)}")
            answer = answer[0]
        return self._checked_observation(answer, "reset")

    def step(self, action: np.ndarray) -> Answer:
        """Take one step with the network's action [N_A]."""
        answer = self._step(action)
        try:
            if len(answer) == 5:
                observation, reward, terminated, truncated, _ = answer
            else:
                observation, reward, terminated, truncated = _from_old_api(*answer)
            if observation.shape == self._shape and observation.dtype is self._dtype:
                # times 1.0, because float() alone would take a text
                return observation, float(reward * 1.0), _FLAGS[terminated], _FLAGS[truncated]
        except (AttributeError, KeyError, TypeError, ValueError):
            pass  # said in words below
        return self._checked(answer)

    def render(self) -> np.ndarray:
        """The picture [height, width, 3] uint8 of the present state, of one made with ``rgb_array``."""
        has_one = hasattr(self._raw, "render")
        frame = self._raw.render() if has_one else None
        if getattr(frame, "ndim", 0) != 3:
            got = type(frame).__name__ if has_one else "no render()"
            raise UsageError(
                f"environment {self.name}: cannot be filmed: expected render() to return an array [height, width, 3], "
                f"with render_mode='rgb_array' if it takes one; got {got}"
            )
        return np.asarray(frame, np.uint8)

    @property
    def frames_per_second(self) -> float:
        """The pace that the environment's maker gives, else 30."""
        return float(getattr(self._raw, "metadata", {}).get("render_fps", 30))

    def close(self) -> None:
        if hasattr(self._raw, "close"):
            self._raw.close()

    def _raw_step(self, shown: bool) -> Callable[[np.ndarray], Any]:
        """The environment's ``step``, of the network's action [N_A]."""
        step, to_raw = self._raw.step, self.action_spec.to_raw
        if shown:  # gym's Pendulum draws its action with pygame, which refuses NumPy's float32
            return lambda action: step(to_raw(action.astype(np.float64)))
        if self.action_spec.is_raw:  # spared, because it would cost as much as a tenth of a cheap step
            return step
        return lambda action: step(to_raw(action))

    def _reset_raw(self, seed: int) -> Any:
        if self._reset_takes_seed:
            try:
                return self._raw.reset(seed=seed)
            except TypeError as error:
                if "seed" not in str(error):
                    raise
                self._reset_takes_seed = False
        if hasattr(self._raw, "seed"):  # before gym 0.26
            self._raw.seed(seed)
        return self._raw.reset()

    def _checked(self, answer: Any) -> Answer:
        """Look at each part of what ``step`` answered: the first time, and whenever it is not as it was before."""
        if not isinstance(answer, (tuple, list)):
            raise self._wrong("step", _FORM, type(answer).__name__)
        if len(answer) not in (4, 5):
            raise self._wrong("step", _FORM, f"a tuple of {len(answer)}")
        observation, reward, *flags, info = answer
        array = self._checked_observation(observation, "step")
        number = self._checked_number("a number as reward", reward, "fiub")
        for flag in flags:
            self._checked_number("True or False after the reward", flag, "biu")
        if not hasattr(info, "get"):
            raise self._wrong("step", "a dict as its last part", type(info).__name__)
        self._dtype = array.dtype
        terminated, truncated = flags if len(answer) == 5 else _from_old_api(*answer)[2:]
        return array, number, bool(terminated), bool(truncated)

    def _checked_observation(self, observation: Any, call: str) -> np.ndarray:
        expected = f"an observation of shape {self._shape}"
        try:
            array = np.asarray(observation)
        except ValueError:  # ragged
            raise self._wrong(call, expected, f"{type(observation).__name__} of unequal parts") from None
        if array.shape != self._shape:
            raise self._wrong(call, expected, f"shape {array.shape}")
        if array.dtype.kind not in "fiub":
            raise self._wrong(call, f"{expected} and real numbers", f"dtype {array.dtype}")
        return array

    def _checked_number(self, expected: str, value: Any, kinds: str) -> float:
        try:
            array = np.asarray(value)
        except ValueError:  # ragged
            raise self._wrong("step", expected, f"{type(value).__name__} of unequal parts") from None
        if array.size != 1 or array.dtype.kind not in kinds:
            raise self._wrong("step", expected, f"{type(value).__name__} {value!r}")
        return float(array.item())

    def _wrong(self, call: str, expected: str, got: str) -> WrongAnswerError:
        return WrongAnswerError(f"environment {self.name}: {call}() must return {expected}, got {got}")


def _from_old_api(observation: Any, reward: Any, done: Any, info: Any) -> tuple[Any, Any, Any, Any]:
    """What gym's environments answered before 0.26, as they answer since."""
    truncated = done and bool(info.get("TimeLimit.truncated", False))
    return observation, reward, done and not truncated, truncated
