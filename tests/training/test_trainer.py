"""train(): exact budgets, every worker once, exceptions that come out, repeatable runs."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.api import resume, train
from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from a3c_tf.graph.tf1 import tf
from a3c_tf.training import trainer
from a3c_tf.training.trainer import Result
from tests.conftest import (
    ToyEnv,
    everything_in,
    final_weights,
    read_rows,
    run_together,
    small_config,
    toy_env,
)


class Makes:
    """A factory of toy environments that remembers them; ``prepare`` gets each with its worker's number."""

    def __init__(self, prepare: Callable[[int, ToyEnv], None] = lambda i, env: None) -> None:
        self.prepare = prepare
        self.envs: list[ToyEnv] = []

    def __call__(self) -> ToyEnv:
        env = toy_env()
        self.prepare(len(self.envs), env)
        self.envs.append(env)
        return env


def train_toy(folder: Path, env: Callable[[], Any] = toy_env, **changes: Any) -> Result:
    return train(small_config(env=env, log_dir=str(folder), **changes), show="none")


# every worker once, exact budgets


def test_eight_workers_run_once_each_under_their_own_names_and_finish_exactly_fifty_episodes(tmp_path: Path) -> None:
    all_here = threading.Barrier(8)
    threads: list[set[str]] = [set() for _ in range(8)]

    def prepare(i: int, env: ToyEnv) -> None:
        reset = env.reset

        def meeting_reset(seed: int | None = None) -> Any:
            threads[i].add(threading.current_thread().name)
            if env.episode == -1:
                all_here.wait(30)  # nobody runs a second episode before everybody has begun a first
            return reset(seed)

        env.reset = meeting_reset  # type: ignore[method-assign]

    makes = Makes(prepare)
    result = train_toy(tmp_path / "run", makes, workers=8, max_episodes=50)
    assert threads == [{f"W_{i}"} for i in range(8)]

    rows = read_rows(tmp_path / "run")
    assert [int(row["episode"]) for row in rows] == list(range(50))
    assert {row["worker"] for row in rows} == {f"W_{i}" for i in range(8)}
    assert sum(env.episode + 1 for env in makes.envs) == 50, "no episode is run beyond the budget"
    assert sum(len(env.actions) for env in makes.envs) == result.steps == 250
    assert len(result.returns) == len(result.running_returns) == 50
    assert len(set(itertools.chain(*(env.seeds for env in makes.envs)))) == 50, "no two episodes are the same"


@pytest.mark.parametrize(("workers", "max_steps"), [(3, 123), (1, 3)])
def test_exactly_the_steps_of_the_budget(tmp_path: Path, workers: int, max_steps: int) -> None:
    makes = Makes()
    result = train_toy(tmp_path / "run", makes, workers=workers, max_episodes=None, max_steps=max_steps)
    assert sum(len(env.actions) for env in makes.envs) == result.steps == max_steps
    assert len(read_rows(tmp_path / "run")) == len(result.returns) <= max_steps // 5


@pytest.mark.parametrize(("episodes", "steps", "expected"), [(3, 10_000, 15), (100, 22, 22)])
def test_the_budget_that_is_used_first_ends_the_run(tmp_path: Path, episodes: int, steps: int, expected: int) -> None:
    assert train_toy(tmp_path / "run", max_episodes=episodes, max_steps=steps).steps == expected


def test_the_result_is_what_the_rows_say(toy_run: Result) -> None:
    rows = read_rows(toy_run.run_folder)
    np.testing.assert_array_equal(toy_run.returns, [float(row["episode_return"]) for row in rows])
    np.testing.assert_array_equal(toy_run.running_returns, [float(row["running_return"]) for row in rows])
    assert toy_run.returns.tolist() == [15.0] * 10
    assert toy_run.steps == 50
    assert toy_run.seconds > 0


def test_its_seconds_do_not_hold_what_comes_after_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = 1000.0
    monotonic = time.monotonic
    monkeypatch.setattr(
        trainer, "_draw", lambda run: monkeypatch.setattr(time, "monotonic", lambda: monotonic() + late)
    )
    assert train_toy(tmp_path / "run").seconds < late


