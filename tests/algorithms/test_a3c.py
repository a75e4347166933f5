"""The graph: the original's names and shapes, losses, gradients, push and pull."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest

from a3c_tf.algorithms.a3c import ACNet, WorkerACNet
from a3c_tf.algorithms.build import Graph, build_graph
from a3c_tf.algorithms.calls import worker_calls
from a3c_tf.environments.spaces import ActionSpec, ObservationSpec
from a3c_tf.errors import UsageError
from a3c_tf.graph.layers import dense
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from tests.conftest import PENDULUM, box, small_config
from tests.reference import DATA

ORIGINAL = json.loads((DATA / "original_graph.json").read_text(encoding="utf-8"))
THREE_ACTIONS = ActionSpec((3,), (-1.0, 0.0, -10.0), (1.0, 4.0, -5.0))


@pytest.fixture(scope="module")
def built() -> Graph:
    """The original's graph: its sizes, two workers."""
    return build_graph(small_config(workers=2, actor_hidden=200, critic_hidden=100), *PENDULUM)


@pytest.fixture(scope="module")
def three() -> Graph:
    """Two workers on four observations and three actions with unlike bounds."""
    return build_graph(small_config(workers=2), ObservationSpec((4,)), THREE_ACTIONS)


def started(built: Graph) -> Session:
    with built.graph.as_default():
        initializer = tf.global_variables_initializer()
    session = Session(built.graph)
    session.run(initializer)
    return session


def feeds(net: WorkerACNet, batch: int, seed: int = 0) -> dict[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        tensor: rng.standard_normal((batch, tensor.shape[1])).astype(np.float32)
        for tensor in (net.s, net.a_his, net.v_target)
    }


def set_variable(session: Session, variables: Iterable[Any], end: str, value: Any) -> None:
    (variable,) = (variable for variable in variables if variable.op.name.endswith(end))
    session.run(variable.initializer, {variable.initializer.inputs[1]: np.full(variable.shape, value, np.float32)})


def scopes(graph: Any) -> set[str]:
    parts = [operation.name.split("/") for operation in graph.get_operations()]
    return {"/".join(part[:i]) for part in parts for i in range(1, len(part))}


def needs(operations: Iterable[Any]) -> set[Any]:
    """All operations that must run for these to run, themselves included."""
    found: set[Any] = set()
    waiting = list(operations)
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    return found


# names


def test_variables_are_the_originals_slots_included(built: Graph) -> None:
    with built.graph.as_default():
        ours = {variable.op.name: variable.shape.as_list() for variable in tf.global_variables()}
        trainable = [variable.op.name for variable in tf.trainable_variables()]
    assert ours == ORIGINAL["variables"]
    assert trainable == ORIGINAL["trainable"]


def test_placeholders_are_the_originals_and_the_noise(built: Graph) -> None:
    ours = {
        operation.name: [-1 if size is None else size for size in operation.outputs[0].shape.as_list()]
        for operation in built.graph.get_operations()
        if operation.type == "Placeholder"
    }
    noise = {f"W_{i}/Normal/sample/noise": [-1, 1] for i in range(2)}
    assert ours == {**ORIGINAL["placeholders"], **noise}
    assert {operation.outputs[0].dtype for operation in built.graph.get_operations() if operation.name in ours} == {
        tf.float32
    }


@pytest.mark.parametrize("net", ["W_0", "Global_Net"])
def test_the_originals_name_scopes_are_all_there(built: Graph, net: str) -> None:
    missing = set(ORIGINAL[f"name_scopes_of_{net}"]) - scopes(built.graph)
    assert not {scope for scope in missing if "/Normal/sample/" not in scope}


def test_every_worker_has_the_same_scopes(built: Graph) -> None:
    def below(net: str) -> set[str]:
        return {scope.replace(net, "W") for scope in scopes(built.graph) if scope.split("/")[0] == net}

    assert below("W_0") == below("W_1")


def test_named_operations_are_the_originals(built: Graph) -> None:
    ours = {name: built.graph.get_operation_by_name(name).type for name in ORIGINAL["named_ops"]}
    assert ours == ORIGINAL["named_ops"]


def test_the_top_of_the_graph_holds_nothing_else(built: Graph) -> None:
    """TensorBoard opens on these."""
    assert {scope for scope in scopes(built.graph) if "/" not in scope} == {
        "Global_Net",
        "W_0",
        "W_1",
        "sync",
        "sync_1",
    }


