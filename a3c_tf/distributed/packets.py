"""Packets: many tensors as one vector of float32, which holds other types bit by bit.

With many small tensors a round trip to the parameter server would cost three times as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from a3c_tf.graph.tf1 import tf

Tensor = Any
Packet = np.ndarray
"""float32 [n], what ``pack`` makes"""


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of float32, float64 or int64 as one packet."""
    words = [tensor if tensor.dtype == tf.float32 else tf.bitcast(tensor, tf.float32) for tensor in tensors]
    return tf.concat([tf.reshape(word, [-1]) for word in words], axis=0)


def unpack(packet: Tensor, like: Sequence[Any]) -> list[Tensor]:
    """The tensors of a packet, which have the types and static shapes of those in ``like``."""
    parts = tf.split(packet, [words(each) for each in like])
    return [_restored(part, each) for part, each in zip(parts, like, strict=True)]


def packet_of(like: Sequence[Any]) -> Tensor:
    """A placeholder for a packet of tensors like these."""
    return tf.placeholder(tf.float32, [sum(map(words, like))], "packet")


def packet_from(raw: bytes) -> Packet:
    """A packet that came as bytes."""
    return np.frombuffer(raw, np.float32)


def words(like: Any) -> int:
    """How much of a packet a tensor like this one takes."""
    return int(np.prod(like.shape.as_list(), dtype=np.int64)) * like.dtype.size // tf.float32.size


def _restored(part: Tensor, like: Any) -> Tensor:
    shape = like.shape.as_list()
    if like.dtype == tf.float32:
        return tf.reshape(part, shape)
    return tf.bitcast(tf.reshape(part, [*shape, like.dtype.size // tf.float32.size]), like.dtype.base_dtype)
