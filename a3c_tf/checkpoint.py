"""Saves and restores a run: the global network and its optimizer slots, with TensorFlow's ``Saver``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a3c_tf.acnet import GLOBAL_NET_SCOPE, A3CGraph
from a3c_tf.config import UsageError
from a3c_tf.runs import RunFolder
from a3c_tf.session import Session
from a3c_tf.tf1 import quiet_deprecations, tf


class Checkpointer:
    """Checkpoints of one run's ``Global_Net``, local networks left out: they are copies.

    Adds the save and restore ops to the graph, so it is made before the graph is finalized.
    """

    def __init__(self, run: RunFolder, built: A3CGraph) -> None:
        self._folder = run.checkpoints
        with built.graph.as_default():
            self._saver = make_saver(tf.global_variables(f"{GLOBAL_NET_SCOPE}/"), max_to_keep=3)

    def save(self, session: Session, global_step: int) -> None:
        """Write the checkpoint of ``global_step``."""
        save(self._saver, session, self._folder, global_step)


def make_saver(variables: Any, max_to_keep: int) -> Any:
    """A ``Saver`` of ``variables`` (a list, or a dict by the name they are saved under) in the default graph."""
    with tf.device("/cpu:0"):
        return tf.train.Saver(variables, max_to_keep=max_to_keep, save_relative_paths=True)


def save(saver: Any, session: Session, folder: Path, global_step: int) -> None:
    """Write a checkpoint into ``folder``, which is made if it is not there."""
    folder.mkdir(exist_ok=True)
    with session.graph.as_default(), quiet_deprecations():
        saver.save(session.raw, str(folder / "model.ckpt"), global_step=global_step, write_meta_graph=False)


def restore(saver: Any, session: Session, folder: Path) -> None:
    """Load the newest checkpoint of ``folder``. Raises ``UsageError`` if there is none."""
    prefix = tf.train.latest_checkpoint(str(folder))
    if prefix is None:
        raise UsageError(f"{folder}: no checkpoint here; expected the folder of a run that has saved one")
    with session.graph.as_default():
        saver.restore(session.raw, prefix)
