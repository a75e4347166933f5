"""One protocol over gym, gymnasium and a user's own environments, old API and new."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from a3c_tf.config import UsageError
from a3c_tf.spaces import ActionSpec, ObservationSpec, action_spec, observation_spec

# Wrappers that the libraries put around every environment. Their checks are made here once, their
# step costs more than a cheap environment's own, and the time limit is kept as a number.
_STANDARD_WRAPPERS = ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit")


class Environment:
    """An environment as the worker sees it.

    ``observation_spec`` and ``action_spec`` describe its spaces; ``time_limit`` is the number of steps
    after which its maker cuts an episode, or None where it does that itself or never.
    Raises ``UsageError`` for spaces that cannot be learnt, ``ValueError`` for answers of the wrong form.
    """

    def __init__(self, raw: Any, name: str, time_limit: int | None = None) -> None:
        for part in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(raw, part):
                raise UsageError(f"environment {name}: expected an object with {part!r}, got {type(raw).__name__}")
        self.name = name
        self.time_limit = time_limit
        try:
            self.observation_spec: ObservationSpec = observation_spec(raw.observation_space)
            self.action_spec: ActionSpec = action_spec(raw.action_space)
        except UsageError as error:
            raise UsageError(f"environment {name}: {error}") from None
        self._raw = raw
        self._step = raw.step
        self._reset_takes_seed = True

    def reset(self, seed: int) -> np.ndarray:
        """Start an episode; returns the first observation in the space's shape."""
        answer = self._reset_raw(seed)
        if isinstance(answer, tuple):
            if len(answer) != 2 or not isinstance(answer[1], dict):
                raise self._wrong("reset", "an observation or (observation, info)", f"a tuple of {len(answer)}")
            answer = answer[0]
        return self._checked(answer, "reset")

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Take one step with a flat action [N_A]: (observation, reward, terminated, truncated)."""
        answer = self._step(self._shaped(action))
        if len(answer) == 5:
            observation, reward, terminated, truncated, _ = answer
        elif len(answer) == 4:  # before gym 0.26
            observation, reward, done, info = answer
            truncated = done and bool(info.get("TimeLimit.truncated", False))
            terminated = done and not truncated
        else:
            raise self._wrong("step", "(observation, reward, terminated, truncated, info)", f"a tuple of {len(answer)}")
        return self._checked(observation, "step"), float(reward), bool(terminated), bool(truncated)

    def close(self) -> None:
        if hasattr(self._raw, "close"):
            self._raw.close()

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

    def _shaped(self, action: np.ndarray) -> np.ndarray:
        return action if action.shape == self.action_spec.shape else action.reshape(self.action_spec.shape)

    def _checked(self, observation: Any, call: str) -> np.ndarray:
        if getattr(observation, "shape", None) != self.observation_spec.shape:
            observation = np.asarray(observation)
            if observation.shape != self.observation_spec.shape or observation.dtype == object:
                raise self._wrong(
                    call, f"an observation of shape {self.observation_spec.shape}", f"shape {observation.shape}"
                )
        return observation

    def _wrong(self, call: str, expected: str, got: str) -> ValueError:
        return ValueError(f"environment {self.name}: {call}() must return {expected}, got {got}")


def make_env(env: str | Callable[[], Any]) -> Environment:
    """Make an environment from an id or a callable that takes nothing.

    ``Pendulum-v1`` or ``gym:Pendulum-v1`` come from gym, ``gymnasium:Pendulum-v1`` from gymnasium.
    Raises ``UsageError`` for what cannot be made; what a callable raises comes out as it is.
    """
    if callable(env):
        return Environment(env(), getattr(env, "__qualname__", type(env).__name__))
    library, _, env_id = env.rpartition(":")
    return _from_library(library or "gym", env_id)


def _from_library(library: str, env_id: str) -> Environment:
    if library not in ("gym", "gymnasium"):
        raise UsageError(f"environment '{library}:{env_id}': expected an id, 'gym:ID' or 'gymnasium:ID'")
    module = _import_library(library)
    try:
        with warnings.catch_warnings(record=True) as told:
            raw = module.make(env_id, disable_env_checker=True)
    except module.error.Error as error:
        raise UsageError(f"environment {env_id!r}: {library} says: {_one_line(error)}") from None
    except ImportError as error:
        raise UsageError(f"environment {env_id!r} needs a package that is not installed: {error}") from None
    for warning in told:  # those of an environment that could not be made only repeat the error
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    time_limit = raw.spec.max_episode_steps
    while type(raw).__name__ in _STANDARD_WRAPPERS:
        raw = raw.env
    return Environment(raw, env_id, time_limit)


def _import_library(library: str) -> ModuleType:
    try:
        # gym prints that it is no longer maintained, each time; the README says it once
        with contextlib.redirect_stderr(io.StringIO()):
            return importlib.import_module(library)
    except ImportError as error:
        raise UsageError(f"{library} is not installed ({error}): pip install {library}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).replace("`", "").split())
