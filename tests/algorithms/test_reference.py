"""The graph computes what the original computed, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from a3c_tf.algorithms.a3c import ACNet
from a3c_tf.algorithms.build import build_graph
from a3c_tf.algorithms.returns import n_step_returns
from a3c_tf.config import Config
from a3c_tf.environments.spaces import ActionSpec, ObservationSpec
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from tests.reference import Reference, assert_near, assert_same_change

PENDULUM = ObservationSpec((3,)), ActionSpec((1,), (-2.0,), (2.0,))


def load_weights(session: Session, net: ACNet, weights: dict[str, np.ndarray]) -> None:
    for variable in net.a_params + net.c_params:
        # an assignment runs through its initial value's place: feed that, and no op is added
        value = weights[variable.op.name.removeprefix(f"{net.scope}/")]
        session.run(variable.initializer, {variable.initializer.inputs[1]: value})


def read_weights(session: Session, net: ACNet) -> dict[str, np.ndarray]:
    variables = net.a_params + net.c_params
    return {
        variable.op.name.removeprefix(f"{net.scope}/"): value
        for variable, value in zip(variables, session.run(variables), strict=True)
    }


@pytest.mark.parametrize("file", ["original_step_1.npz", "original_step_2.npz"])
@pytest.mark.parametrize("fused", [False, True], ids=["push, then pull", "push_then_pull"])
def test_three_batches_as_the_tensorflow_original(file: str, fused: bool) -> None:
    reference = Reference(file)
    built = build_graph(Config(workers=1, seed=0), *PENDULUM)
    net, global_net = built.worker_nets[0], built.global_net
    with built.graph.as_default():
        slots = {v.op.name: v for v in tf.global_variables() if "RMSProp" in v.op.name}
        initializer = tf.global_variables_initializer()
    session = Session(built.graph)
    session.run(initializer)
    load_weights(session, global_net, reference.under("global_before/"))
    load_weights(session, net, reference.under("local_before/"))
    weights = reference.under("global_before/")

    for i in range(3):
        batch = reference.batch(i)
        feeds = {net.s: batch["observations"], net.a_his: batch["actions"], net.v_target: batch["value_targets"]}
        policy = net.policy
        outputs = session.run(
            [policy.mu, policy.sigma, net.v, net.a_loss, net.c_loss, net.exp_v, net.a_grads + net.c_grads], feeds
        )
        names = ("mu", "sigma", "value", "actor_loss", "critic_loss", "objective")
        for name, value in zip(names, outputs, strict=False):
            assert_near(name, value, batch[name])
        for variable, gradient in zip(net.a_params + net.c_params, outputs[-1], strict=True):
            name = variable.op.name.removeprefix("W_0/")
            assert_near(f"gradient of {name}", gradient, batch[f"grad/{name}"])

        fused_now = fused and i == 1  # the only batch after which the original pulled
        session.run(net.push_then_pull_op if fused_now else [net.update_a_op, net.update_c_op], feeds)
        for name, value in read_weights(session, global_net).items():
            assert_same_change(name, weights[name], value, batch[f"global_after_push/{name}"])
            optimizer = "RMSPropA" if name.startswith("actor") else "RMSPropC"
            rms, momentum = (f"Global_Net/{name}/{optimizer}{end}" for end in ("", "_1"))
            assert_near(rms, session.run(slots[rms]), batch[f"slot_rms/{name}"])
            np.testing.assert_allclose(
                session.run(slots[momentum]), batch[f"slot_momentum/{name}"], rtol=1e-3, atol=1e-9
            )
        weights = {name: batch[f"global_after_push/{name}"] for name in weights}

        if i == 1:
            if not fused:
                session.run([net.pull_a_params_op, net.pull_c_params_op])
            for name, value in read_weights(session, net).items():
                assert_near(f"pulled {name}", value, reference.arrays[f"local_after_pull/{name}"])
    session.close()


def test_three_batches_as_the_pytorch_original() -> None:
    reference = Reference("original_adam_step_1.npz")
    config = Config.preset("classic-adam", workers=1, seed=0)
    built = build_graph(config, *PENDULUM)
    net, global_net = built.worker_nets[0], built.global_net
    with built.graph.as_default():
        initializer = tf.global_variables_initializer()
    session = Session(built.graph)
    session.run(initializer)
    load_weights(session, global_net, reference.under("global_before/"))
    load_weights(session, net, reference.under("local_before/"))
    before = reference.under("global_before/")

    for i in range(3):
        batch = reference.batch(i)
        v_s_ = np.zeros(1) if batch["episode_end"] else session.run(net.v, {net.s: batch["next_observation"][None]})[0]
        rewards = np.array(batch["rewards"], np.float64).reshape(-1, 1)
        targets = n_step_returns(rewards, np.full_like(rewards, config.gamma), v_s_)
        assert_near("value targets", targets, batch["value_targets"])
        feeds = {net.s: batch["observations"], net.a_his: batch["actions"], net.v_target: targets}
        a_loss, c_loss, gradients = session.run([net.a_loss, net.c_loss, net.a_grads + net.c_grads], feeds)
        assert_near("loss", np.float64(a_loss) + np.float64(c_loss), batch["loss"])
        for variable, gradient in zip(net.a_params + net.c_params, gradients, strict=True):
            name = variable.op.name.removeprefix("W_0/")
            assert_near(f"gradient of {name}", gradient, batch[f"grad/{name}"])
        session.run(net.push_then_pull_op, feeds)
        for name, value in read_weights(session, global_net).items():
            assert_same_change(name, before[name], value, batch[f"global_after_push/{name}"])
        for name, value in read_weights(session, net).items():
            assert_near(f"pulled {name}", value, batch[f"local_after_pull/{name}"])
        before = {name: batch[f"global_after_push/{name}"] for name in before}
    session.close()


@pytest.mark.parametrize("file", ["original_step_1.npz", "original_step_2.npz", "original_adam_step_1.npz"])
def test_the_reference_holds_what_is_compared_with_it(file: str) -> None:
    """Three batches, every weight and gradient, and numbers that a mistake would change."""
    reference = Reference(file)
    layers = ("actor/la", "actor/mu", "actor/sigma", "critic/lc", "critic/v")
    names = {f"{layer}/{part}" for layer in layers for part in ("kernel", "bias")}
    assert set(reference.under("global_before/")) == set(reference.under("local_before/")) == names
    for i in range(3):
        batch = reference.batch(i)
        assert {key.removeprefix("grad/") for key in batch if key.startswith("grad/")} == names
        for name in names:
            assert np.any(batch[f"grad/{name}"] != 0)


def test_the_comparisons_can_fail() -> None:
    reference = np.array([1.0, -2.0])
    assert_near("same", reference, reference)
    with pytest.raises(AssertionError, match=r"x: off by .* at a scale of 2"):
        assert_near("x", reference + 3e-5, reference)
    with pytest.raises(AssertionError, match="shape"):
        assert_near("x", reference[:, None], reference)
    before = reference - 1e-4
    with pytest.raises(AssertionError, match="change of x"):
        assert_same_change("x", before, reference + 2e-7, reference)
