"""One protocol over gym, gymnasium and a user's own environments, old API and new."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from a3c_tf.environment_names import RESERVED_PREFIXES, name_of
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec, action_spec, observation_spec
from a3c_tf.errors import RunError, UsageError

# Wrappers that the libraries put around every environment. Their checks are made here once, their
# step costs more than a cheap environment's own, and the time limit is kept as a number.
_STANDARD_WRAPPERS = ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit")
_log = logging.getLogger("a3c_tf")
_TIMED_STEPS = 9
_ANSWER = "(observation, reward, terminated, truncated, info)"


class WrongAnswerError(RunError, ValueError):
    """An environment's ``reset`` or ``step`` returned what cannot be understood."""


class Environment:
    """An environment as the worker sees it.

    ``observation_spec`` and ``action_spec`` describe its spaces; ``time_limit`` is the number of steps
    after which its maker cuts an episode, or None where it does that itself or never. ``shown`` says that
    it draws itself. ``step_seconds`` is the median time of an episode's first steps, or None before there are any.
    Raises ``UsageError`` for spaces that cannot be learnt, ``WrongAnswerError`` for answers of the wrong form:
    the first answer of ``step`` is looked at closely, and every one of ``reset``; later steps, which are
    many, only for their length and the observation's shape.
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
        self._step = self._first_step
        self._later_step = raw.step
        self.step_seconds: float | None = None
        self._times: list[float] = []
        self._plain: Callable[[np.ndarray], Any] = self.action_spec.plain
        if shown:  # gym's Pendulum draws its action with pygame, which refuses NumPy's float32
            self._plain = lambda action: self.action_spec.plain(action.astype(np.float64))
        self._reset_takes_seed = True

    def reset(self, seed: int) -> np.ndarray:
        """Start an episode; returns the first observation in the space's shape."""
        answer = self._reset_raw(seed)
        if isinstance(answer, tuple):
            if len(answer) != 2 or not isinstance(answer[1], dict):
                raise self._wrong("reset", "an observation or (observation, info)", f"a tuple of {len(answer)}")
            answer = answer[0]
        self._check_observation(answer, "reset")
        if self._step == self._later_step:
            self._time_steps()
        return np.asarray(answer)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Take one step with the network's action [N_A]: (observation, reward, terminated, truncated)."""
        answer = self._step(self._plain(action))
        observation: Any
        if len(answer) == 5:
            observation, reward, terminated, truncated, _ = answer
        elif len(answer) == 4:  # before gym 0.26
            observation, reward, done, info = answer
            truncated = done and bool(info.get("TimeLimit.truncated", False))
            terminated = done and not truncated
        else:
            raise self._wrong("step", _ANSWER, f"a tuple of {len(answer)}")
        if getattr(observation, "shape", None) != self.observation_spec.shape:
            self._check_observation(observation, "step")
            observation = np.asarray(observation)
        return observation, float(reward), bool(terminated), bool(truncated)

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

    def _first_step(self, action: Any) -> Any:
        """Take a step and look at each part of the answer; the next ones go to the environment itself."""
        answer = self._later_step(action)
        if not isinstance(answer, (tuple, list)):
            raise self._wrong("step", _ANSWER, type(answer).__name__)
        if len(answer) in (4, 5):
            observation, reward, *flags, info = answer
            self._check_observation(observation, "step")
            self._check_number("a number as reward", reward, "fiub")
            for flag in flags:
                self._check_number("True or False after the reward", flag, "biu")
            if not hasattr(info, "get"):
                raise self._wrong("step", "a dict as its last part", type(info).__name__)
        self._time_steps()
        return answer

    def _time_steps(self) -> None:
        self._times.clear()
        self._step = self._timed_step

    def _timed_step(self, action: Any) -> Any:
        """Take a step and its time; after a few the next ones go to the environment itself."""
        start = time.perf_counter()
        answer = self._later_step(action)
        self._times.append(time.perf_counter() - start)
        if len(self._times) == _TIMED_STEPS:
            self.step_seconds = statistics.median(self._times)
            self._step = self._later_step
        return answer

    def _check_observation(self, observation: Any, call: str) -> None:
        expected = f"an observation of shape {self.observation_spec.shape}"
        try:
            array = np.asarray(observation)
        except ValueError:  # ragged
            raise self._wrong(call, expected, f"{type(observation).__name__} of unequal parts") from None
        if array.shape != self.observation_spec.shape:
            raise self._wrong(call, expected, f"shape {array.shape}")
        if array.dtype.kind not in "fiub":
            raise self._wrong(call, f"{expected} and real numbers", f"dtype {array.dtype}")

    def _check_number(self, expected: str, value: Any, kinds: str) -> None:
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in kinds:
            raise self._wrong("step", expected, f"{type(value).__name__} {value!r}")

    def _wrong(self, call: str, expected: str, got: str) -> WrongAnswerError:
        return WrongAnswerError(f"environment {self.name}: {call}() must return {expected}, got {got}")


