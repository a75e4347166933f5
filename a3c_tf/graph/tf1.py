"""The one place that imports TensorFlow: ``from a3c_tf.graph.tf1 import tf`` is ``tensorflow.compat.v1``."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from a3c_tf.graph.loading import loading_tensorflow

with loading_tensorflow():
    import tensorflow.compat.v1 as tf

try:
    # no public names lead to these; without them, session.py takes the public path
    from tensorflow.core.protobuf.config_pb2 import CallableOptions
    from tensorflow.python.client.session import tf_session
except ImportError:
    CallableOptions = tf_session = None

__all__ = ["CallableOptions", "quiet_deprecations", "tf", "tf_session"]


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
