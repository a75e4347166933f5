"""Makes environments by name or from a callable: gym, gymnasium, and a user's own modules."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from a3c_tf.environment_names import RESERVED_PREFIXES, name_of
from a3c_tf.environments.environment import Environment
from a3c_tf.errors import UsageError

# Wrappers that the libraries put around every environment. Their checks are made once by ours, their
# step costs more than a cheap environment's own, and the time limit is kept as a number.
_STANDARD_WRAPPERS = ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit")
_log = logging.getLogger("a3c_tf")


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
        with warnings.catch_warnings(record=True) as caught:
            mode = {"render_mode": render_mode} if render_mode else {}
            raw = module.make(env_id, disable_env_checker=True, **mode)
    except module.error.Error as error:
        raise UsageError(f"environment {env_id!r}: {library} says: {_one_line(error)}") from None
    except ImportError as error:
        raise UsageError(f"environment {env_id!r} needs a package that is not installed: {error}") from None
    for warning in caught:  # those of an environment that could not be made only repeat the error
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
            raise  # it was found, and needs another
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
