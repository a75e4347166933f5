"""Discrete actions: the Categorical head against NumPy, and its way through the graph, the worker and the policy."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist
from typing import Any

import gymnasium
import numpy as np
import pytest

from a3c_tf.algorithms.build import build_graph
from a3c_tf.api import train
from a3c_tf.environments.environment import Environment
from a3c_tf.environments.make import make_env
from a3c_tf.environments.spaces import DiscreteSpec, ObservationSpec, action_spec
from a3c_tf.graph.policies import CategoricalPolicy
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.playing.evaluate import evaluate
from a3c_tf.playing.policy import load_policy
from a3c_tf.runs.folder import RunFolder, read_spaces, write_spaces
from tests.conftest import ToyEnv, small_config

LOGITS = np.array([[0.0, 1.0, -2.0], [3.0, 3.0, 3.0], [-50.0, 50.0, 0.0]], np.float32)
PROBABILITIES = np.exp(LOGITS - LOGITS.max(1, keepdims=True))
PROBABILITIES /= PROBABILITIES.sum(1, keepdims=True)


class Head:
    """A CategoricalPolicy whose logits are fed."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.variable_scope("net", use_resource=True):
            self.policy = CategoricalPolicy(tf.placeholder(tf.float32, [None, 4]), DiscreteSpec(3, 0))
            self.logits = self.policy.logits = tf.placeholder(tf.float32, [None, 3])
            self.policy.wrap(0.0)
            self.actions = tf.placeholder(tf.int32, [None, 1])
            self.log_prob, self.entropy = self.policy.log_prob(self.actions), self.policy.entropy()
            self.sample, self.noise = self.policy.sample()
            self.gradient = tf.gradients(self.log_prob, self.logits)[0]

    def __call__(self, fetch: Any, **feeds: np.ndarray) -> np.ndarray:
        session = Session(self.graph)
        fed = {self.logits: LOGITS, **{getattr(self, name): value for name, value in feeds.items()}}
        result = session.run(fetch, fed)
        session.close()
        return result


@pytest.fixture(scope="module")
def head() -> Head:
    return Head()


def test_log_probability_and_its_gradient(head: Head) -> None:
    taken = np.array([[2], [0], [1]])
    got = head(head.log_prob, actions=taken)
    assert got.shape == (3, 1)
    np.testing.assert_allclose(got[:, 0], np.log(PROBABILITIES[[0, 1, 2], [2, 0, 1]]), rtol=1e-5, atol=1e-6)
    expected = np.eye(3)[taken[:, 0]] - PROBABILITIES  # d log softmax / d logits
    np.testing.assert_allclose(head(head.gradient, actions=taken), expected, atol=1e-6)


def test_entropy_is_finite_for_certain_actions_too(head: Head) -> None:
    got = head(head.entropy)
    assert got.shape == (3, 1)
    expected = [-(p[p > 0] * np.log(p[p > 0])).sum() for p in PROBABILITIES.astype(np.float64)]
    np.testing.assert_allclose(got[:, 0], expected, rtol=1e-5, atol=1e-6)
    assert got[1, 0] == pytest.approx(np.log(3))


def test_the_mode_is_the_most_likely_action(head: Head) -> None:
    assert head(head.policy.mode).tolist() == [[1], [0], [1]]


def test_samples_are_looked_up_by_the_noise(head: Head) -> None:
    """Noise whose place in the normal distribution is u gives the action whose cumulated probability holds u."""
    for u in (0.001, 0.2, 0.3, 0.5, 0.9, 0.999):
        noise = np.full((3, 1), NormalDist().inv_cdf(u), np.float32)
        expected = [int(np.searchsorted(np.cumsum(p), u)) for p in PROBABILITIES]
        assert head(head.sample, noise=noise)[:, 0].tolist() == expected


def test_extreme_noise_still_gives_an_action(head: Head) -> None:
    for noise in (-40.0, 40.0):
        actions = head(head.sample, noise=np.full((3, 1), noise, np.float32))
        assert set(actions.ravel()) <= {0, 1, 2}


