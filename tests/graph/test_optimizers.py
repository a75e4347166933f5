"""The shared optimizers: learning-rate scale, clipping, Adam as in PyTorch, one statistics for all workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from a3c_tf.algorithms.a3c import A3CLearner
from a3c_tf.algorithms.build import Graph, build_graph
from a3c_tf.config import Config
from a3c_tf.environments.spaces import ActionSpec, ObservationSpec
from a3c_tf.graph.optimizers import Part, TorchAdam, clipped_gradients
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import Rollout

SPACES = ObservationSpec((3,)), ActionSpec((1,), (-2.0,), (2.0,))


@contextlib.contextmanager
def opened(config: Config) -> Iterator[tuple[Graph, Session]]:
    built = build_graph(config, *SPACES)
    with built.graph.as_default():
        initializer = tf.global_variables_initializer()
    session = Session(built.graph)
    session.run(initializer)
    try:
        yield built, session
    finally:
        session.close()


def a_rollout(net, seed: int = 0, scale: float = 1.0) -> dict:
    rng = np.random.default_rng(seed)
    return {
        net.s: rng.normal(size=(10, 3)),
        net.a_his: rng.uniform(-2, 2, size=(10, 1)),
        net.v_target: scale * rng.normal(size=(10, 1)),
    }


def pushed_change(config: Config, scale: float) -> np.ndarray:
    """What one push with a learning-rate scale does to the actor's and critic's first kernels."""
    with opened(config) as (built, session):
        net, kernels = built.worker_nets[0], [built.global_net.a_params[0], built.global_net.c_params[0]]
        before = session.run(kernels)
        session.run([net.update_a_op, net.update_c_op], {**a_rollout(net), net.learning_rate_scale: scale})
        return np.concatenate([a - b for a, b in zip(session.run(kernels), before, strict=True)], axis=1)


# learning-rate decay


@pytest.mark.parametrize("changes", [{}, {"optimizer": "adam"}], ids=["rmsprop", "adam"])
def test_the_step_is_proportional_to_the_scale(changes: dict) -> None:
    config = Config(workers=1, seed=0, learning_rate_decay="linear", **changes)
    full = pushed_change(config, 1.0)
    assert np.abs(full).max() > 0
    np.testing.assert_allclose(pushed_change(config, 0.25), 0.25 * full, atol=1e-7)  # float32 weights
    np.testing.assert_array_equal(pushed_change(config, 0.0), np.zeros_like(full))


def test_the_scale_falls_linearly_to_0_over_the_planned_steps() -> None:
    config = Config(workers=1, seed=0, max_episodes=None, max_steps=1000, learning_rate_decay="linear")
    assert scales_fed(config, budget=1200) == pytest.approx([*np.arange(1, 0, -0.01), *[0.0] * 20], abs=1e-6)


def test_planned_steps_follow_from_episodes_too() -> None:
    config = Config(workers=1, seed=0, max_episodes=4, max_episode_steps=50, learning_rate_decay="linear")
    assert scales_fed(config, budget=200) == pytest.approx(np.arange(1, 0, -0.05), abs=1e-6)


def test_without_decay_no_scale_is_fed() -> None:
    assert scales_fed(Config(workers=1, seed=0), budget=100) == [None] * 10


def scales_fed(config: Config, budget: int) -> list[float | None]:
    """The learning-rate scale of each update of a learner that learns ``budget`` steps, ten at a time."""
    fed: list[float | None] = []

    def update(observations, actions, targets, scale=None):
        fed.append(None if scale is None else float(scale))

    net = SimpleNamespace(value=lambda s: np.zeros((len(s), 1), np.float32), update_global=update)
    learner = A3CLearner(config, net, lambda: 10 * len(fed))  # type: ignore[arg-type]
    column = np.zeros((10, 1))
    for _ in range(0, budget, 10):
        learner.learn(Rollout(np.zeros((11, 1, 3)), np.zeros((10, 1, 1)), column, column, ()))
    return fed


# clipping


def norm(gradients: list[np.ndarray]) -> float:
    return float(np.sqrt(sum(np.sum(np.square(g, dtype=np.float64)) for g in gradients)))


@pytest.mark.parametrize("joint", [False, True], ids=["each", "joint"])
def test_gradients_are_scaled_down_to_the_global_norm(joint: bool) -> None:
    rates = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    plain = Config(workers=1, seed=0, joint_loss=joint, **rates)
    whole = gradients_of(plain, scale=10.0)
    for before, after in zip(whole, gradients_of(plain.replace(max_grad_norm=0.5), scale=10.0), strict=True):
        assert norm(before) > 0.5
        assert norm(after) == pytest.approx(0.5, rel=1e-5)
        for a, b in zip(after, before, strict=True):  # the direction stays
            np.testing.assert_allclose(a, b * (0.5 / norm(before)), rtol=1e-4, atol=1e-8)


def test_small_gradients_are_left_alone() -> None:
    plain = Config(workers=1, seed=0)
    for before, after in zip(gradients_of(plain), gradients_of(plain.replace(max_grad_norm=1e4)), strict=True):
        for a, b in zip(after, before, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_clipping_by_hand() -> None:
    # gradients (3, 4) and 12 of two variables: norm √(9 + 16 + 144) = 13; to norm 6.5 all are halved
    with tf.Graph().as_default():
        first, second = (tf.get_variable(name, [size], use_resource=True) for name, size in (("a", 2), ("b", 1)))
        loss = tf.reduce_sum(first * [3.0, 4.0]) + tf.reduce_sum(second * 12.0)
        clipped, unscaled = clipped_gradients([loss], [Part("both", "", [first, second], 1.0)], 6.5)
        with tf.Session() as session:
            answers = session.run([*clipped[0], *unscaled])
    for ours, by_hand in zip(answers, ([1.5, 2.0], [6.0], [3.0, 4.0], [12.0]), strict=True):
        np.testing.assert_allclose(ours, by_hand)


def gradients_of(config: Config, scale: float = 1.0) -> list[list[np.ndarray]]:
    """The gradients as they are clipped: the actor's and the critic's, or both in one list."""
    with opened(config) as (built, session):
        net = built.worker_nets[0]
        actor, critic = session.run([net.a_grads, net.c_grads], a_rollout(net, scale=scale))
    return [actor + critic] if config.joint_loss else [actor, critic]


# Adam


def test_adam_is_pytorch_s_at_the_first_and_at_later_steps() -> None:
    rng = np.random.default_rng(3)
    # tiny gradients too: only there does it matter where epsilon is added
    gradients = rng.normal(size=(50, 4)) * np.array([1.0, 1e-3, 1e-6, 1e-9])
    with tf.Graph().as_default():
        weights = tf.get_variable("w", [4], initializer=tf.zeros_initializer(), use_resource=True)
        gradient = tf.placeholder(tf.float32, [4])
        update = TorchAdam(1e-2, 0.95, 0.999).apply_gradients([(gradient, weights)])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            ours = []
            for g in gradients:
                session.run(update, {gradient: g})
                ours.append(session.run(weights))
    np.testing.assert_allclose(ours, list(pytorch_adam(gradients, 1e-2, 0.95, 0.999)), rtol=2e-4, atol=1e-7)


def pytorch_adam(gradients: np.ndarray, rate: float, beta1: float, beta2: float) -> Iterator[np.ndarray]:
    """Weights after each step, from zeros: algorithm 1 of the paper, as torch.optim.Adam computes it."""
    w, m, v = (np.zeros(gradients.shape[1]) for _ in range(3))
    for t, g in enumerate(gradients, start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        w = w - rate * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + 1e-8)
        yield w


# shared statistics


@pytest.mark.parametrize("preset", ["classic", "classic-adam"])
def test_all_workers_push_into_the_same_statistics(preset: str) -> None:
    """Two workers' pushes in turn leave the global network and its slots as one worker's two pushes do."""
    outcomes = []
    for pushers in ((0, 0), (0, 1)):
        with opened(Config.preset(preset, workers=2, seed=0)) as (built, session):
            for net in built.worker_nets:
                session.run([*net.pull_a_params_op, *net.pull_c_params_op])
            for pusher, seed in zip(pushers, (1, 2), strict=True):
                net = built.worker_nets[pusher]
                session.run([net.update_a_op, net.update_c_op], a_rollout(net, seed))
            with built.graph.as_default():
                shared = [v for v in tf.global_variables() if not v.op.name.startswith("W_")]
            outcomes.append(dict(zip([v.op.name for v in shared], session.run(shared), strict=True)))
    alone, together = outcomes
    assert alone.keys() == together.keys()
    for name in alone:
        np.testing.assert_allclose(together[name], alone[name], rtol=1e-6, atol=1e-9, err_msg=name)


def test_no_worker_has_statistics_of_its_own() -> None:
    for config in (Config(workers=2, seed=0), Config.preset("classic-adam", workers=2, seed=0)):
        with build_graph(config, *SPACES).graph.as_default():
            of_workers = {v.op.name for v in tf.global_variables() if v.op.name.startswith("W_")}
            trainable = {v.op.name for v in tf.trainable_variables()}
        assert of_workers <= trainable


def test_a_joint_loss_has_one_optimizer() -> None:
    net = build_graph(Config.preset("classic-adam", workers=1, seed=0), *SPACES).worker_nets[0]
    assert [part.name for part in net.parts] == ["actor and critic"]
    assert net.update_a_op is net.update_c_op
