"""What workers and learners call of a network: plain functions of arrays, made from a session."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from a3c_tf.config import Config
from a3c_tf.graph.session import Call, Session

Tensor = Any


class LearningNet(Protocol):
    """A network that acts, values and learns, as far as its calls need it."""

    config: Config
    s: Tensor
    noise: Tensor
    sample: Tensor
    A: Tensor
    v: Tensor
    rollout: list[Tensor]
    report: dict[str, Tensor]


class WorkerNet(LearningNet, Protocol):
    """One that pushes to and pulls from a global network in the same graph."""

    push_then_pull_op: Any
    pull_op: list[Any]
    learning_rate_scale: Tensor | None


class SyncCalls(NamedTuple):
    """Calls between a local and the global network, wherever that is; each returns a list of arrays."""

    update_global: Call
    """an array for each placeholder of the network's ``rollout`` → []: push, then pull

    With a decaying learning rate its scale, a scalar, is the last argument."""
    update_global_and_report: Call
    """the same → the scalars of ``report``"""
    pull_global: Call
    """() → []"""


@dataclasses.dataclass
class NetCalls:
    """The calls of a local network: three are the worker's, the others its learner's."""

    noise_size: int
    """standard normal numbers that an action takes"""
    choose_action: Call
    """(observations [B, …] float32, noise [B, noise_size] float32) → actions [B, N_A]

    The first of the list is for the environment, within its bounds. The last is for the learner: the sample before it
    was clipped, or the same array. No named tuple: at each step it would cost 1 % of the speed."""
    value: Callable[[np.ndarray], np.ndarray]
    """observations [B, …] float32 → v [B, 1] float32"""
    update_global: Callable[..., Any]
    """as of ``SyncCalls``"""
    update_global_and_report: Callable[..., dict[str, float]]
    """the same; the report's scalars by name"""
    pull_global: Callable[[], Any]


def sync_calls(net: WorkerNet, session: Session) -> SyncCalls:
    """Push and pull within one graph, on a session of it.

    Where there are other workers, updates are made so that their CPU is the others' meanwhile.
    """
    feeds = [*net.rollout, *([] if net.learning_rate_scale is None else [net.learning_rate_scale])]
    report, update, others = list(net.report.values()), [net.push_then_pull_op], net.config.worker_count > 1
    return SyncCalls(
        update_global=session.call([], feeds, update, in_pool=others),
        update_global_and_report=session.call(report, feeds, update, in_pool=others),
        pull_global=session.call([], [], net.pull_op),
    )


def worker_calls(net: WorkerNet, session: Session) -> NetCalls:
    """The calls of a local network beside the global one, on a session of their graph."""
    return net_calls(net, session, sync_calls(net, session))


def net_calls(net: LearningNet, session: Session, sync: SyncCalls) -> NetCalls:
    """The calls of ``net`` on a session of its graph, ``sync`` among them."""
    actions = [net.A, net.sample] if net.config.learner_sees_unclipped_action else [net.A]
    value, names = session.call([net.v], [net.s]), list(net.report)

    def update_global_and_report(*rollout: np.ndarray) -> dict[str, float]:
        return dict(zip(names, map(float, sync.update_global_and_report(*rollout)), strict=True))

    return NetCalls(
        noise_size=int(net.noise.shape[1]),
        choose_action=session.call(actions, [net.s, net.noise]),
        value=lambda observations: value(observations)[0],
        update_global=sync.update_global,
        update_global_and_report=update_global_and_report,
        pull_global=sync.pull_global,
    )