def test_samples_come_as_often_as_they_are_likely(head: Head) -> None:
    noise = np.random.default_rng(0).standard_normal((20_000, 1), np.float32)
    drawn = head(head.sample, logits=np.repeat(LOGITS[:1], len(noise), axis=0), noise=noise)
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=3) / len(noise), PROBABILITIES[0], atol=0.01)


def test_the_graph_has_a_head_of_logits_and_whole_numbers_as_actions() -> None:
    built = build_graph(small_config(), ObservationSpec((4,)), gymnasium.spaces.Discrete(2))
    names = {variable.op.name: variable.shape.as_list() for variable in built.global_net.a_params}
    assert names["Global_Net/actor/logits/kernel"] == [8, 2]
    assert not [name for name in names if "mu" in name or "sigma" in name]
    net = built.worker_nets[0]
    assert (net.a_his.dtype, net.a_his.shape.as_list(), net.A.dtype) == (tf.int32, [None, 1], tf.int32)
    assert "policy/sigma" not in net.report
    gradients = tf.gradients
    with built.graph.as_default():
        assert gradients(net.a_loss, net.c_params) == [None] * len(net.c_params)


def test_a_discrete_space_is_read_written_and_read_back(tmp_path: Path) -> None:
    spec = action_spec(gymnasium.spaces.Discrete(3, start=-1))
    assert spec == DiscreteSpec(3, -1) == action_spec(spec)
    write_spaces(RunFolder(tmp_path), ObservationSpec((4,)), spec)
    assert read_spaces(RunFolder(tmp_path)) == (ObservationSpec((4,)), spec)


class Counting(ToyEnv):
    """Five steps; its actions are numbered from 5."""

    def __init__(self) -> None:
        super().__init__(terminates_at=5)
        self.action_space = gymnasium.spaces.Discrete(3, start=5)  # type: ignore[assignment]

    def step(self, action: Any) -> Any:
        assert type(action) is int, type(action)
        assert 5 <= action < 8
        return super().step(action)


def test_the_environment_gets_plain_numbers_from_its_own_start(tmp_path: Path) -> None:
    result = train(small_config(env=Counting, log_dir=str(tmp_path / "run")), show="none")
    assert len(result.returns) == 3
    policy = load_policy(result.run_folder)
    for rng in (None, np.random.default_rng(0)):
        action = policy(np.zeros(3), rng)
        assert type(action) is int
        assert 5 <= action < 8
    assert evaluate(policy, Counting, episodes=2).steps == 10


@pytest.mark.parametrize("env_id", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_cartpole_of_both_libraries(env_id: str) -> None:
    env = make_env(env_id)
    assert env.action_spec == DiscreteSpec(2, 0)
    env.reset(0)
    observation, reward, *_ = env.step(np.array([1], np.int32))
    assert (observation.shape, reward, env.time_limit) == ((4,), 1.0, 500)


class Identity:
    """One step: the action should be the observation. A policy that learns gets 1."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 1, (2,))
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self.shown = seed % 2
        return np.eye(2, dtype=np.float32)[self.shown], {}

    def step(self, action: int) -> Any:
        return np.zeros(2, np.float32), float(action == self.shown), True, False, {}


def test_it_learns_what_anything_that_learns_must(tmp_path: Path) -> None:
    config = small_config(
        env=Identity, max_episodes=1500, reward_shift=0.0, reward_scale=1.0, rollout_steps=1,
        actor_learning_rate=1e-2, critic_learning_rate=1e-2, log_dir=str(tmp_path / "run"),
    )  # fmt: skip
    policy = load_policy(train(config, show="none").run_folder)
    assert evaluate(policy, episodes=20).mean == 1.0


def test_an_environment_class_needs_no_wrapper() -> None:
    assert isinstance(make_env(Identity), Environment)
