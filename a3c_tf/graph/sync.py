"""Push and pull: a local network's gradients to the global one, and its variables back.

It knows a network's parts and variables, and nothing of what they compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from a3c_tf.graph.normalization import ObservationStatistics
from a3c_tf.graph.optimizers import Optimizers
from a3c_tf.graph.tf1 import tf

Tensor = Any
Operation = Any


class Network(Protocol):
    """What push and pull need of a network."""

    params: list[Any]
    """all its variables: what is pulled"""
    statistics: ObservationStatistics | None


def assign_all(targets: Sequence[Any], values: Sequence[Tensor]) -> list[Operation]:
    """Operations that set variables to values; they return nothing, so nothing is copied."""
    return [target.assign(value, read_value=False) for target, value in zip(targets, values, strict=True)]


def copy_all(targets: Sequence[Any], sources: Sequence[Any]) -> list[Operation]:
    """Operations that set variables to what others hold."""
    return assign_all(targets, [source.read_value() for source in sources])


def pull(local: Network, source: Network) -> list[Operation]:
    """Scope ``pull``: an operation for each variable of ``local``, that copies the one of ``source``."""
    with tf.name_scope("pull"):
        return copy_all(local.params, source.params)


def push(
    gradients: Sequence[Sequence[Tensor]], observations: Tensor, target: Network, optimizers: Optimizers
) -> tuple[list[Operation], list[Operation]]:
    """Scope ``push``: the optimizers' update of each part of ``target``; and these with all else that is pushed.

    The other thing is the observations [B, N_S], if the network normalizes them.
    """
    with tf.name_scope("push"):
        updates = optimizers.apply(gradients)
        return updates, [*updates, *([target.statistics.add(observations)] if target.statistics else [])]


def push_then_pull(pushed: Sequence[Operation], local: Network, source: Network) -> Operation:
    """Scope ``push_then_pull``: one operation that pushes and then pulls.

    Run together without an order, a pull may read a variable before its push. These assigns come after the
    push; those of ``pull`` stay free of it, so that a pull alone needs no feed.
    """
    with tf.name_scope("push_then_pull"), tf.control_dependencies(pushed):
        return tf.group(*copy_all(local.params, source.params))
