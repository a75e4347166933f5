"""Running normalization of observations: against NumPy, shared, saved, and resumed bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from a3c_tf.algorithms.build import build_graph
from a3c_tf.algorithms.calls import worker_calls
from a3c_tf.api import resume, train
from a3c_tf.environments.spaces import ObservationSpec
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.playing.policy import load_policy
from tests.conftest import PENDULUM, box, final_weights, read_rows, small_config

SUMS = "Global_Net/normalization/sums"


def test_observations_are_scaled_by_what_was_seen() -> None:
    built = build_graph(small_config(workers=2, normalize_observations=True), *PENDULUM)
    with built.graph.as_default():
        session = Session(built.graph)
        session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(0)
    seen = []
    for net in [*built.worker_nets] * 3:
        calls = worker_calls(net, session)
        seen.append(rng.normal([5.0, -3.0, 1000.0], [0.1, 1.0, 20.0], (50, 3)).astype(np.float32))
        calls.pull_global()
        calls.update_global(seen[-1], np.zeros((50, 1), np.float32), np.zeros((50, 1), np.float32))
    everything = np.concatenate([np.zeros((1, 3)), *seen]).astype(np.float64)
    squares = (everything**2).sum(axis=0) + 1  # as if one observation of mean 0 and square 1 had been seen
    expected = np.concatenate([[301], everything.sum(axis=0), squares])
    for net in (built.global_net, built.worker_nets[1]):
        with built.graph.as_default():
            np.testing.assert_allclose(session.run(net.statistics.sums.read_value()), expected, rtol=1e-12)
    batch = seen[0][:5]
    deviation = np.sqrt(squares / 301 - (everything.sum(axis=0) / 301) ** 2)
    scaled = np.clip((batch - everything.sum(axis=0) / 301) / deviation, -10, 10)
    hidden = built.graph.get_tensor_by_name("W_1/normalize/clip_by_value:0")
    np.testing.assert_allclose(session.run(hidden, {built.worker_nets[1].s: batch}), scaled, rtol=1e-3, atol=1e-4)
    session.close()


def test_it_is_off_unless_asked_for() -> None:
    built = build_graph(small_config(), ObservationSpec((3,)), box((1,)))
    assert not [variable for variable in built.shared_variables if "normalization" in variable.op.name]


def test_a_resumed_run_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    def settings(name: str, episodes: int) -> dict[str, object]:
        folder = str(tmp_path / name)
        return {"max_episode_steps": 20, "normalize_observations": True, "max_episodes": episodes, "log_dir": folder}

    train(small_config(**settings("whole", 6)), show="none")
    train(small_config(**settings("parts", 3)), show="none")
    resume(tmp_path / "parts", "none", max_episodes=6)
    whole, parts = final_weights(tmp_path / "whole"), final_weights(tmp_path / "parts")
    assert whole[SUMS][0] == 121  # six episodes of twenty steps, and the one it begins with
    for name in whole:
        if name != "run_state":
            np.testing.assert_array_equal(whole[name], parts[name], err_msg=name)
    rows = [[{**row, "wall_time": ""} for row in read_rows(tmp_path / name)] for name in ("whole", "parts")]
    assert rows[0] == rows[1]
    assert load_policy(tmp_path / "whole")(np.ones(3)) == load_policy(tmp_path / "parts")(np.ones(3))
