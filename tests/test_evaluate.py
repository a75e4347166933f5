"""Playing policies: what is measured repeats, disturbs nothing, and the best policy outlives the last."""

from __future__ import annotations

import concurrent.futures
import csv
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from a3c_tf.acnet import ACNet, build_graph
from a3c_tf.checkpoint import Checkpointer
from a3c_tf.config import Config, UsageError
from a3c_tf.envs import make_env
from a3c_tf.evaluate import BestKeeper, Policy, evaluate, load_policy, play
from a3c_tf.runs import RunFolder
from a3c_tf.session import Session
from a3c_tf.spaces import write_specs
from a3c_tf.tf1 import tf
from a3c_tf.trainer import train

FAST = {"workers": 1, "seed": 0, "max_episode_steps": 20}


class Target:
    """The reward is -(action - 1)², the start a number from -1 to 1; an episode is 5 steps."""

    observation_space = SimpleNamespace(shape=(1,), low=-np.ones(1), high=np.ones(1))
    action_space = SimpleNamespace(shape=(1,), low=np.array([-2.0]), high=np.array([2.0]))
    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def reset(self, seed=None):
        self._left = 5
        self._observation = np.random.default_rng(seed).uniform(-1, 1, size=1).astype(np.float32)
        return self._observation, {}

    def step(self, action):
        self._left -= 1
        return self._observation, -float((action[0] - 1) ** 2), self._left == 0, False, {}


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


def test_samples_repeat_too_and_differ_from_the_mean_action(run: Path) -> None:
    policy = load_policy(run)
    sampled, again = (evaluate(policy, episodes=3, seed=5, sample=True).returns for _ in range(2))
    np.testing.assert_array_equal(sampled, again)
    assert (sampled != evaluate(policy, episodes=3, seed=5).returns).all()


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


def test_environments_of_its_own_are_closed(run: Path) -> None:
    closed = []

    class Closing(Target):
        observation_space = SimpleNamespace(shape=(3,), low=-np.ones(3), high=np.ones(3))

        def reset(self, seed=None):
            super().reset(seed)
            self._observation = np.zeros(3, np.float32)
            return self._observation, {}

        def close(self) -> None:
            closed.append(self)

    made_before = Closing.made
    evaluate(load_policy(run), env=Closing, episodes=4)
    assert len(closed) == Closing.made - made_before == 4


# load_policy


def test_a_policy_needs_no_environment(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_):
        raise AssertionError("an environment was made")

    monkeypatch.setattr("a3c_tf.envs._import_library", refuse)
    action = load_policy(run)(np.array([1.0, 0.0, 0.0]))
    assert action.shape == (1,)
    assert -2 <= action[0] <= 2


def test_samples_come_from_the_caller_s_generator(run: Path) -> None:
    policy, observation = load_policy(run), np.array([1.0, 0.0, 0.0])
    first, again, other = (policy(observation, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert all(-2 <= policy(observation, np.random.default_rng(seed))[0] <= 2 for seed in range(50))


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


@pytest.mark.parametrize("which", ["newest", ""])
def test_an_unknown_word_is_refused(run: Path, which: str) -> None:
    with pytest.raises(UsageError, match="expected 'best', 'last' or None"):
        load_policy(run, which)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected the folder of a run"):
        load_policy(tmp_path)


# the best policy


class Scene:
    """A run on ``Target`` whose global network is set by hand: always the same action."""

    def __init__(self, folder: Path) -> None:
        self.config = Config(env=Target, workers=1, seed=0, log_dir=str(folder), evaluation_interval=1)
        self.envs = [make_env(Target) for _ in range(4)]
        built = build_graph(self.config, self.envs[0].observation_spec, self.envs[0].action_spec)
        self.net: ACNet = built.global_net
        self.run = RunFolder.create(self.config)
        write_specs(self.run.spaces, self.envs[0].observation_spec, self.envs[0].action_spec)
        self._checkpointer = Checkpointer(self.run, built)
        self.keeper = BestKeeper(self.run, built, self.config, self.envs)
        with built.graph.as_default():
            initializer = tf.global_variables_initializer()
        self.session = Session(built.graph)
        self.session.run(initializer)

    def play(self, action: float, global_step: int) -> None:
        """The global network comes to always choose ``action``; it is evaluated."""
        for variable in self.net.a_params:
            value = np.zeros(variable.shape)
            if variable.op.name.endswith("actor/mu/bias"):
                value[:] = np.arctanh(action / 2)
            self.session.run(variable.initializer, {variable.initializer.inputs[1]: value})
        self.keeper.evaluate(self.session, global_step)

    def finish(self, global_step: int) -> None:
        self._checkpointer.save(self.session, global_step)
        self.session.close()


def action_of(policy: Policy) -> float:
    return float(policy(np.zeros(1))[0])


def test_the_best_policy_survives_a_late_collapse(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run")
    for step, action in enumerate([0.0, 0.9, 0.5, -1.9]):
        scene.play(action, step)
    scene.finish(4)
    assert action_of(load_policy(scene.run.path)) == pytest.approx(0.9, abs=1e-5)
    assert action_of(load_policy(scene.run.path, "best")) == pytest.approx(0.9, abs=1e-5)
    assert action_of(load_policy(scene.run.path, "last")) == pytest.approx(-1.9, abs=1e-5)
    assert evaluate(load_policy(scene.run.path), env=Target, episodes=3).mean == pytest.approx(-0.05, abs=1e-4)


def test_evaluations_are_recorded_with_their_steps(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run")
    scene.play(0.0, 100)
    scene.play(1.0, 200)
    scene.finish(200)
    assert scene.keeper.steps == 2 * 4 * 5
    with scene.run.evaluations.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["global_step"]) for row in rows] == [100, 200]
    assert [int(row["evaluation_steps"]) for row in rows] == [20, 40]
    assert [float(row["mean_return"]) for row in rows] == pytest.approx([-5.0, 0.0], abs=1e-5)


def test_training_counts_evaluation_steps_beside_its_own(tmp_path: Path) -> None:
    config = Config(**FAST, max_episodes=6, evaluation_interval=40, evaluation_episodes=3, log_dir=str(tmp_path / "r"))
    result = train(config, show="none")
    assert result.steps == 6 * 20
    with (tmp_path / "r" / "evaluations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert result.evaluation_steps == int(rows[-1]["evaluation_steps"]) == len(rows) * 3 * 20
    assert [int(row["global_step"]) for row in rows] == [40, 80, 120, 120]  # the last policy is looked at, too


def test_evaluating_does_not_change_what_is_learnt(tmp_path: Path) -> None:
    returns = [
        train(Config(**FAST, max_episodes=6, evaluation_interval=interval, log_dir=str(tmp_path / name))).returns
        for name, interval in (("without", None), ("with", 40))
    ]
    np.testing.assert_array_equal(*returns)


def test_selection_uses_no_start_of_training_or_judging() -> None:
    from a3c_tf.worker import episode_randomness

    for seed in range(3):
        sequence = np.random.SeedSequence([seed, 2**31])
        selection = {int(start >> 1) for start in sequence.generate_state(50)}
        training = {episode_randomness(seed, worker, k)[0] for worker in range(4) for k in range(1500)}
        assert not selection & (training | set(range(10000, 10500)))
