"""What TensorBoard finds in a run folder, read with TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from a3c_tf.api import resume, train
from a3c_tf.runs import tensorboard
from tests.conftest import small_config, toy_env

SCALARS = {
    *("episode/return", "episode/running_return", "episode/length", "loss/actor", "loss/critic"),
    *("policy/entropy", "policy/sigma", "value/mean", "gradient/norm"),
    *("learning_rate/actor", "learning_rate/critic", "steps_per_second"),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("events") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensorboard, "SCALARS_SECONDS", 0.0)
        settings = {"learning_rate_decay": "linear", "max_steps": 100, "max_episodes": None}
        train(small_config(env=toy_env, log_dir=str(folder), **settings), show="none")
    accumulator = EventAccumulator(str(folder), {"histograms": 0})  # all of them, not the last alone
    accumulator.Reload()
    return accumulator


def test_every_scalar_has_the_global_step_as_x(told: Any) -> None:
    assert set(told.Tags()["scalars"]) == SCALARS
    for tag in SCALARS:
        assert [event.step for event in told.Scalars(tag)] == list(range(5, 101, 5)), tag


def test_learning_rates_are_those_of_the_moment(told: Any) -> None:
    rates = [event.value for event in told.Scalars("learning_rate/actor")]
    assert rates == pytest.approx([1e-4 * (1 - step / 100) for step in range(5, 101, 5)], abs=1e-9)


def test_the_global_weights_are_there_as_histograms(told: Any) -> None:
    assert "Global_Net/actor/la/kernel" in told.Tags()["histograms"]
    first, last = (told.Histograms("Global_Net/critic/v/bias")[i].histogram_value for i in (0, -1))
    assert first.num == last.num == 1
    assert first.sum != last.sum


def test_graph_and_settings_are_there(told: Any) -> None:
    assert told.Tags()["graph"]
    page = told.Tensors("settings")[0].tensor_proto.string_val[0].decode()
    assert "| actor_hidden | 8 |" in page


def test_the_graph_holds_no_summary_operations(told: Any) -> None:
    assert not [node.name for node in told.Graph().node if "Summary" in node.op]


def test_each_start_has_a_file_of_its_own_even_within_a_second(tmp_path: Path) -> None:
    folder = train(small_config(env=toy_env, log_dir=str(tmp_path / "run")), show="none").run_folder
    for episodes in range(4, 12):
        before = {path.name: path.read_bytes() for path in folder.glob("events.out.tfevents.*")}
        resume(folder, "none", max_episodes=episodes)
        after = sorted(path.name for path in folder.glob("events.out.tfevents.*"))
        assert after[:-1] == sorted(before), "the new one comes last"
        assert all((folder / name).read_bytes() == content for name, content in before.items())
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    assert [event.step for event in accumulator.Scalars("episode/return")] == list(range(5, 60, 5))


def test_the_learner_is_reported_at_a_pace_of_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "SCALARS_SECONDS", 1000.0)
    folder = train(small_config(env=toy_env, log_dir=str(tmp_path / "run")), show="none").run_folder
    resume(folder, "none", max_episodes=5)
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    assert [event.step for event in accumulator.Scalars("loss/actor")] == [5, 20], "at each start"
    assert [event.step for event in accumulator.Scalars("episode/return")] == [5, 10, 15, 20, 25]
