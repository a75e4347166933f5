"""A run that is stopped and resumed does what one that never stopped does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.api import resume, train
from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from a3c_tf.graph.tf1 import tf
from a3c_tf.training import best, trainer
from a3c_tf.training.trainer import Result
from tests.faulty import Env, Raises, box, learnt, newest, rows, settings, tensors


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curve takes longer than these trainings."""
    monkeypatch.setattr(trainer, "_draw", lambda run: None)


def train_small(run: Path, **changes: Any) -> Result:
    return train(Config.for_env(**settings(run, **changes)), "none")


class Stop(Exception):  # noqa: N818
    pass


class Stopped(Env):
    """Stops the run in an episode and step; a factory stands for it under the name of ``Env``."""

    at = (2, 5)

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        if (self.episode, self.time) == self.at:
            raise Stop
        return super().step(action)


def stopped_at(episode: int, step: int) -> type[Stopped]:
    """An environment that the run folder takes for ``Env``."""
    return type("Env", (Stopped,), {"at": (episode, step), "__module__": Env.__module__})


VARIANTS = {
    "rmsprop": {},
    "classic-adam": {"preset": "classic-adam"},
    "decay and evaluation": {
        "learning_rate_decay": "linear",
        "max_episode_steps": 10,
        "evaluation_interval": 20,
        "evaluation_episodes": 2,
    },
    "steps": {"max_episodes": None, "max_steps": 76},
}