def test_the_run_folder_holds_what_the_design_says(toy_run: Result) -> None:
    names = {path.name for path in toy_run.run_folder.iterdir()}
    events = {name for name in names if name.startswith("events.out.tfevents.")}
    assert {"config.json", "metrics.csv", "checkpoints", "learning_curve.png"} <= names
    assert len(events) == 1
    assert not {name for name in names if name.endswith((".tmp", "~"))}
    assert (toy_run.run_folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_environments_are_closed_and_the_seed_that_was_drawn_is_written_down(tmp_path: Path) -> None:
    makes = Makes()
    train_toy(tmp_path / "run", makes, workers=2, seed=None, max_episodes=1)
    assert [env.closed for env in makes.envs] == [True] * 2
    assert isinstance(Config.read(tmp_path / "run" / "config.json").seed, int)


# what goes wrong in a worker


class OfItsOwnKind(BaseException):
    """No Exception, so that ``except Exception`` does not see it."""


ERRORS = [
    ZeroDivisionError("in the physics"),
    StopIteration("no more data"),
    tf.errors.OutOfRangeError(None, None, "what a Coordinator takes for a clean end"),
    SystemExit(0),
    KeyboardInterrupt(),
    OfItsOwnKind("whatever"),
]


def failing(error: BaseException, call: str) -> Makes:
    """The second worker's environment raises; the first's waits for that before it does anything."""
    about_to_fail = threading.Event()

    def prepare(i: int, env: ToyEnv) -> None:
        right = getattr(env, call)

        def replaced(*arguments: Any, **named: Any) -> Any:
            if i == 1:
                about_to_fail.set()
                raise error
            about_to_fail.wait(30)
            return right(*arguments, **named)

        setattr(env, call, replaced)

    return Makes(prepare)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_an_environment_raises_comes_out_with_the_workers_name(
    tmp_path: Path, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    makes = failing(error, "step")
    with pytest.raises(type(error)) as raised:
        train_toy(tmp_path / "run", makes, workers=2, max_episodes=900)
    assert raised.value is error
    if sys.version_info >= (3, 11):
        assert any("W_1" in note for note in raised.value.__notes__)
    assert any(
        "W_1" in record.getMessage() and type(error).__name__ in record.getMessage() for record in caplog.records
    )
    assert "replaced" in [entry.name for entry in raised.traceback], "the traceback leads into the environment"
    assert [env.closed for env in makes.envs] == [True, True]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("W_")]


def test_a_failing_reset_comes_out_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="in the physics"):
        train_toy(tmp_path / "run", failing(ZeroDivisionError("in the physics"), "reset"), workers=2, max_episodes=900)


def test_a_wrong_answer_of_an_environment_is_found_at_once(tmp_path: Path) -> None:
    def prepare(i: int, env: ToyEnv) -> None:
        env.observation = lambda: np.zeros((3, 1), np.float32)  # type: ignore[method-assign]

    with pytest.raises(ValueError, match=r"reset\(\) must return an observation of shape \(3,\), got shape \(3, 1\)"):
        train_toy(tmp_path / "run", Makes(prepare))


def test_of_two_failures_at_once_one_is_raised_and_both_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = threading.Barrier(2)

    def prepare(i: int, env: ToyEnv) -> None:
        def step(action: np.ndarray) -> Any:
            both.wait(30)
            raise ValueError(f"failure of {i}")

        env.step = step  # type: ignore[method-assign]

    with caplog.at_level(logging.ERROR, "a3c_tf"), pytest.raises(ValueError, match=r"failure of [01]"):
        train_toy(tmp_path / "run", Makes(prepare), workers=2)
    logged = " ".join(record.getMessage() for record in caplog.records)
    assert all(text in logged for text in ("W_0", "W_1", "failure of 0", "failure of 1"))


def test_after_a_failure_the_rows_and_a_checkpoint_are_there(tmp_path: Path) -> None:
    def prepare(i: int, env: ToyEnv) -> None:
        step = env.step

        def fails_in_the_fourth_episode(action: np.ndarray) -> Any:
            if env.episode == 3:
                raise ZeroDivisionError
            return step(action)

        env.step = fails_in_the_fourth_episode  # type: ignore[method-assign]

    with pytest.raises(ZeroDivisionError):
        train_toy(tmp_path / "run", Makes(prepare), max_episodes=10)
    assert [row["episode"] for row in read_rows(tmp_path / "run")] == ["0", "1", "2"]
    assert final_weights(tmp_path / "run")


def test_a_factory_that_fails_at_the_second_worker_leaves_nothing_open_or_written(tmp_path: Path) -> None:
    def prepare(i: int, env: ToyEnv) -> None:
        if i == 1:
            raise FileNotFoundError("the model")

    makes = Makes(prepare)
    with pytest.raises(FileNotFoundError, match="the model"):
        train_toy(tmp_path / "run", makes, workers=2)
    assert [env.closed for env in makes.envs] == [True]
    assert not (tmp_path / "run").exists()


# what is refused


@pytest.mark.parametrize("env", ["Pendulum-v0", "NoSuchThing-v0", "gymnasium:Blackjack-v1"])
def test_an_environment_that_cannot_be_learnt_is_refused_before_anything_is_written(tmp_path: Path, env: str) -> None:
    with pytest.raises(UsageError, match=env.removeprefix("gymnasium:").split("-")[0]):
        train(small_config(env=env, log_dir=str(tmp_path / "run")), show="none")
    assert everything_in(tmp_path) == {}


def test_an_unknown_display_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"show = 'loud': expected 'auto', 'lines' or 'none'"):
        train(small_config(env=toy_env, log_dir=str(tmp_path / "run")), show="loud")
    assert everything_in(tmp_path) == {}


