"""Playing disturbs nobody and repeats exactly; a policy needs no environment."""

from __future__ import annotations

import concurrent.futures
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from a3c_tf.api import train
from a3c_tf.config import Config
from a3c_tf.environments.make import make_env
from a3c_tf.errors import UsageError
from a3c_tf.playing.evaluate import evaluate, play
from a3c_tf.playing.policy import load_policy
from a3c_tf.training.worker import episode_randomness

FAST = {"workers": 1, "seed": 0, "max_episode_steps": 20}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short training on Pendulum that never evaluated."""
    folder = tmp_path_factory.mktemp("pendulum") / "run"
    train(Config(**FAST, max_episodes=2, log_dir=str(folder)), show="none")
    return folder


# evaluate


def test_it_repeats_exactly(run: Path) -> None:
    first, again = (evaluate(load_policy(run), episodes=3, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.returns, again.returns)
    assert first.returns.shape == (3,)
    assert len(set(first.returns)) == 3, "each episode has a start of its own"


def test_the_k_th_episode_starts_from_seed_plus_k(run: Path) -> None:
    policy = load_policy(run)
    all_, later = evaluate(policy, episodes=23, seed=5), evaluate(policy, episodes=3, seed=25)
    # float32 sums depend on the size of the batch
    np.testing.assert_allclose(all_.returns[20:], later.returns, rtol=1e-4)


def test_an_episode_by_hand(run: Path) -> None:
    policy, env, total = load_policy(run), make_env("Pendulum-v1"), 0.0
    observation = env.reset(9)
    for _ in range(20):
        observation, reward, _, _ = env.step(policy(observation))
        total += reward
    assert evaluate(policy, episodes=1, seed=9).mean == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("sample", [False, True])
def test_nobody_else_s_random_numbers_are_used(run: Path, sample: bool) -> None:
    policy = load_policy(run)
    first = evaluate(policy, episodes=2, sample=sample)
    np.random.seed(1)
    random.seed(1)
    numpy_state, python_state = np.random.get_state()[1].copy(), random.getstate()
    second = evaluate(policy, episodes=2, sample=sample)
    np.testing.assert_array_equal(first.returns, second.returns)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)
    assert random.getstate() == python_state


def test_mean_deviation_and_steps(run: Path) -> None:
    result = evaluate(load_policy(run), episodes=25)
    assert result.steps == 25 * 20
    assert result.mean == pytest.approx(np.mean(result.returns))
    assert result.deviation == pytest.approx(np.std(result.returns))


def test_episodes_that_end_apart_are_counted_apart() -> None:
    ends = iter([2, 4, 3])

    def an_env():
        left = next(ends)

        def step(action):
            nonlocal left
            left -= 1
            return np.zeros(1), 1.0, left == 0, False

        return SimpleNamespace(reset=lambda seed: np.zeros(1), step=step, time_limit=None)

    played = play(lambda s: np.zeros((len(s), 1)), [an_env() for _ in range(3)], [0, 1, 2], Config(workers=1))
    np.testing.assert_array_equal(played.returns, [2, 4, 3])
    assert played.steps == 9


# load_policy


def test_a_policy_needs_no_environment(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_):
        raise AssertionError("an environment was made")

    monkeypatch.setattr("a3c_tf.environments.make._import_library", refuse)
    action = load_policy(run)(np.array([1.0, 0.0, 0.0]))
    assert action.shape == (1,)
    assert -2 <= action[0] <= 2


def test_threads_may_share_a_policy(run: Path) -> None:
    policy = load_policy(run)
    observations = np.random.default_rng(0).normal(size=(400, 3))
    alone = [policy(observation)[0] for observation in observations]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = [action[0] for action in pool.map(policy, observations)]
    assert together == alone


def test_a_run_without_evaluations_gives_the_last_policy(run: Path) -> None:
    observation = np.array([0.5, 0.5, 1.0])
    assert load_policy(run)(observation) == load_policy(run, "last")(observation)
    with pytest.raises(UsageError, match="best"):
        load_policy(run, "best")


# what evaluations leave alone


def test_evaluating_does_not_change_what_is_learnt(tmp_path: Path) -> None:
    returns = [
        train(
            Config(**FAST, max_episodes=6, evaluation_interval=interval, log_dir=str(tmp_path / name)), show="none"
        ).returns
        for name, interval in (("without", None), ("with", 40))
    ]
    np.testing.assert_array_equal(*returns)


def test_selection_uses_no_start_of_training_or_judging() -> None:
    for seed in range(3):
        sequence = np.random.SeedSequence([seed, 2**31])
        selection = {int(start >> 1) for start in sequence.generate_state(50)}
        training = {episode_randomness(seed, worker, k)[0] for worker in range(4) for k in range(1500)}
        assert not selection & (training | set(range(10000, 10500)))
