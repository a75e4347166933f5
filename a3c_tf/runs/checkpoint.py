"""Saves and restores a run, with TensorFlow's ``Saver``: weights, optimizer slots, counters, as one file.

No pickle and no MetaGraph is read, and no path that a file names is followed: checkpoints are found by
looking into the run folder.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.algorithms.build import Graph
from a3c_tf.config import Config
from a3c_tf.errors import RunError, UsageError
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import quiet_deprecations, tf
from a3c_tf.records import RunState
from a3c_tf.runs.files import writing

_log = logging.getLogger("a3c_tf")
_PREFIX = "model.ckpt"
_STATE = "run_state"


class Checkpointer:
    """Checkpoints of a run's global network, its optimizer slots and its state.

    ``snapshot`` copies the variables aside between two episodes, which costs next to nothing, and
    ``save`` writes the last snapshot. So a run that is stopped in the middle of an episode is saved as
    it stood at that episode's start, and with one worker it goes on from there as if it had never stopped.

    Adds ops to the graph, so it is made before the graph is finalized. Any thread may call.
    """

    def __init__(self, folder: Path, graph: Graph, session: Session, config: Config) -> None:
        self._folder, self._session, self._config = folder, session, config
        self._lock = threading.Lock()
        self._state = RunState()
        self._saved: RunState | None = None
        self._saved_at = time.monotonic()
        with graph.graph.as_default(), tf.device("/cpu:0"), tf.variable_scope("checkpoint", use_resource=True):
            originals = graph.shared_variables
            copies = [
                tf.get_variable(v.op.name, v.shape, v.dtype, tf.zeros_initializer(), trainable=False) for v in originals
            ]
            self._state_text = tf.placeholder(tf.string, [], "state")
            state = tf.get_variable(_STATE, [], tf.string, initializer=tf.constant_initializer(""), trainable=False)
            self._set_state = state.assign(self._state_text, read_value=False)
            take = [c.assign(v.read_value(), read_value=False) for c, v in zip(copies, originals, strict=True)]
            self._give = [v.assign(c.read_value(), read_value=False) for c, v in zip(copies, originals, strict=True)]
            saved = {variable.op.name: copy for variable, copy in zip(originals, copies, strict=True)}
            self._finite = {copy.op.name: tf.reduce_all(tf.is_finite(copy)) for copy in copies}
            self._saver = tf.train.Saver({**saved, _STATE: state}, max_to_keep=3, save_relative_paths=True)
        session.run([copy.initializer for copy in (*copies, state)])
        self._copy_aside = session.call([], [], take)
        self._forms = {name: _form(copy.dtype.as_numpy_dtype, copy.shape) for name, copy in saved.items()}
        self._forms[_STATE] = _form(object, ())

    def snapshot(self, state: RunState) -> None:
        """Remember the run as it is now: its variables, and ``state``, which is not changed afterwards."""
        with self._lock:
            self._copy_aside()
            self._state = state

    def save(self) -> None:
        """Write the last snapshot, unless it is on disk already.

        A kill at any instant leaves the earlier checkpoints as they are. Raises ``RunError`` if the disk
        does not take it, or if it is not worth keeping.
        """
        with self._lock:
            self._saved_at = time.monotonic()
            if self._saved is not None and self._saved.steps == self._state.steps:
                return
            self._check_finite()
            self._session.run(self._set_state, {self._state_text: json.dumps(dataclasses.asdict(self._state))})
            _save(self._saver, self._session, self._folder, self._state.steps)
            self._saved = self._state

    def _check_finite(self) -> None:
        """Numbers too large for float32 pass a worker's guard as long as they are finite, and spoil the slots."""
        odd = sorted(name for name, finite in self._session.run(self._finite).items() if not finite)
        if odd:
            raise RunError(
                f"{odd[0].removeprefix('checkpoint/')} holds NaN or an infinity at step {self._state.steps}, which is "
                "not saved: scale the observations or rewards, or lower the learning rates"
            )

    @property
    def saved_step(self) -> int:
        """The step of the newest checkpoint on disk."""
        return self._saved.steps if self._saved else 0

    def is_due(self) -> bool:
        """Whether the seconds or the episodes between two saves have passed."""
        saved_episodes = self._saved.episodes if self._saved else 0
        late = time.monotonic() - self._saved_at >= self._config.checkpoint_seconds
        return late or self._state.episodes - saved_episodes >= self._config.checkpoint_episodes

    def restore(self) -> RunState:
        """Load the newest good checkpoint into the variables; returns its state.

        Damaged ones are put aside with a warning. Raises ``UsageError`` if none is good, or if a
        checkpoint is of another network.
        """
        for prefix in _without_index(self._folder):
            _log.warning("%s lacks its index file and is passed over", prefix)
            _put_aside(prefix)
        prefixes = find_checkpoints(self._folder)
        for i, prefix in enumerate(prefixes):
            tensors = _read(prefix)
            if tensors is None:
                _put_aside(prefix)
                continue
            self._check_network(prefix, tensors)
            try:
                self._state = RunState.from_json(tensors[_STATE])
            except (TypeError, ValueError) as error:
                raise UsageError(f"{prefix}: its run state is of another version: {error}") from None
            with self._session.graph.as_default(), quiet_deprecations():
                self._saver.restore(self._session.raw, str(prefix))
                self._saver.recover_last_checkpoints([str(older) for older in reversed(prefixes[i:])])
            self._session.run(self._give)
            self._saved = self._state
            return self._state
        raise UsageError(f"{self._folder}: no readable checkpoint; start a new run in another folder")

    def _check_network(self, prefix: Path, tensors: dict[str, Any]) -> None:
        found = {name: _form(getattr(tensor, "dtype", object), np.shape(tensor)) for name, tensor in tensors.items()}
        for name in sorted(set(found) | set(self._forms)):
            expected, got = self._forms.get(name, "none"), found.get(name, "none")
            if got != expected:
                raise UsageError(f"{prefix}: of another network or environment: {name}: expected {expected}, got {got}")