def test_a_users_folder_and_an_older_run_are_refused_and_stay_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "events.out.tfevents.1").write_text("not a run's")
    train_toy(tmp_path / "run", max_episodes=1)
    before = everything_in(tmp_path)
    for folder in ("mine", "run"):
        with pytest.raises(UsageError, match="run folder"):
            train_toy(tmp_path / folder)
    assert everything_in(tmp_path) == before


# repeatable, and a good guest in its process


def without_wall_time(folder: Path) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name != "wall_time"} for row in read_rows(folder)]


@pytest.mark.parametrize("preset", ["classic", "classic-adam"])
def test_one_worker_with_a_seed_does_the_same_twice(tmp_path: Path, preset: str) -> None:
    for name, seed in (("first", 3), ("second", 3), ("other", 4)):
        changes = {"workers": 1, "max_episodes": 4, "actor_hidden": 16, "critic_hidden": 16}
        train(Config.preset(preset, seed=seed, log_dir=str(tmp_path / name), **changes), show="none")
    first, second, other = (final_weights(tmp_path / name) for name in ("first", "second", "other"))
    assert without_wall_time(tmp_path / "first") == without_wall_time(tmp_path / "second")
    assert without_wall_time(tmp_path / "first") != without_wall_time(tmp_path / "other")
    assert set(first) == set(second)
    assert any(name.startswith("Global_Net/actor/") for name in first)
    for name in [name for name in first if name.startswith("Global_Net/")]:
        np.testing.assert_array_equal(first[name], second[name], name)
    assert not np.array_equal(first["Global_Net/actor/la/kernel"], other["Global_Net/actor/la/kernel"])


class Seeded(ToyEnv):
    """Episodes of five steps that are a function of their seeds alone."""

    def __init__(self) -> None:
        super().__init__(terminates_at=5)

    def observation(self) -> np.ndarray:
        return np.full(3, (self.seeds[-1] or 0) % 7 / 7 + self.time / 5, np.float32)

    def step(self, action: np.ndarray) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float(action[0] * observation[0]), *rest


def test_a_run_that_is_resumed_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    train_toy(tmp_path / "whole", Seeded, max_episodes=6)
    train_toy(tmp_path / "halves", Seeded, max_episodes=2)
    result = resume(tmp_path / "halves", "none", env=Seeded, max_episodes=6)
    assert without_wall_time(tmp_path / "halves") == without_wall_time(tmp_path / "whole")
    assert (result.steps, len(result.returns)) == (30, 6)
    whole, halves = final_weights(tmp_path / "whole"), final_weights(tmp_path / "halves")
    for name in [name for name in whole if name.startswith("Global_Net/")]:
        np.testing.assert_array_equal(whole[name], halves[name], name)


def test_gym_and_gymnasium_train_alike(tmp_path: Path) -> None:
    for name, env in (("gym", "Pendulum-v1"), ("gymnasium", "gymnasium:Pendulum-v1")):
        train(small_config(env=env, log_dir=str(tmp_path / name), max_episodes=2), show="none")
    ours, theirs = (
        [float(row["episode_return"]) for row in read_rows(tmp_path / name)] for name in ("gym", "gymnasium")
    )
    np.testing.assert_allclose(ours, theirs, rtol=0.05)


def test_two_trainings_at_once_in_one_program(tmp_path: Path) -> None:
    run_together(2, lambda i: train_toy(tmp_path / str(i), max_episodes=20))
    for i in range(2):
        assert len(read_rows(tmp_path / str(i))) == 20
        assert final_weights(tmp_path / str(i))


def test_a_training_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    def state() -> tuple[Any, ...]:
        descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
        default = tf.get_default_graph()
        return set(threading.enumerate()), descriptors, dict(os.environ), default, len(default.get_operations())

    train_toy(tmp_path / "warm-up", max_episodes=1)
    before = state()
    random_state = np.random.get_state()[1].tolist()
    train_toy(tmp_path / "run", max_episodes=6)
    assert state() == before
    assert np.random.get_state()[1].tolist() == random_state
    assert tf.executing_eagerly()


# it learns


class Aim(ToyEnv):
    """One step an episode; the best action is 1, and the return of an action a is -(a - 1)²."""

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.ones(3, np.float32), {}

    def step(self, action: np.ndarray) -> Any:
        return np.ones(3, np.float32), -float((action[0] - 1) ** 2), True, False, {}


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_it_finds_the_best_action(tmp_path: Path, optimizer: str) -> None:
    result = train_toy(
        tmp_path / "run",
        Aim,
        max_episodes=1500,
        optimizer=optimizer,
        reward_shift=0.0,
        reward_scale=1.0,
        actor_hidden=32,
        actor_learning_rate=2e-3,
        critic_learning_rate=1e-2,
    )
    assert result.returns[:100].mean() < -0.7
    assert result.returns[-100:].mean() > -0.2
