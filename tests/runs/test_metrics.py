"""What a run tells: rows, TensorBoard's events, lines and a bar."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.api import train
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import Episode, FinishedEpisode, RunState
from a3c_tf.runs.display import PlainLines, ProgressBar, display
from a3c_tf.runs.metrics import CSV_FIELDS
from a3c_tf.training.trainer import Result
from tests.conftest import ToyEnv, read_rows, small_config, toy_env

TOLD = Episode("W_3", -1234.5, 200)


def events_in(folder: Path) -> list[Any]:
    (path,) = folder.glob("events.out.tfevents.*")
    return list(tf.train.summary_iterator(str(path)))


def graph_in(events: list[Any]) -> set[str]:
    """The names of the operations of the graph in the events; empty without a graph."""
    graph = tf.GraphDef()
    for event in events:
        if event.HasField("graph_def"):
            graph.ParseFromString(event.graph_def)
    return {node.name for node in graph.node}


# rows


def test_the_columns_are_those_of_the_design(toy_run: Result) -> None:
    header = (toy_run.run_folder / "metrics.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "wall_time,global_step,episode,worker,episode_return,running_return,episode_length"
    assert tuple(header.split(",")) == CSV_FIELDS


def test_a_row_an_episode(toy_run: Result) -> None:
    rows = read_rows(toy_run.run_folder)
    assert [int(row["episode"]) for row in rows] == list(range(10))
    assert {row["episode_length"] for row in rows} == {"5"}
    assert {float(row["episode_return"]) for row in rows} == {1.0 + 2 + 3 + 4 + 5}
    assert {row["worker"] for row in rows} <= {"W_0", "W_1"}
    for name in ("wall_time", "global_step"):
        column = [float(row[name]) for row in rows]
        assert column == sorted(column)
        assert column[0] >= 0
    assert int(rows[-1]["global_step"]) == toy_run.steps == 50


def test_the_running_return_follows_from_the_returns(tmp_path: Path) -> None:
    class Varying(ToyEnv):
        def step(self, action: np.ndarray) -> Any:
            observation, reward, *rest = super().step(action)
            return observation, reward * (1 + self.episode), *rest

    train(
        small_config(env=lambda: Varying(terminates_at=3), max_episodes=6, log_dir=str(tmp_path / "run")), show="none"
    )
    rows = read_rows(tmp_path / "run")
    running = None
    for row in rows:
        new = float(row["episode_return"])
        running = new if running is None else 0.9 * running + 0.1 * new
        assert float(row["running_return"]) == pytest.approx(running)
    assert float(rows[1]["episode_return"]) == 12.0


def test_rows_and_events_are_there_while_training_goes_on(tmp_path: Path) -> None:
    """The second episode's first step looks at what was written before it."""
    seen: dict[str, Any] = {}

    class Looking(ToyEnv):
        def step(self, action: np.ndarray) -> Any:
            if self.time == 0 and self.episode == 0:
                seen["graph"] = graph_in(events_in(tmp_path / "run"))
            if self.time == 0 and self.episode == 1:
                seen["rows"] = read_rows(tmp_path / "run")
            return super().step(action)

    makes = iter([Looking(terminates_at=3), toy_env()])
    train(small_config(env=lambda: next(makes), workers=2, max_episodes=20, log_dir=str(tmp_path / "run")), show="none")
    if "graph" not in seen:
        pytest.skip("the other worker ran every episode")
    assert {name.split("/")[0] for name in seen["graph"]} >= {"Global_Net", "W_0", "W_1", "sync"}
    assert "rows" not in seen or len(seen["rows"]) >= 1


# events


def test_the_graph_is_in_the_events(toy_run: Result) -> None:
    names = graph_in(events_in(toy_run.run_folder))
    assert {name.split("/")[0] for name in names} >= {"Global_Net", "W_0", "W_1", "sync", "sync_1"}
    assert {"W_0/TD_error", "W_0/S", "W_1/Vtarget", "Global_Net/actor/la/kernel"} <= names


def test_scalars_stand_at_their_global_step(toy_run: Result) -> None:
    rows = read_rows(toy_run.run_folder)
    scalars: dict[str, list[tuple[int, float]]] = {}
    for event in events_in(toy_run.run_folder):
        for value in event.summary.value:
            scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    columns = {
        "episode/return": "episode_return",
        "episode/running_return": "running_return",
        "episode/length": "episode_length",
    }
    assert {*columns, "loss/actor", "loss/critic"} <= set(scalars)
    steps = [int(row["global_step"]) for row in rows]
    for tag, column in columns.items():
        assert [step for step, _ in scalars[tag]] == steps
        np.testing.assert_allclose(
            [value for _, value in scalars[tag]], [float(row[column]) for row in rows], rtol=1e-6
        )
    for tag in ("loss/actor", "loss/critic"):
        told = [step for step, _ in scalars[tag]]  # the learner's numbers come at a pace of seconds
        assert told[0] == steps[0]
        assert set(told) <= set(steps)
        assert np.all(np.isfinite([value for _, value in scalars[tag]]))


def test_tensorboards_own_reader_takes_the_run_folder(toy_run: Result) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(toy_run.run_folder))
    accumulator.Reload()
    assert len(accumulator.Scalars("episode/return")) == 10
    assert accumulator.Graph().node


# lines and a bar


@pytest.mark.parametrize(("running_return", "told"), [(-1043.9, "-1043"), (-0.9, "0"), (12.99, "12"), (-100.0, "-100")])
def test_a_line_has_the_originals_form_and_cuts_the_fraction_off(
    running_return: float, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    PlainLines().episode(TOLD, FinishedEpisode(12, running_return, 2600))
    assert capsys.readouterr() == (f"W_3 Ep: 12 | Ep_r: {told}\n", "")


def test_the_words_for_a_display(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert isinstance(display("auto", small_config(), RunState()), PlainLines)
    assert isinstance(display("lines", small_config(), RunState()), PlainLines)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = display("auto", small_config(), RunState())
    assert isinstance(bar, ProgressBar)
    bar.close()
    assert isinstance(display("lines", small_config(), RunState()), PlainLines)
    display("none", small_config(), RunState()).episode(TOLD, FinishedEpisode(0, 0.0, 1))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("budget", "total"),
    [({"max_episodes": 10}, "10/10 episodes"), ({"max_episodes": None, "max_steps": 500}, "500/500 steps")],
)
def test_the_bar_counts_the_budget_and_tells_return_and_speed(
    budget: dict[str, Any], total: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = ProgressBar(small_config(**budget), RunState())
    for episode in range(10):
        bar.episode(TOLD, FinishedEpisode(episode, -321.4, 50 * (episode + 1)))
    bar.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "100%" in err
    assert total in err
    assert "running return -321" in err
    assert re.search(r"[\d,]+ steps/s", err)


def test_lines_are_what_train_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(small_config(env=toy_env, max_episodes=2, log_dir=str(tmp_path / "run")), show="lines")
    assert capsys.readouterr() == ("W_0 Ep: 0 | Ep_r: 15\nW_0 Ep: 1 | Ep_r: 15\n", "")
