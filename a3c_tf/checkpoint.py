"""Saves and restores a run: the global network and its optimizer slots, with TensorFlow's ``Saver``."""

from __future__ import annotations

from pathlib import Path

from a3c_tf.acnet import GLOBAL_NET_SCOPE, A3CGraph
from a3c_tf.config import UsageError
from a3c_tf.runs import RunFolder
from a3c_tf.session import Session
from a3c_tf.tf1 import tf


class Checkpointer:
    """Checkpoints of one run's ``Global_Net``, local networks left out: they are copies.

    Adds the save and restore ops to the graph, so it is made before the graph is finalized.
    """

    def __init__(self, run: RunFolder, built: A3CGraph) -> None:
        self._folder = run.checkpoints
        with built.graph.as_default(), built.graph.device("/cpu:0"):
            self._saver = tf.train.Saver(
                tf.global_variables(f"{GLOBAL_NET_SCOPE}/"), max_to_keep=3, save_relative_paths=True
            )

    def save(self, session: Session, global_step: int) -> Path:
        """Write the checkpoint of ``global_step``; returns its prefix."""
        self._folder.mkdir(exist_ok=True)
        with session.graph.as_default():
            prefix = self._saver.save(
                session.raw, str(self._folder / "model.ckpt"), global_step=global_step, write_meta_graph=False
            )
        return Path(prefix)

    def restore(self, session: Session) -> Path:
        """Load the newest checkpoint; returns its prefix. Raises ``UsageError`` if there is none."""
        prefix = tf.train.latest_checkpoint(str(self._folder))
        if prefix is None:
            raise UsageError(f"{self._folder}: no checkpoint here; expected the folder of a run that has saved one")
        self._saver.restore(session.raw, prefix)
        return Path(prefix)