def test_the_attributes_have_the_originals_names(built: Graph) -> None:
    net = built.worker_nets[1]
    names = {"s": "S", "a_his": "A", "v_target": "Vtarget"}
    assert {name: getattr(net, name).op.name for name in names} == {name: f"W_1/{op}" for name, op in names.items()}
    assert net.A.op.name.startswith("W_1/choose_a/")
    assert net.v.op.name.startswith("W_1/critic/v/")
    assert net.a_loss.op.name.startswith("W_1/a_loss/")
    assert net.c_loss.op.name.startswith("W_1/c_loss/")
    assert net.exp_v.op.name.startswith("W_1/a_loss/")
    assert [len(net.a_params), len(net.c_params)] == [len(net.a_grads), len(net.c_grads)] == [6, 4]
    assert all(gradient.op.name.startswith("W_1/local_grad/") for gradient in net.a_grads + net.c_grads)


def test_the_global_network_has_no_losses(built: Graph) -> None:
    assert built.global_net.s.op.name == "Global_Net/S"
    assert not hasattr(built.global_net, "a_loss")
    assert not hasattr(built.global_net, "a_his")


@pytest.mark.parametrize(("worker", "sync"), [(0, "sync"), (1, "sync_1")])
def test_push_and_pull_stand_in_the_scopes_of_the_original(built: Graph, worker: int, sync: str) -> None:
    net = built.worker_nets[worker]
    assert (len(net.pull_a_params_op), len(net.pull_c_params_op)) == (6, 4), "an op a variable, actor and critic apart"
    for pull in net.pull_a_params_op + net.pull_c_params_op:
        assert pull.name.startswith(f"{sync}/pull/")
    assert net.update_a_op.name.startswith(f"{sync}/push/RMSPropA")
    assert net.update_c_op.name.startswith(f"{sync}/push/RMSPropC")


def test_everything_is_placed_on_the_cpu(built: Graph) -> None:
    assert {operation.device for operation in built.graph.get_operations()} <= {"/device:CPU:0", ""}
    assert built.global_net.v.device == "/device:CPU:0"


def test_variables_are_resources_which_the_fast_executor_needs(built: Graph) -> None:
    assert {type_ for type_ in (op.type for op in built.graph.get_operations()) if "Variable" in type_} <= {
        "VarHandleOp",
        "ReadVariableOp",
        "AssignVariableOp",
        "VarIsInitializedOp",
    }


def test_workers_are_as_many_as_asked_for() -> None:
    built = build_graph(small_config(workers=3), *PENDULUM)
    assert [net.scope for net in built.worker_nets] == ["W_0", "W_1", "W_2"]


# numbers


def test_kernels_start_from_a_normal_of_a_tenth_and_biases_from_0(built: Graph) -> None:
    session = started(built)
    for variable in built.global_net.a_params + built.global_net.c_params:
        value = session.run(variable)
        if variable.op.name.endswith("bias"):
            np.testing.assert_array_equal(value, 0)
        elif value.size >= 100:
            assert np.std(value) == pytest.approx(0.1, rel=0.25)
            assert abs(np.mean(value)) < 0.03
    session.close()


def test_the_seed_decides_the_first_weights() -> None:
    def weights(seed: int) -> list[np.ndarray]:
        built = build_graph(small_config(seed=seed), *PENDULUM)
        session = started(built)
        values = session.run(built.global_net.a_params + built.global_net.c_params)
        session.close()
        return values

    first, same, other = weights(1), weights(1), weights(2)
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(first[::2], other[::2], strict=True)), "biases apart"