def config_of(run: Path, variant: str, env: Callable[[], Any] = Env) -> Config:
    changes = dict(VARIANTS[variant])
    preset = changes.pop("preset", None)
    if preset is None:
        return Config.for_env(**settings(run, **changes, env=env))
    own = settings(run, env="Pendulum-v1")
    del own["rollout_steps"]
    return Config.preset(preset, **own).replace(env=env)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a run of eight episodes that never stopped, made once for each variant."""
    made: dict[str, Path] = {}

    def uninterrupted(variant: str) -> Path:
        if variant not in made:
            made[variant] = tmp_path_factory.mktemp("whole") / "run"
            train(config_of(made[variant], variant), "none")
        return made[variant]

    return uninterrupted


@pytest.mark.parametrize("at", [(0, 3), (5, 9)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_writes_the_same_rows_and_learns_the_same_to_the_last_bit(
    tmp_path: Path, uninterrupted: Callable[[str], Path], variant: str, at: tuple[int, int]
) -> None:
    whole, run = uninterrupted(variant), tmp_path / "run"
    with pytest.raises(Stop):
        train(config_of(run, variant, stopped_at(*at)), "none")
    assert len(rows(run)) == at[0]
    result = resume(run, "none", env=Env)
    assert rows(run) == rows(whole)
    assert result.steps == int(newest(whole).name.rpartition("-")[2])
    assert len(result.returns) == len(rows(whole))
    here, there = learnt(newest(run)), learnt(newest(whole))
    assert here.keys() == there.keys()
    for name, value in there.items():
        np.testing.assert_array_equal(here[name], value, name)
    ours, theirs = (json.loads(tensors(newest(folder))["run_state"]) for folder in (run, whole))
    assert {**ours, "wall_time": 0} == {**theirs, "wall_time": 0}
    if (whole / "evaluations.csv").exists():
        assert rows(run, "evaluations.csv") == rows(whole, "evaluations.csv")
        assert newest(run, "best").name == newest(whole, "best").name


def test_wall_time_goes_on(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train_small(tmp_path / "run", env=stopped_at(4, 5))
    resume(tmp_path / "run", "none", env=Env)
    times = [float(row["wall_time"]) for row in rows(tmp_path / "run", without="")]
    assert times == sorted(times)


def test_an_evaluation_that_had_to_stop_is_made_again(
    tmp_path: Path, uninterrupted: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    play, calls = best.play, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise Stop
        return play(*arguments)

    run, whole = tmp_path / "run", uninterrupted("decay and evaluation")
    monkeypatch.setattr(best, "play", interrupted)
    with pytest.raises(Stop):
        train(config_of(run, "decay and evaluation"), "none")
    assert len(rows(run, "evaluations.csv")) == 1
    resume(run, "none", env=Env)
    assert rows(run, "evaluations.csv") == rows(whole, "evaluations.csv")
    assert rows(run) == rows(whole)


def test_the_best_policy_is_not_replaced_by_a_worse_one(tmp_path: Path, uninterrupted: Callable[[str], Path]) -> None:
    """Killed after an evaluation that was the best, before the next checkpoint: its row is told again or not."""
    run = tmp_path / "run"
    shutil.copytree(uninterrupted("decay and evaluation"), run)
    best = newest(run, "best")
    score = tensors(best)["mean_return"]
    returns = [float(row["mean_return"]) for row in rows(run, "evaluations.csv")]
    assert score == max(returns)
    (run / "evaluations.csv").write_text(
        (run / "evaluations.csv").read_text(encoding="utf-8").replace(repr(max(returns)), "-1000.0"), encoding="utf-8"
    )
    resume(run, "none", env=Env, max_episodes=12)
    assert tensors(newest(run, "best"))["mean_return"] >= score


def test_with_several_workers_the_counters_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stop):
        train_small(run, env=stopped_at(4, 2), workers=3, max_episodes=30)
    before = len(rows(run))
    done = json.loads(tensors(newest(run))["run_state"])["worker_episodes"]
    assert sum(done.values()) == before
    result = resume(run, "none", env=Env)
    assert [int(row["episode"]) for row in rows(run)] == list(range(30))
    # what was learnt of an episode that the stop cut short counts, though it is run again
    assert 300 <= result.steps < 300 + 2 * 10
    after = json.loads(tensors(newest(run))["run_state"])["worker_episodes"]
    assert all(after[worker] >= done[worker] for worker in done)
    assert sum(after.values()) == 30


# what a kill leaves behind


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_from_its_beginning(
    tmp_path: Path, uninterrupted: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(uninterrupted("rmsprop") / "config.json", run)
    (run / ".spaces.json.new").write_text('{"obser')
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "model.ckpt-0.data-00000-of-00001.tempstate123").write_bytes(b"half")
    (run / "checkpoints" / "model.ckpt-0.data-00000-of-00001").write_bytes(b"whole, but without its index")
    resume(run, "none", env=Env)
    assert "starts from its beginning" in caplog.text
    assert rows(run) == rows(uninterrupted("rmsprop"))
    assert (run / "spaces.json").read_text() == (uninterrupted("rmsprop") / "spaces.json").read_text()


@pytest.mark.parametrize(
    "left", [".metrics.csv.new", ".config.json.new", ".evaluations.csv.new", "checkpoints/checkpoint.tmp0f",
             "checkpoints/model.ckpt-90.data-00000-of-00001.tempstate1", "checkpoints/model.ckpt-90.index.tempstate2"],
)  # fmt: skip
def test_what_was_being_written_is_cleaned(tmp_path: Path, uninterrupted: Callable[[str], Path], left: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted("rmsprop"), run)
    (run / left).write_text("half")
    theirs = [run / ".notes.new", run / "checkpoints" / "notes.tempstate1"]
    for file in theirs:
        file.write_text("a user's")
    resume(run, "none", env=Env)
    assert not (run / left).exists()
    assert [file.read_text() for file in theirs] == ["a user's"] * 2
    assert rows(run) == rows(uninterrupted("rmsprop"))


@pytest.mark.parametrize("end", ["7,80,8,W_0,-1", "7,80,8,W_0,-1.0,-1.0,10\n8,90,9,W_", "\x00\x00\x00"])
def test_rows_after_the_checkpoint_are_cut_off(tmp_path: Path, uninterrupted: Callable[[str], Path], end: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted("rmsprop"), run)
    with (run / "metrics.csv").open("a") as file:
        file.write(end)
    resume(run, "none", env=Env, max_episodes=10)
    assert [int(row["episode"]) for row in rows(run)] == list(range(10))
    assert rows(run)[:8] == rows(uninterrupted("rmsprop"))


def test_an_empty_table_gets_its_head_and_missing_rows_are_told_of(
    tmp_path: Path, uninterrupted: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted("rmsprop"), run)
    (run / "metrics.csv").write_text("")
    resume(run, "none", env=Env, max_episodes=9)
    assert [row["episode"] for row in rows(run)] == ["8"]
    assert "0 rows are left of the run's 8 episodes" in caplog.text


def test_tensorboard_is_told_where_the_run_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Stop):
        train_small(run, env=stopped_at(3, 5))
    first = set(run.glob("events*"))
    resume(run, "none", env=Env)
    (second,) = set(run.glob("events*")) - first
    events = list(tf.train.summary_iterator(str(second)))
    starts = [event.step for event in events if event.session_log.status == tf.SessionLog.START]
    assert starts == [31]
    told = {event.step for event in events for value in event.summary.value if value.tag == "episode/return"}
    assert told == {40, 50, 60, 70, 80}


# what may be given


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"workers": 2}, "workers: the run to resume has 1, got 2"),
        ({"seed": 6}, "seed: the run to resume has 5, got 6"),
        ({"max_episodes": 7}, "max_episodes: the run to resume has 8, got 7"),
        ({"env": "Pendulum-v1"}, "env: the run to resume has tests.faulty:Env, got Pendulum-v1"),
        ({"env": Raises}, "env: the run to resume has tests.faulty:Env, got tests.faulty:Raises"),
        ({"preset_name": "classic"}, "preset_name: the run to resume has general"),
        ({"wrkers": 2}, "wrkers: no such setting"),
    ],
)
def test_other_options_are_refused_and_nothing_is_changed(
    uninterrupted: Callable[[str], Path], given: dict[str, Any], told: str
) -> None:
    run = uninterrupted("rmsprop")
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    with pytest.raises(UsageError, match=told):
        resume(run, "none", **{"env": Env, **given})
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_a_callable_without_a_name_must_be_given_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_small(run, env=lambda: Env(), max_episodes=1)
    with pytest.raises(UsageError, match=r"<lambda>"):
        resume(run, "none")


def test_equal_options_and_a_larger_budget_are_accepted(tmp_path: Path, uninterrupted: Callable[[str], Path]) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted("rmsprop"), run)
    result = resume(run, "none", env=Env, workers=1, seed=5, max_episodes=11)
    assert len(result.returns) == 11
    assert Config.read(run / "config.json").max_episodes == 11
    train_small(tmp_path / "longer", max_episodes=11)
    assert rows(run) == rows(tmp_path / "longer")


@pytest.mark.parametrize("variant", ["rmsprop", "decay and evaluation", "steps"])
def test_a_finished_run_stays_as_it_is(tmp_path: Path, uninterrupted: Callable[[str], Path], variant: str) -> None:
    run, whole = tmp_path / "run", uninterrupted(variant)
    shutil.copytree(whole, run)
    result = resume(run, "none", env=Env)
    assert rows(run) == rows(whole)
    assert len(result.returns) == len(rows(whole))
    assert newest(run).name == newest(whole).name
    if (whole / "evaluations.csv").exists():
        assert rows(run, "evaluations.csv") == rows(whole, "evaluations.csv")


@pytest.mark.parametrize("held", [None, {}, {"notes.txt": "mine"}, {"config.json": "{"}, {"config.json": "[1]"}])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, held: dict[str, str] | None) -> None:
    run = tmp_path / "run"
    if held is not None:
        run.mkdir()
        for name, text in held.items():
            (run / name).write_text(text)
    with pytest.raises(UsageError, match=r"expected the (folder|settings) of a run"):
        resume(run, "none")
    assert {file.name for file in run.glob("*") if not file.name.startswith(".")} == set(held or {})


# the environment must be the same


class Wider(Env):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = box((4,), np.inf)


class Stronger(Env):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = box((1,), 3.0)


@pytest.mark.parametrize(
    ("env", "told"),
    [(Wider, r"expected .*shape=\(3,\).*, got .*shape=\(4,\)"), (Stronger, r"expected .*2\.0.*, got .*3\.0")],
)
def test_another_environment_of_the_same_name_is_refused(
    uninterrupted: Callable[[str], Path], env: type[Env], told: str
) -> None:
    factory = type("Env", (env,), {"__module__": Env.__module__})
    with pytest.raises(UsageError, match=told):
        resume(uninterrupted("rmsprop"), "none", env=factory)