def make_env(env: str | Callable[..., Any], render_mode: str | None = None) -> Environment:
    """Make an environment from its name, or from a callable that takes nothing.

    ``Pendulum-v1`` or ``gym:Pendulum-v1`` come from gym, ``gymnasium:Pendulum-v1`` from gymnasium.
    ``module:Name-v0`` imports the module and makes what it registered with either of them;
    ``module:identifier`` calls what the module has by that name. With ``render_mode`` (``human`` or
    ``rgb_array``) it is passed on: to a callable if it takes one.
    Raises ``UsageError`` for what cannot be made; what a callable raises comes out as it is.
    """
    if callable(env):
        return _from_factory(env, name_of(env), render_mode)
    library, colon, rest = env.partition(":")
    if not colon:
        return _from_library("gym", env, render_mode)
    if f"{library}:" in RESERVED_PREFIXES:
        return _from_library(library, rest, render_mode)
    if "<" in rest:  # a lambda, a function within another, an object
        raise _nameless(env)
    module = _import_module(library, env)
    if all(part.isidentifier() for part in rest.split(".")):
        return _from_factory(_find_factory(module, rest, env), env, render_mode)
    for library in ("gym", "gymnasium"):
        if library in sys.modules and rest in sys.modules[library].envs.registration.registry:
            return _from_library(library, rest, render_mode)
    raise UsageError(f"environment {env!r}: module {module.__name__} registers no {rest!r} with gym or gymnasium")


def _from_library(library: str, env_id: str, render_mode: str | None) -> Environment:
    module = _import_library(library)
    try:
        with warnings.catch_warnings(record=True) as told:
            mode = {"render_mode": render_mode} if render_mode else {}
            raw = module.make(env_id, disable_env_checker=True, **mode)
    except module.error.Error as error:
        raise UsageError(f"environment {env_id!r}: {library} says: {_one_line(error)}") from None
    except ImportError as error:
        raise UsageError(f"environment {env_id!r} needs a package that is not installed: {error}") from None
    for warning in told:  # those of an environment that could not be made only repeat the error
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return Environment(*_unwrapped(raw, env_id), render_mode is not None)


def _from_factory(factory: Callable[..., Any], name: str, render_mode: str | None) -> Environment:
    takes_mode = render_mode is not None and "render_mode" in inspect.signature(factory).parameters
    raw = factory(render_mode=render_mode) if takes_mode else factory()
    return Environment(*_unwrapped(raw, name), render_mode is not None)


def _unwrapped(raw: Any, name: str) -> tuple[Any, str, int | None]:
    """The environment without the libraries' standard wrappers, its name, and its time limit."""
    limits = []
    while type(raw).__name__ in _STANDARD_WRAPPERS:
        limits.append(vars(raw).get("_max_episode_steps"))  # vars: an attribute that is looked up goes through
        raw = raw.env
    return raw, name, min((limit for limit in limits if limit is not None), default=None)


def _find_factory(module: ModuleType, path: str, env: str) -> Callable[..., Any]:
    factory: Any = module
    for part in path.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        if module.__name__ == "__main__":  # of another program than this
            raise _nameless(env)
        raise UsageError(
            f"environment {env!r}: module {module.__name__} has no callable {path!r} that makes one; "
            "an id that it registers ends in its version, as in 'module:Name-v0'"
        )
    return factory


def _nameless(env: str) -> UsageError:
    return UsageError(
        f"environment {env!r}: was a callable that cannot be found by its name; give it again, as in "
        "resume(run, env=…) or evaluate(policy, env=…)"
    )


def _import_module(name: str, env: str) -> ModuleType:
    top = name.partition(".")[0]
    try:
        if name not in sys.modules and importlib.util.find_spec(top):
            _log.info("environment %s: imports the module %s", env, name)  # it may be a run folder that names it
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # it is there, and needs another
    except (ValueError, TypeError):
        pass  # no module can have such a name
    if Path(top).is_dir() or Path(f"{top}.py").is_file():
        raise UsageError(
            f"environment {env!r}: Python looks for no modules in the current folder; if you trust the {top!r} that "
            f"is there, name it: --env {env}"
        )
    raise UsageError(
        f"environment {env!r}: there is no module {name!r} to import; expected an id, 'gym:ID', 'gymnasium:ID', "
        "'module:ID' or 'module:factory'"
    )


def _import_library(library: str) -> ModuleType:
    try:
        # gym prints that it is no longer maintained, each time; the README says it once
        with contextlib.redirect_stderr(io.StringIO()):
            return importlib.import_module(library)
    except ImportError as error:
        raise UsageError(f"{library} is not installed ({error}): pip install {library}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).replace("`", "").split())