def _form(dtype: Any, shape: Any) -> str:
    return f"{np.dtype(dtype)} {[int(n) for n in shape]}"


def find_checkpoints(folder: Path) -> list[Path]:
    """Prefixes of the checkpoints in ``folder``, newest first.

    Raises ``UsageError`` for one that is a link to somewhere else.
    """
    steps = {}
    for index in folder.glob(f"{_PREFIX}-*.index"):
        if match := re.fullmatch(rf"{re.escape(_PREFIX)}-(\d+)\.index", index.name):
            steps[int(match[1])] = index.with_suffix("")
    for prefix in steps.values():
        for file in (folder, *folder.glob(f"{prefix.name}.*")):
            if file.is_symlink():
                raise UsageError(f"{file}: is a link; a checkpoint is read from its run's own folder only")
    return [steps[step] for step in sorted(steps, reverse=True)]


def _without_index(folder: Path) -> list[Path]:
    """Prefixes of data whose index is missing: a kill came between the two, or somebody removed it."""
    data = {file.with_suffix("") for file in folder.glob(f"{_PREFIX}-*.data-*")}
    return sorted(prefix for prefix in data if not prefix.with_name(f"{prefix.name}.index").exists())


def load_weights(folder: Path, variables: list[Any], session: Session) -> None:
    """Load the newest good checkpoint's values into ``variables``, which bear the names they were saved under.

    Raises ``UsageError`` if there is none.
    """
    tensors = read_newest(folder)
    if tensors is None:
        raise UsageError(f"{folder}: no readable checkpoint; expected the folder of a run that has saved one")
    for variable in variables:
        name = variable.op.name
        expected, got = tuple(variable.shape.as_list()), np.shape(tensors[name]) if name in tensors else "none"
        if got != expected:
            raise UsageError(f"{folder}: of another network: {name}: expected {expected}, got {got}")
        session.run(variable.initializer, {variable.initializer.inputs[1]: tensors[name]})


def read_newest(folder: Path) -> dict[str, Any] | None:
    """All tensors of the newest good checkpoint, if there is one."""
    return next((tensors for prefix in find_checkpoints(folder) if (tensors := _read(prefix)) is not None), None)


class WeightSaver:
    """Saves ``variables`` under other ``names``, keeping the last one saved."""

    def __init__(self, folder: Path, names: list[str], variables: list[Any]) -> None:
        self._folder = folder
        with tf.device("/cpu:0"):
            named = dict(zip(names, variables, strict=True))
            self._saver = tf.train.Saver(named, max_to_keep=1, save_relative_paths=True)

    def save(self, session: Session, global_step: int) -> None:
        with quiet_deprecations():
            self._saver.recover_last_checkpoints([str(prefix) for prefix in reversed(find_checkpoints(self._folder))])
        _save(self._saver, session, self._folder, global_step)


def _save(saver: Any, session: Session, folder: Path, global_step: int) -> None:
    with writing(folder, (OSError, tf.errors.OpError)), session.graph.as_default(), quiet_deprecations():
        folder.mkdir(exist_ok=True)
        saver.save(session.raw, str(folder / _PREFIX), global_step=global_step, write_meta_graph=False)


def _read(prefix: Path) -> dict[str, Any] | None:
    """All tensors of a checkpoint, each proved by its checksum; None with a warning if it is damaged."""
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    except (tf.errors.OpError, LookupError, RuntimeError, ValueError) as error:  # truncated: IndexError
        _log.warning("%s is damaged and passed over: %s", prefix, str(error).splitlines()[0])
        return None


def _put_aside(prefix: Path) -> None:
    """Rename a damaged checkpoint's files, so that they are neither tried again nor lost."""
    for file in prefix.parent.glob(f"{prefix.name}.*"):
        file.rename(file.with_name(f"damaged-{file.name}"))
