"""The door to the runtime: the fast path and the public one do the same, from many threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import a3c_tf.graph.session
from a3c_tf.algorithms.build import Graph, build_graph
from a3c_tf.algorithms.calls import worker_calls
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from tests.conftest import PENDULUM, run_together, small_config

WORKERS = 4
CALLS = ("choose_action", "value", "update_global", "update_global_and_report", "pull_global")


@pytest.fixture(scope="module")
def built() -> Graph:
    made = build_graph(small_config(workers=WORKERS), *PENDULUM)
    with made.graph.as_default():
        tf.add_to_collection("start", tf.global_variables_initializer())
    return made


@pytest.fixture(params=["fast", "public"])
def session(request: pytest.FixtureRequest, built: Graph, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    if request.param == "public":
        take_the_public_path(monkeypatch)
    opened = started(built)
    yield opened
    opened.close()


def take_the_public_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a3c_tf.graph.session, "CallableOptions", None)


def started(built: Graph) -> Session:
    """A session with the same first weights each time."""
    session = Session(built.graph)
    session.run(built.graph.get_collection("start"))
    return session


def rollout(seed: int, steps: int = 5) -> list[np.ndarray]:
    """Observations, actions and value targets."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((steps, n)).astype(np.float32) for n in (3, 1, 1)]


def behaviour(built: Graph) -> list[np.ndarray]:
    """What a mixture of all calls returns, and every variable afterwards."""
    session = started(built)
    results: list[np.ndarray] = []
    for net in built.worker_nets[:2]:
        calls = worker_calls(net, session)
        results += calls.pull_global()
        for seed in range(3):
            observations, noise, _ = rollout(seed)
            results += calls.choose_action(observations[:1], noise[:1])
            results.append(calls.value(observations))
            results += calls.update_global(*rollout(seed))
            results += calls.update_global_and_report(*rollout(seed + 10)).values()
    with built.graph.as_default():
        results += session.run(tf.global_variables())
    session.close()
    return results


