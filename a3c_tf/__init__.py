"""A3C in TensorFlow 1 graph style on TensorFlow 2.

Importing the package loads neither TensorFlow nor an environment library and changes no process-wide
state; each name below is fetched from its module when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES: dict[str, str] = {
    "Config": "a3c_tf.config",
    "UsageError": "a3c_tf.errors",
    "RunError": "a3c_tf.errors",
    "build_graph": "a3c_tf.algorithms.build",
    "train": "a3c_tf.api",
    "resume": "a3c_tf.api",
    "Result": "a3c_tf.training.trainer",
    "load_policy": "a3c_tf.playing.policy",
    "evaluate": "a3c_tf.playing.evaluate",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'a3c_tf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
