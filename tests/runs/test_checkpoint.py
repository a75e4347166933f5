"""The weights that a run leaves: complete, loadable, and no more than they should be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.algorithms.build import Graph, build_graph
from a3c_tf.algorithms.calls import worker_calls
from a3c_tf.errors import UsageError
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import RunState
from a3c_tf.runs.checkpoint import Checkpointer
from a3c_tf.training.trainer import Result
from tests.conftest import PENDULUM, final_weights, small_config


class Opened:
    """A graph, a checkpointer on a folder, and a session with fresh weights."""

    def __init__(self, folder: Path, seed: int = 1, **settings: Any) -> None:
        config = small_config(seed=seed, **settings)
        self.built: Graph = build_graph(config, *PENDULUM)
        with self.built.graph.as_default():
            initializer = tf.global_variables_initializer()
        self.session = Session(self.built.graph)
        self.session.run(initializer)
        self.checkpointer = Checkpointer(folder, self.built, self.session, config)
        self.built.graph.finalize()
        self.calls = worker_calls(self.built.worker_nets[0], self.session)

    def learn(self) -> None:
        rng = np.random.default_rng(0)
        self.calls.update_global(*(rng.standard_normal((5, n)).astype(np.float32) for n in (3, 1, 1)))

    def save(self, state: RunState) -> None:
        self.checkpointer.snapshot(state)
        self.checkpointer.save()

    def values(self) -> dict[str, np.ndarray]:
        variables = self.built.shared_variables
        return dict(zip([v.op.name for v in variables], self.session.run(variables), strict=True))

    def assert_values(self, expected: dict[str, np.ndarray]) -> None:
        for name, value in self.values().items():
            np.testing.assert_array_equal(value, expected[name], name)


STATE = RunState(steps=50, episodes=7, running_return=-12.5, wall_time=3.25, worker_episodes={"W_0": 4, "W_1": 3})


@pytest.mark.parametrize(("optimizer", "number"), [("rmsprop", 30), ("adam", 34)])
def test_what_was_saved_is_restored_slots_and_state_included(tmp_path: Path, optimizer: str, number: int) -> None:
    saved, other = Opened(tmp_path, 1, optimizer=optimizer), Opened(tmp_path, 2, optimizer=optimizer)
    saved.learn()
    saved.save(STATE)
    expected = saved.values()
    assert not np.array_equal(expected["Global_Net/actor/la/kernel"], other.values()["Global_Net/actor/la/kernel"])
    assert other.checkpointer.restore() == STATE
    assert len(expected) == number
    other.assert_values(expected)


def test_what_is_saved_is_the_last_snapshot_not_what_came_after(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.learn()
    opened.checkpointer.snapshot(STATE)
    expected = opened.values()
    opened.learn()
    opened.checkpointer.save()
    assert not np.array_equal(opened.values()["Global_Net/critic/v/bias"], expected["Global_Net/critic/v/bias"])
    opened.checkpointer.restore()
    opened.assert_values(expected)


def test_the_newest_is_restored_and_old_ones_are_pruned(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    for step in (10, 20, 30, 40, 100):  # in the order of numbers, not of letters
        opened.learn()
        opened.save(RunState(steps=step))
    expected = opened.values()
    assert len(list(tmp_path.glob("*.index"))) == 3
    opened.learn()
    assert opened.checkpointer.restore().steps == 100
    opened.assert_values(expected)


def test_old_ones_are_pruned_after_a_restore_too(tmp_path: Path) -> None:
    first, second = Opened(tmp_path), Opened(tmp_path)
    for step in (10, 20, 30):
        first.save(RunState(steps=step))
    second.checkpointer.restore()
    second.save(RunState(steps=40))
    assert sorted(path.name for path in tmp_path.glob("*.index")) == [f"model.ckpt-{n}.index" for n in (20, 30, 40)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "without index", "empty"])
def test_a_damaged_checkpoint_is_passed_over_for_an_older_one_with_a_warning(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened = Opened(tmp_path)
    opened.learn()
    opened.save(RunState(steps=10))
    expected = opened.values()
    opened.learn()
    opened.save(RunState(steps=20))
    (data,), index = tmp_path.glob("model.ckpt-20.data*"), tmp_path / "model.ckpt-20.index"
    content = bytearray(data.read_bytes())
    if damage == "cut":
        data.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    elif damage == "without index":
        index.unlink()
    else:
        index.write_bytes(b"")
    assert opened.checkpointer.restore().steps == 10
    opened.assert_values(expected)
    assert damage == "without index" or any("model.ckpt-20 is damaged" in line.getMessage() for line in caplog.records)


def test_an_unreadable_state_file_of_the_saver_does_not_matter(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.save(STATE)
    (tmp_path / "checkpoint").write_text("garbage")
    assert opened.checkpointer.restore() == STATE


def test_without_a_good_checkpoint_restoring_is_refused(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    with pytest.raises(UsageError, match=r"no .*checkpoint"):
        opened.checkpointer.restore()


def test_a_checkpoint_of_another_network_is_refused_with_both_shapes(tmp_path: Path) -> None:
    Opened(tmp_path).save(STATE)
    with pytest.raises(
        UsageError, match=r"of another network.*: Global_Net/actor/\S+: expected \S+ \[.*9.*\], got \S+ \[.*8.*\]"
    ):
        Opened(tmp_path, actor_hidden=9).checkpointer.restore()


def test_a_checkpoint_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    Opened(tmp_path / "elsewhere").save(STATE)
    (tmp_path / "run").mkdir()
    for file in (tmp_path / "elsewhere").glob("model.ckpt*"):
        (tmp_path / "run" / file.name).symlink_to(file)
    with pytest.raises(UsageError, match="is a link"):
        Opened(tmp_path / "run").checkpointer.restore()


def test_a_run_leaves_the_global_network_and_no_local_one(toy_run: Result) -> None:
    weights = final_weights(toy_run.run_folder)
    ours = {name for name in weights if name.startswith("Global_Net/")}
    layers = ("actor/la", "actor/mu", "actor/sigma", "critic/lc", "critic/v")
    expected = {f"Global_Net/{layer}/{part}" for layer in layers for part in ("kernel", "bias")}
    assert expected <= ours
    assert len(ours) == 3 * len(expected), "each variable has its two slots"
    assert not [name for name in weights if name.startswith(("W_", "checkpoint"))]
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
