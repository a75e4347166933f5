"""A trained policy is loaded in one line and played; the best one is kept."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.api import train
from a3c_tf.errors import UsageError
from a3c_tf.playing.evaluate import evaluate
from a3c_tf.playing.policy import load_policy
from a3c_tf.training.trainer import Result
from tests.conftest import ToyEnv, everything_in, final_weights, small_config, toy_env

OBSERVATION = np.array([0.1, -0.2, 0.3])


class Drifting(ToyEnv):
    """The return is what the actions add up to, times a sign; all episodes look alike."""

    def __init__(self, sign: int = 1) -> None:
        super().__init__(terminates_at=5)
        self.sign = sign

    def observation(self) -> np.ndarray:
        return np.full(3, self.time / 5, np.float32)

    def step(self, action: np.ndarray) -> Any:
        observation, _, *rest = super().step(action)
        return observation, self.sign * float(action[0]), *rest


def test_the_mean_action_is_the_networks(toy_run: Result) -> None:
    """mu = 2 tanh(relu6(s W + b) W' + b'), written in NumPy."""
    weights = {
        name.removeprefix("Global_Net/actor/"): value for name, value in final_weights(toy_run.run_folder).items()
    }
    hidden = np.clip(OBSERVATION @ weights["la/kernel"] + weights["la/bias"], 0, 6)
    expected = 2 * np.tanh(hidden @ weights["mu/kernel"] + weights["mu/bias"])
    action = load_policy(toy_run.run_folder)(OBSERVATION)
    assert action.shape == (1,)
    np.testing.assert_allclose(action, expected, rtol=1e-5)


def test_samples_scatter_and_follow_the_generator(toy_run: Result) -> None:
    policy = load_policy(str(toy_run.run_folder))
    actions = [policy(OBSERVATION, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(actions[0], actions[1])
    assert not np.array_equal(actions[0], actions[2])
    assert all(np.all(np.abs(action) <= 2) for action in actions)


def test_the_mean_is_played_unless_samples_are_asked_for(toy_run: Result) -> None:
    policy = load_policy(toy_run.run_folder)

    def returns(**asked: Any) -> list[float]:
        return evaluate(policy, Drifting, episodes=3, **asked).returns.tolist()

    assert returns() == returns(seed=9), "this environment does not look at its seed"
    assert returns(sample=True) == returns(sample=True)
    assert returns(sample=True) != returns(sample=True, seed=9)
    assert returns(sample=True) != returns()


@pytest.mark.parametrize("episodes", [1, 20, 27])
def test_every_episode_has_its_own_seed_and_counts_once(toy_run: Result, episodes: int) -> None:
    envs: list[ToyEnv] = []

    def make() -> ToyEnv:
        envs.append(toy_env())
        return envs[-1]

    played = evaluate(load_policy(toy_run.run_folder), make, episodes=episodes, seed=100)
    assert played.returns.tolist() == [15.0] * episodes
    assert played.steps == 5 * episodes
    assert sorted(seed for env in envs for seed in env.seeds) == list(range(100, 100 + episodes))
    assert all(env.closed for env in envs)


def test_playing_changes_nothing_in_the_run(toy_run: Result) -> None:
    before = everything_in(toy_run.run_folder)
    evaluate(load_policy(toy_run.run_folder), toy_env, episodes=2)
    assert everything_in(toy_run.run_folder) == before


def test_the_best_policy_is_kept_and_played_first(tmp_path: Path) -> None:
    """The worker learns on the opposite of what is measured, so each policy is worse than the one before."""
    signs = itertools.chain([-1], itertools.repeat(1))
    config = small_config(
        env=lambda: Drifting(next(signs)), evaluation_interval=10, evaluation_episodes=2, max_episodes=30,
        reward_shift=0.0, actor_learning_rate=0.05, log_dir=str(tmp_path / "run"),
    )  # fmt: skip
    result = train(config, show="none")
    with (tmp_path / "run" / "evaluations.csv").open(newline="") as file:
        measured = [(int(row["global_step"]), float(row["mean_return"])) for row in csv.DictReader(file)]
    best = max(mean for _, mean in measured)
    assert len(measured) >= 3
    assert best > measured[-1][1] + 1
    assert result.evaluation_steps == 5 * 2 * len(measured)
    assert result.steps == 150, "evaluations are not counted as training"

    def mean(which: str | None) -> float:
        return evaluate(load_policy(tmp_path / "run", which), Drifting, 2).mean

    assert mean(None) == mean("best") == pytest.approx(best, rel=1e-5)
    assert mean("last") == pytest.approx(measured[-1][1], rel=1e-5)


def test_what_is_no_run_is_refused(tmp_path: Path, toy_run: Result) -> None:
    with pytest.raises(UsageError, match="expected the folder of a run"):
        load_policy(tmp_path)
    with pytest.raises(UsageError, match="expected the folder of a run"):
        load_policy(tmp_path / "missing")
    with pytest.raises(UsageError, match=r"'worst': expected 'best', 'last'"):
        load_policy(toy_run.run_folder, "worst")
    with pytest.raises(UsageError, match=r"no .*checkpoint"):
        load_policy(toy_run.run_folder, "best")
