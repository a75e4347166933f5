"""The weights that a run leaves: complete, loadable, and no more than they should be."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from a3c_tf.acnet import A3CGraph, build_graph
from a3c_tf.checkpoint import Checkpointer, make_saver, restore
from a3c_tf.config import UsageError
from a3c_tf.runs import RunFolder
from a3c_tf.session import Session
from a3c_tf.tf1 import tf
from a3c_tf.trainer import Result
from tests.conftest import PENDULUM, final_weights, small_config


class Opened:
    """A graph, a checkpointer on a folder, and a session with fresh weights."""

    def __init__(self, run: RunFolder, seed: int) -> None:
        self.built: A3CGraph = build_graph(small_config(seed=seed), *PENDULUM)
        self.checkpointer = Checkpointer(run, self.built)
        with self.built.graph.as_default():
            initializer = tf.global_variables_initializer()
            self.variables = tf.global_variables("Global_Net/")
            self.saver = make_saver(self.variables, max_to_keep=1)
        self.built.graph.finalize()
        self.session = Session(self.built.graph)
        self.session.run(initializer)

    def learn(self) -> None:
        rng = np.random.default_rng(0)
        calls = self.built.worker_nets[0].calls(self.session, small_config())
        calls.update_global(*(rng.standard_normal((5, n)).astype(np.float32) for n in (3, 1, 1)))

    def restore(self, run: RunFolder) -> None:
        restore(self.saver, self.session, run.checkpoints)

    def values(self) -> dict[str, np.ndarray]:
        names = [variable.op.name for variable in self.variables]
        return dict(zip(names, self.session.run(self.variables), strict=True))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(small_config(log_dir=str(tmp_path / "run")))


def test_what_was_saved_is_restored_slots_included(run: RunFolder) -> None:
    saved, other = Opened(run, seed=1), Opened(run, seed=2)
    saved.learn()
    saved.checkpointer.save(saved.session, 5)
    expected = saved.values()
    assert not np.array_equal(expected["Global_Net/actor/la/kernel"], other.values()["Global_Net/actor/la/kernel"])
    other.restore(run)
    assert len(expected) == 30
    for name, value in other.values().items():
        np.testing.assert_array_equal(value, expected[name], name)


def test_the_newest_is_restored_and_old_ones_are_pruned(run: RunFolder) -> None:
    opened = Opened(run, seed=1)
    for step in (10, 20, 30, 40, 50):
        opened.learn()
        opened.checkpointer.save(opened.session, step)
    expected = opened.values()
    opened.learn()
    opened.restore(run)
    np.testing.assert_array_equal(opened.values()["Global_Net/critic/v/bias"], expected["Global_Net/critic/v/bias"])
    assert len(list(run.checkpoints.glob("*.index"))) == 3


def test_without_a_checkpoint_restoring_is_refused(run: RunFolder) -> None:
    opened = Opened(run, seed=1)
    with pytest.raises(UsageError, match="no checkpoint"):
        opened.restore(run)


def test_a_run_leaves_the_global_network_and_no_local_one(toy_run: Result) -> None:
    weights = final_weights(toy_run.run_folder)
    ours = {name for name in weights if name.startswith("Global_Net/")}
    layers = ("actor/la", "actor/mu", "actor/sigma", "critic/lc", "critic/v")
    expected = {f"Global_Net/{layer}/{part}" for layer in layers for part in ("kernel", "bias")}
    assert expected <= ours
    assert len(ours) == 3 * len(expected), "each variable has its two slots"
    assert not [name for name in weights if name.startswith("W_")]
    assert all(np.all(np.isfinite(weights[name])) for name in ours)


def test_a_run_learnt_something(toy_run: Result) -> None:
    weights = final_weights(toy_run.run_folder)
    assert np.any(weights["Global_Net/critic/v/bias"] != 0)
    assert np.all(weights["Global_Net/critic/v/bias/RMSPropC"] != 1)


def test_a_run_leaves_no_stored_program(toy_run: Result) -> None:
    """No MetaGraph: a graph from a stranger's checkpoint could do anything."""
    names = {path.name for path in (toy_run.run_folder / "checkpoints").iterdir()}
    assert not {name for name in names if name.endswith((".meta", ".pkl", ".pickle"))}


def test_the_name_tells_the_steps(toy_run: Result) -> None:
    prefix = tf.train.latest_checkpoint(str(toy_run.run_folder / "checkpoints"))
    assert prefix.endswith("-50")


def test_a_run_folder_can_be_moved(toy_run: Result, tmp_path: Path) -> None:
    shutil.copytree(toy_run.run_folder, tmp_path / "moved")
    state = (tmp_path / "moved" / "checkpoints" / "checkpoint").read_text(encoding="utf-8")
    assert str(toy_run.run_folder) not in state
    assert final_weights(tmp_path / "moved").keys() == final_weights(toy_run.run_folder).keys()
