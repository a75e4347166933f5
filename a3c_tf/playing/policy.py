"""A trained policy, loaded from a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from a3c_tf.algorithms.build import Networks
from a3c_tf.config import Config
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec
from a3c_tf.errors import UsageError
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import quiet_deprecations, tf
from a3c_tf.runs import checkpoint
from a3c_tf.runs.folder import RunFolder, read_spaces


class SavedPolicy(NamedTuple):
    """Where a run keeps a policy, and what it needs to be played."""

    config: Config
    observations: ObservationSpec
    actions: AnyActionSpec
    folder: Path
    """folder of its weights"""


class Policy:
    """A trained policy: ``policy(observation)`` is the action, as the environment's spaces have it.

    The mean action (of discrete ones the most likely, an int) by default; with ``rng`` (a
    ``numpy.random.Generator``) a sample. Any thread may call.
    """

    def __init__(self, saved: SavedPolicy) -> None:
        self.config, self.folder = saved.config, saved.folder
        self._observations, self._actions = saved.observations, saved.actions
        graph = tf.Graph()
        with graph.as_default(), graph.device("/cpu:0"), quiet_deprecations():
            net = Networks(saved.config, saved.observations, saved.actions).acting_net()
        self._session = Session(graph)
        checkpoint.load_weights(saved.folder, net.params, self._session)
        self._mode = self._session.call([net.policy.mode], [net.s])
        self._value = self._session.call([net.v], [net.s])
        self._sample = self._session.call([net.A], [net.s, net.noise])

    def __call__(self, observation: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray | int:
        batch = np.asarray(observation, np.float32).reshape(1, *self._observations.shape)
        return self._actions.to_raw(self.act(batch, rng)[0])

    def act(self, observations: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions for observations [K, …], as ``Act`` says."""
        if rng is None:
            return self._mode(observations)[0]
        noise = rng.standard_normal((len(observations), self._actions.size), np.float32)
        return self._sample(observations, noise)[0]

    def value(self, observations: np.ndarray) -> np.ndarray:
        """The critic's values [K] of observations [K, …] float32, in rewards as the learner sees them."""
        return self._value(observations)[0][:, 0]


def load_policy(run: str | Path, which: str | None = None) -> Policy:
    """The policy of a run folder: the best one kept, else the last; ``which`` asks for ``best`` or ``last``.

    No environment is needed. Raises ``UsageError`` if the folder is no run or has no such policy.
    """
    return Policy(saved_policy(run, which))


def saved_policy(run: str | Path, which: str | None = None) -> SavedPolicy:
    """Find the policy that ``load_policy`` loads; raises as that does."""
    folder = RunFolder(Path(run))
    if not (folder.config.is_file() and folder.spaces.is_file()):
        raise UsageError(f"{run}: expected the folder of a run, with config.json and spaces.json")
    if which not in (None, "best", "last"):
        raise UsageError(f"which = {which!r}: expected 'best', 'last' or None")
    best = bool(checkpoint.find_checkpoints(folder.best)) if which is None else which == "best"
    specs = read_spaces(folder)
    return SavedPolicy(Config.read(folder.config), *specs, folder.best if best else folder.checkpoints)
