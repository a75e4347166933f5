"""How environments are named: ``library:ID``, ``module:name``, and what the presets list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RESERVED_PREFIXES = ("gym:", "gymnasium:")


def env_key(env: str | Callable[[], Any]) -> str:
    """The environment's name without the library in front, as the presets list it."""
    name = env if isinstance(env, str) else name_of(env)
    for prefix in RESERVED_PREFIXES:
        name = name.removeprefix(prefix)
    return name


def name_of(factory: Callable[[], Any]) -> str:
    """``module:qualified name`` of an environment factory; of an object that has none, its class's in brackets."""
    if hasattr(factory, "__qualname__"):
        return f"{factory.__module__}:{factory.__qualname__}"
    return f"{type(factory).__module__}:<{type(factory).__qualname__}>"
