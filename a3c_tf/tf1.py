"""The one place that imports TensorFlow: ``from a3c_tf.tf1 import tf`` is ``tensorflow.compat.v1``.

A few settings count only if they are made before TensorFlow is imported. They are made here, and a
value that the user has set stays as it is.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

# oneDNN's kernels are made for large tensors: with this network they double the time of a call.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
# 3 hides what a CPU-only run cannot act on (missing CUDA drivers, unused CPU instructions); what is
# wrong in a graph or a session arrives as a Python exception all the same.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow.compat.v1 as tf

__all__ = ["quiet_deprecations", "tf"]


@contextlib.contextmanager
def quiet_deprecations() -> Iterator[None]:
    """Hold back TensorFlow's "will be removed after 2019-01-01" notes while a graph is built."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