def test_losses_are_means_over_a_batch_and_not_over_an_n_by_n_table(three: Graph) -> None:
    net, session = three.worker_nets[0], started(three)
    fed = feeds(net, 7)
    v, mu, sigma, exp_v, a_loss, c_loss = session.run(
        [net.v, net.policy.mu, net.policy.sigma, net.exp_v, net.a_loss, net.c_loss], fed
    )
    session.close()
    td = fed[net.v_target] - v
    log_prob = -0.5 * ((fed[net.a_his] - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
    entropy = 0.5 * np.log(2 * np.pi * np.e * sigma**2)
    expected = log_prob.sum(axis=1, keepdims=True) * td + 0.01 * entropy.sum(axis=1, keepdims=True)
    assert v.shape == exp_v.shape == (7, 1)
    np.testing.assert_allclose(exp_v, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(a_loss, -expected.mean(), rtol=1e-4)
    np.testing.assert_allclose(c_loss, (td**2).mean(), rtol=1e-5)


def test_the_entropy_coefficient_is_the_one_of_the_settings() -> None:
    def objective(coefficient: float) -> tuple[np.ndarray, np.ndarray]:
        built = build_graph(small_config(entropy_coefficient=coefficient), *PENDULUM)
        session, net = started(built), built.worker_nets[0]
        answer = session.run([net.exp_v, net.policy.sigma], feeds(net, 3))
        session.close()
        return answer

    (without, sigma), (with_it, _) = objective(0.0), objective(0.5)
    np.testing.assert_allclose(with_it - without, 0.5 * 0.5 * np.log(2 * np.pi * np.e * sigma**2), rtol=1e-3, atol=1e-5)


def test_neither_loss_has_a_gradient_for_the_others_variables(built: Graph) -> None:
    net = built.worker_nets[0]
    scratch = tf.Graph()
    with scratch.as_default():
        tf.import_graph_def(built.graph.as_graph_def(), name="")
        losses = [scratch.get_tensor_by_name(loss.name) for loss in (net.a_loss, net.c_loss)]

        def reads(variables: list[Any]) -> list[Any]:
            handles = {variable.handle.op.name for variable in variables}
            return [
                operation.outputs[0]
                for operation in scratch.get_operations()
                if operation.type == "ReadVariableOp" and operation.inputs[0].op.name in handles
            ]

        actor, critic = reads(net.a_params), reads(net.c_params)
        assert len(actor) >= 6
        assert len(critic) >= 4
        assert set(tf.gradients(losses[0], critic)) == {None}
        assert set(tf.gradients(losses[1], actor)) == {None}
        assert any(gradient is not None for gradient in tf.gradients(losses[0], actor)), "the test can tell"
        assert any(gradient is not None for gradient in tf.gradients(losses[1], critic)), "the test can tell"


def test_gradients_are_those_of_the_losses(three: Graph) -> None:
    """Against finite differences, for one number of each network."""
    net, session = three.worker_nets[0], started(three)
    fed, step = feeds(net, 6), 0.01
    for params, grads, loss in ((net.a_params, net.a_grads, net.a_loss), (net.c_params, net.c_grads, net.c_loss)):
        variable, gradient = params[-1], grads[-1]
        before, slope = session.run([variable, gradient], fed)
        sides = []
        for sign in (1, -1):
            moved = before.copy()
            moved.flat[0] += sign * step
            session.run(variable.initializer, {variable.initializer.inputs[1]: moved})
            sides.append(float(session.run(loss, fed)))
        session.run(variable.initializer, {variable.initializer.inputs[1]: before})
        assert slope.flat[0] == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=2e-2)
    session.close()


@pytest.mark.parametrize("value", [-1000.0, 1000.0])
def test_every_action_stays_within_its_own_bounds(three: Graph, value: float) -> None:
    net, session = three.worker_nets[0], started(three)
    noise = np.full((2, 3), value, np.float32)
    actions = session.run(net.A, {net.s: np.ones((2, 4)), net.noise: noise})
    session.close()
    bound = THREE_ACTIONS.low if value < 0 else THREE_ACTIONS.high
    np.testing.assert_array_equal(actions, [bound, bound])


def test_a_sample_is_mu_plus_sigma_times_the_noise(three: Graph) -> None:
    net, session = three.worker_nets[0], started(three)
    observations, noise = np.ones((1, 4)), np.array([[0.1, -0.2, 0.3]], np.float32)
    set_variable(session, net.a_params, "sigma/bias", -2.0)
    actions, mu, sigma = session.run([net.A, net.policy.mu, net.policy.sigma], {net.s: observations, net.noise: noise})
    np.testing.assert_allclose(actions, mu + sigma * noise, rtol=1e-5)
    session.close()


# push and pull


def values(session: Session, net: ACNet) -> list[np.ndarray]:
    return session.run(net.a_params + net.c_params)


def test_a_pull_alone_needs_no_feed_and_no_push(built: Graph) -> None:
    for net in built.worker_nets:
        behind = needs(net.pull_a_params_op + net.pull_c_params_op)
        assert not [operation.name for operation in behind if operation.type == "Placeholder"]
        assert not [operation.name for operation in behind if "/push" in operation.name]


@pytest.mark.parametrize("graph", ["built", "three"])
def test_a_pull_makes_local_equal_to_global_and_leaves_the_others_alone(
    graph: str, request: pytest.FixtureRequest
) -> None:
    made: Graph = request.getfixturevalue(graph)
    session = started(made)
    net, other = made.worker_nets
    first, others = values(session, made.global_net), values(session, other)
    assert not np.array_equal(values(session, net)[0], first[0])
    session.run([net.pull_a_params_op, net.pull_c_params_op])
    for ours, theirs in zip(values(session, net), first, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert all(np.array_equal(a, b) for a, b in zip(values(session, other), others, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(values(session, made.global_net), first, strict=True))
    session.close()


def test_a_push_changes_the_global_network_alone(three: Graph) -> None:
    session, net = started(three), three.worker_nets[0]
    local, first = values(session, net), values(session, three.global_net)
    session.run(net.update_a_op, feeds(net, 5))
    actor_pushed = values(session, three.global_net)
    session.run(net.update_c_op, feeds(net, 5))
    both_pushed = values(session, three.global_net)
    changed = [not np.array_equal(a, b) for a, b in zip(first, actor_pushed, strict=True)]
    assert changed == [True] * 6 + [False] * 4
    changed = [not np.array_equal(a, b) for a, b in zip(actor_pushed, both_pushed, strict=True)]
    assert changed == [False] * 6 + [True] * 4
    assert all(np.array_equal(a, b) for a, b in zip(values(session, net), local, strict=True))
    session.close()


def test_a_push_applies_the_local_networks_gradients_with_rmsprop(three: Graph) -> None:
    """First step: ms = 0.9 · 1 + 0.1 g²; w ← w - lr g / √(ms + 1e-10)."""
    session, net = started(three), three.worker_nets[1]
    fed = feeds(net, 5)
    first, gradients = values(session, three.global_net), session.run(net.a_grads + net.c_grads, fed)
    session.run([net.update_a_op, net.update_c_op], fed)
    rates = [1e-4] * 6 + [1e-3] * 4
    for before, after, g, rate in zip(first, values(session, three.global_net), gradients, rates, strict=True):
        step = rate * g / np.sqrt(0.9 + 0.1 * g**2 + 1e-10)
        np.testing.assert_allclose(after, before - step, rtol=1e-5, atol=1e-7)
    session.close()


def test_the_fused_update_leaves_local_equal_to_the_pushed_global(three: Graph) -> None:
    session, net = started(three), three.worker_nets[0]
    calls = worker_calls(net, session)
    for turn in range(20):
        before = values(session, three.global_net)
        calls.update_global(*feeds(net, 5, turn).values())
        after = values(session, three.global_net)
        assert not np.array_equal(before[0], after[0])
        for ours, theirs in zip(values(session, net), after, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    session.close()


def test_losses_are_reported_as_they_were_before_the_push(three: Graph) -> None:
    session, net = started(three), three.worker_nets[0]
    fed = feeds(net, 5)
    expected = session.run(net.report, fed)
    assert list(net.report)[:2] == ["loss/actor", "loss/critic"]
    assert worker_calls(net, session).update_global_and_report(*fed.values()) == pytest.approx(expected, rel=1e-6)
    session.close()


def test_workers_share_one_optimizers_statistics(built: Graph) -> None:
    with built.graph.as_default():
        slots = [variable.op.name for variable in tf.global_variables() if "RMSProp" in variable.op.name]
    assert all(name.startswith("Global_Net/") for name in slots)
    assert len(slots) == 2 * 10


# clipping and the joint loss


def test_gradients_are_clipped_to_the_norm_actor_and_critic_each() -> None:
    norm = 0.05
    clipped, plain = (build_graph(small_config(max_grad_norm=n), *PENDULUM) for n in (norm, None))
    answers = []
    for made in (clipped, plain):
        session, net = started(made), made.worker_nets[0]
        answers.append(session.run([net.a_grads, net.c_grads], feeds(net, 5)))
        session.close()
    for ours, unclipped in zip(*answers, strict=True):
        length = np.sqrt(sum(np.sum(gradient**2) for gradient in unclipped))
        assert length > norm
        for a, b in zip(ours, unclipped, strict=True):
            np.testing.assert_allclose(a, b * norm / length, rtol=1e-4, atol=1e-8)


def test_a_joint_loss_gives_each_network_the_same_gradients_as_apart() -> None:
    rates = {"actor_learning_rate": 1e-4, "critic_learning_rate": 1e-4}
    joint, apart = (build_graph(small_config(joint_loss=flag, **rates), *PENDULUM) for flag in (True, False))
    answers = []
    for made in (joint, apart):
        session, net = started(made), made.worker_nets[0]
        for variable in net.a_params + net.c_params:  # op seeds differ between the graphs
            set_variable(session, [variable], "", 0.05)
        answers.append(session.run(net.a_grads + net.c_grads, feeds(net, 5)))
        session.close()
    for a, b in zip(*answers, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


# a torso that actor and critic share


@pytest.fixture
def torso(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer below both networks, and a variable that is not trained."""

    def seen(flat_s: Any, config: Any) -> Any:
        tf.get_variable("count", [], tf.float32, tf.ones_initializer(), trainable=False)
        return dense(flat_s, 5, tf.nn.tanh, "torso")

    monkeypatch.setattr("a3c_tf.graph.networks.scaled", seen)


@pytest.mark.usefixtures("torso")
def test_whatever_lies_in_a_scope_is_pushed_pulled_and_kept() -> None:
    rates = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
    built = build_graph(small_config(workers=1, joint_loss=True, **rates), *PENDULUM)
    net, session = built.worker_nets[0], started(built)
    names = [variable.op.name.removeprefix("Global_Net/") for variable in built.global_net.params]
    assert {"torso/kernel", "torso/bias", "count"} <= set(names)
    assert {f"Global_Net/{name}" for name in names} <= {variable.op.name for variable in built.shared_variables}
    before = dict(zip(names, session.run(built.global_net.params), strict=True))
    session.run(net.push_then_pull_op, feeds(net, 6))
    after = dict(zip(names, session.run(built.global_net.params), strict=True))
    changed = {name for name in names if not np.array_equal(before[name], after[name])}
    assert changed == set(names) - {"count"}
    for name, ours in zip(names, session.run(net.params), strict=True):
        np.testing.assert_array_equal(ours, after[name], name)
    session.close()


@pytest.mark.usefixtures("torso")
def test_a_variable_that_would_never_be_updated_is_refused() -> None:
    with pytest.raises(ValueError, match="torso/kernel: belongs to neither actor nor critic: expected joint_loss"):
        build_graph(small_config(workers=1, joint_loss=False), *PENDULUM)


# refusals and manners


@pytest.mark.parametrize("low_high", [(-np.inf, np.inf), (-1.0, np.inf)])
def test_infinite_bounds_are_refused(low_high: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="expected finite bounds"):
        build_graph(small_config(), box((3,)), box((1,), *low_high))


def test_spaces_of_a_library_are_taken_as_they_are() -> None:
    spaces = gymnasium.spaces
    built = build_graph(small_config(), spaces.Box(-1, 1, (2, 2)), spaces.Box(-1, 1, (5,)))
    net = built.worker_nets[0]
    assert (net.s.shape.as_list(), net.A.shape.as_list()) == ([None, 2, 2], [None, 5])


def test_building_changes_nothing_of_the_process() -> None:
    default = tf.get_default_graph()
    count = len(default.get_operations())
    build_graph(small_config(), *PENDULUM)
    assert tf.get_default_graph() is default
    assert len(default.get_operations()) == count
    assert tf.executing_eagerly()


def test_two_graphs_do_not_share_names() -> None:
    first, second = build_graph(small_config(), *PENDULUM), build_graph(small_config(), *PENDULUM)
    assert first.graph is not second.graph
    assert first.worker_nets[0].s.name == second.worker_nets[0].s.name == "W_0/S:0"


def test_the_networks_see_the_scaled_observation() -> None:
    observations, (plain, scaled) = np.array([[0.5, 2.0, -3.0]], np.float32), ((1.0, 1.0, 1.0), (2.0, 0.5, -1.0))
    outputs = []
    for scale, fed in ((plain, observations * np.array(scaled, np.float32)), (scaled, observations)):
        built = build_graph(small_config(workers=1, observation_scale=scale), *PENDULUM)
        net = built.worker_nets[0]
        outputs.append(started(built).run([net.policy.mu, net.policy.sigma, net.v], {net.s: fed}))
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-6)


def test_a_scale_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(UsageError, match=r"observation_scale = \(1.0, 2.0\): expected a number for each of the 3"):
        build_graph(small_config(workers=1, observation_scale=(1.0, 2.0)), *PENDULUM)
