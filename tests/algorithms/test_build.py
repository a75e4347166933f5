"""The one factory of networks: each role in its scope, for any space, chosen by ``config.algorithm``."""

from __future__ import annotations

import gymnasium.spaces
import numpy as np
import pytest

from a3c_tf.algorithms import build
from a3c_tf.algorithms.build import Algorithm, Networks, build_graph
from a3c_tf.config import Config
from a3c_tf.environments.spaces import action_spec, observation_spec
from a3c_tf.graph.tf1 import tf

BOX = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float32)
SPACES = {
    "continuous": (gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32), BOX),
    "discrete": (gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32), gymnasium.spaces.Discrete(2)),
}


@pytest.mark.parametrize("case", SPACES)
def test_each_role_has_the_variables_of_the_global_network_in_its_scope(case: str) -> None:
    observations, actions = SPACES[case]
    with tf.Graph().as_default():
        networks = Networks(Config(), observation_spec(observations), action_spec(actions))
        made = [networks.global_net(), networks.learning_net(3), networks.acting_net("Evaluation")]
    for net, scope in zip(made, ("Global_Net", "W_3", "Evaluation"), strict=True):
        names = [variable.name for variable in net.params]
        assert names == [variable.name.replace("Global_Net", scope, 1) for variable in made[0].params]
        assert [variable.shape for variable in net.params] == [variable.shape for variable in made[0].params]


@pytest.mark.parametrize("case", SPACES)
def test_a_graph_has_a_network_for_each_worker_and_shares_what_is_learnt(case: str) -> None:
    graph = build_graph(Config(workers=2), *SPACES[case])
    assert [net.scope for net in graph.worker_nets] == ["W_0", "W_1"]
    shared = {variable.name for variable in graph.shared_variables}
    assert {variable.name for variable in graph.global_net.params} < shared, "the optimizers' statistics are shared too"
    assert not [name for name in shared if name.startswith(("W_0/", "W_1/"))]


def test_the_algorithm_is_the_one_that_the_configuration_names(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Algorithm(*[type(role.__name__, (role,), {}) for role in build.ALGORITHMS["a3c"]])
    monkeypatch.setattr(build, "ALGORITHMS", {"a3c": other})
    graph = build_graph(Config(workers=1), *SPACES["continuous"])
    with graph.graph.as_default():
        assert type(graph.global_net) is other.net
        assert type(graph.worker_nets[0]) is other.worker_net
        assert type(graph.networks.acting_net("Evaluation")) is other.acting_net
        assert type(graph.networks.learning_net(1)) is other.learning_net