def test_both_paths_give_equal_results(built: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = behaviour(built)
    take_the_public_path(monkeypatch)
    public = behaviour(built)
    assert len(fast) == len(public) > 2 * 3 * 4
    for ours, theirs in zip(fast, public, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype


def count_private_callables(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []
    private = tf.Session._make_callable_from_options

    def counting(self: Any, options: Any) -> Any:
        made.append(options)
        return private(self, options)

    monkeypatch.setattr(tf.Session, "_make_callable_from_options", counting)
    return made


def test_the_fast_path_is_taken_where_tensorflow_has_it(built: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_private_callables(monkeypatch)
    session = started(built)
    worker_calls(built.worker_nets[0], session)
    assert len(made) >= len(CALLS)
    session.close()


@pytest.mark.parametrize("missing", ["CallableOptions", "_make_callable_from_options"])
def test_the_public_path_needs_nothing_private(built: Graph, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    if missing == "CallableOptions":
        take_the_public_path(monkeypatch)
    else:
        owner = next(kind for kind in tf.Session.__mro__ if missing in vars(kind))
        monkeypatch.delattr(owner, missing)
    session = started(built)
    calls = worker_calls(built.worker_nets[0], session)
    assert calls.pull_global() == []
    assert calls.value(np.zeros((2, 3), np.float32)).shape == (2, 1)
    assert calls.update_global(*rollout(0)) == []
    session.close()


def test_calls_take_arrays_and_give_what_the_worker_needs(built: Graph, session: Session) -> None:
    calls = worker_calls(built.worker_nets[0], session)
    observations, noise, _ = rollout(0)
    (action,) = calls.choose_action(observations[:1], noise[:1])
    values = calls.value(observations)
    report = calls.update_global_and_report(*rollout(0))
    assert (action.shape, action.dtype) == ((1, 1), np.float32)
    assert (values.shape, values.dtype) == ((5, 1), np.float32)
    assert list(report) == list(built.worker_nets[0].report)
    assert {type(value) for value in report.values()} == {float}
    assert calls.pull_global() == calls.update_global(*rollout(0)) == []


def test_several_feeds_and_fetches_keep_their_order(session: Session, built: Graph) -> None:
    net = built.worker_nets[0]
    observations, noise, targets = rollout(1)
    fetches = [net.c_loss, net.A, net.v]
    got = session.call(fetches, [net.v_target, net.s, net.noise])(targets, observations, noise)
    expected = session.run(fetches, {net.s: observations, net.noise: noise, net.v_target: targets})
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("in_pool", [False, True])
def test_the_caller_executes_a_call_unless_the_pool_is_asked(in_pool: bool) -> None:
    with tf.Graph().as_default() as graph:
        executing = tf.numpy_function(lambda: np.int64(threading.get_ident()), [], tf.int64)
        session = Session(graph)
    (thread,) = session.call([executing], in_pool=in_pool)()
    assert (thread != threading.get_ident()) == in_pool
    session.close()


def test_an_update_is_executed_in_the_pool_only_where_other_workers_need_its_cpu(
    session: Session, built: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    call = Session.call

    def noting(self: Session, *what: Any, in_pool: bool = False) -> Any:
        asked.append(in_pool)
        return call(self, *what, in_pool=in_pool)

    monkeypatch.setattr(Session, "call", noting)
    net = built.worker_nets[0]
    for workers, expected in ((1, False), (2, True)):
        asked.clear()
        monkeypatch.setattr(net, "config", net.config.replace(workers=workers))
        worker_calls(net, session)
        assert any(asked) is expected


@pytest.mark.parametrize("update", ["update_global", "update_global_and_report"])
def test_an_error_in_the_runtime_is_a_python_exception(session: Session, built: Graph, update: str) -> None:
    observations, actions, _ = rollout(0)
    calls = worker_calls(built.worker_nets[0], session)
    with pytest.raises((tf.errors.OpError, ValueError)):
        getattr(calls, update)(observations, actions, np.zeros((3, 1), np.float32))


def test_several_threads_act_at_once_each_on_its_own_network(session: Session, built: Graph) -> None:
    calls = [worker_calls(net, session) for net in built.worker_nets]
    alone = [(call.value(rollout(i)[0]), call.choose_action(*rollout(i)[:2])[0]) for i, call in enumerate(calls)]
    assert not np.array_equal(alone[0][0], alone[1][0])

    def act(i: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(calls[i].value(rollout(i)[0]), alone[i][0])
            np.testing.assert_array_equal(calls[i].choose_action(*rollout(i)[:2])[0], alone[i][1])

    run_together(WORKERS, act)


def test_several_threads_learn_at_once_and_no_push_is_lost(session: Session, built: Graph) -> None:
    """The mean square decays by 0.9 at each push; with zero gradients nothing else changes it."""
    calls = [worker_calls(net, session) for net in built.worker_nets]
    with built.graph.as_default():
        slots = [v for v in tf.global_variables() if v.op.name.endswith("critic/v/bias/RMSPropC")]
    for call in calls:
        call.pull_global()

    def learn(i: int) -> None:
        observations, actions, _ = rollout(i)
        for _ in range(25):  # targets as the critic says: its gradient is 0
            calls[i].update_global(observations, actions, calls[i].value(observations))

    before = session.run(slots)[0]
    run_together(WORKERS, learn)
    np.testing.assert_allclose(session.run(slots)[0], before * 0.9 ** (25 * WORKERS), rtol=1e-3)


def test_sessions_on_one_graph_do_not_know_each_other(built: Graph) -> None:
    one, two = started(built), started(built)
    variable = built.global_net.c_params[0]
    before = two.run(variable)
    net = built.worker_nets[0]
    for _ in range(3):
        worker_calls(net, one).update_global(*rollout(0))
    assert not np.array_equal(one.run(variable), before)
    np.testing.assert_array_equal(two.run(variable), before)
    one.close()
    two.close()


def test_a_closed_session_refuses_calls(built: Graph) -> None:
    session = started(built)
    session.close()
    with pytest.raises((RuntimeError, tf.errors.OpError)):
        session.run(built.global_net.c_params[0])
