"""The global network on a parameter server: packets, push and pull, the original's numbers through it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from a3c_tf.algorithms.build import build_graph
from a3c_tf.algorithms.calls import NetCalls, worker_calls
from a3c_tf.algorithms.returns import n_step_returns
from a3c_tf.config import Config
from a3c_tf.distributed.chief import Chief
from a3c_tf.distributed.local_networks import LocalNetworks
from a3c_tf.distributed.mirror import Mirror
from a3c_tf.distributed.packets import pack, packet_of, unpack
from a3c_tf.distributed.parameter_server import GlobalNetwork
from a3c_tf.distributed.worker_process import WorkerProcess
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.training.counters import Counters
from tests.algorithms.test_reference import load_weights
from tests.conftest import PENDULUM, small_config
from tests.reference import Reference, assert_near, assert_same_change

SERVER = """
import sys
from a3c_tf.graph.tf1 import tf
server = tf.train.Server(tf.train.ClusterSpec({"ps": ["localhost:0"]}), job_name="ps", task_index=0)
print(server.target, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def target() -> Iterator[str]:
    """A server of its own process, which cannot be shut down otherwise."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout
        yield server.stdout.readline().strip()
        server.kill()


@pytest.fixture
def connect(target: str) -> Iterator[Callable[[Config], Connected]]:
    connected: list[Connected] = []

    def connect(config: Config) -> Connected:
        connected.append(Connected(target, config))
        return connected[-1]

    yield connect
    for each in connected:
        each.network.session.close()


class Connected:
    """A global network on ``target``, its mirror and the calls of one local network."""

    def __init__(self, target: str, config: Config) -> None:
        self.built = build_graph(config, *PENDULUM)
        with self.built.graph.as_default():
            initializer = tf.global_variables_initializer()
        self.session = Session(self.built.graph)
        self.session.run(initializer)
        self.mirror = Mirror(self.built.shared_variables, self.session, config)
        self.network = GlobalNetwork(target, config, *PENDULUM, timeout=60)
        self.local = LocalNetworks(config, *PENDULUM, [0])
        self.told: list[tuple[int, bool]] = []
        self.calls: NetCalls = self.local.calls(
            0, self.network.push_and_pull, self.network.pull, lambda *told: self.told.append(told)
        )

    def load(self, global_weights: dict[str, np.ndarray], local_weights: dict[str, np.ndarray]) -> None:
        load_weights(self.session, self.built.global_net, global_weights)
        load_weights(self.local.session, self.local.nets[0], local_weights)
        self.network.write(self.mirror.learnt())

    def global_weights(self) -> dict[str, np.ndarray]:
        self.steps = self.mirror.take(self.network.read())
        return self.named(self.session, self.built.global_net.params)

    def local_weights(self) -> dict[str, np.ndarray]:
        return self.named(self.local.session, self.local.nets[0].params)

    @staticmethod
    def named(session: Session, variables: list[tf.Variable]) -> dict[str, np.ndarray]:
        names = [variable.op.name.split("/", 1)[1] for variable in variables]
        return dict(zip(names, session.run(variables), strict=True))


Connect = Callable[[Config], Connected]


def test_a_packet_holds_every_type_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal((3, 2)).astype(np.float32),
        np.array([np.pi, -1e300, 5e-324]),
        np.array([2**53 + 1, -1, 0x7FA00000_7FA00001]),  # as float32 the last one is two signalling NaN
        np.float32(0.5),
        np.array([], np.float32),
        np.int64(-7),
    ]
    with tf.Graph().as_default(), tf.Session() as session:
        like = [tf.constant(array) for array in arrays]
        packet = session.run(pack(like))
        assert (packet.dtype, packet.shape) == (np.float32, (6 + 6 + 6 + 1 + 0 + 2,))
        place = packet_of(like)
        back = session.run(unpack(place, like), {place: packet})
    for array, returned in zip(arrays, back, strict=True):
        assert (array.dtype, array.shape, array.tobytes()) == (returned.dtype, returned.shape, returned.tobytes())


def test_three_batches_as_the_pytorch_original_through_the_server(connect: Connect) -> None:
    """As ``test_reference.py`` has it, with the global network in another process."""
    reference = Reference("original_adam_step_1.npz")
    config = Config.preset("classic-adam", processes=1, seed=0)
    here = connect(config)
    before = reference.under("global_before/")
    here.load(before, reference.under("local_before/"))
    steps = 0
    for i in range(3):
        batch = reference.batch(i)
        v_s_ = np.zeros(1) if batch["episode_end"] else here.calls.value(batch["next_observation"][None])[0]
        rewards = np.array(batch["rewards"], np.float64).reshape(-1, 1)
        targets = n_step_returns(rewards, np.full_like(rewards, config.gamma), v_s_)
        assert_near("value targets", targets, batch["value_targets"])
        report = here.calls.update_global_and_report(batch["observations"], batch["actions"], targets)
        assert_near("loss", np.float64(report["loss/actor"] + report["loss/critic"]), batch["loss"])
        steps += len(targets)
        assert here.told[-1] == (steps, False)
        for name, value in here.global_weights().items():
            assert_same_change(name, before[name], value, batch[f"global_after_push/{name}"])
        for name, value in here.local_weights().items():
            assert_near(f"pulled {name}", value, batch[f"local_after_pull/{name}"])
        before = {name: batch[f"global_after_push/{name}"] for name in before}
    assert here.steps.tolist() == [steps]
    here.network.request_stop()
    here.calls.pull_global()
    assert here.told[-1] == (steps, True)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": "adam", "joint_loss": True, "critic_learning_rate": 1e-4},
        {"normalize_observations": True, "learning_rate_decay": "linear", "max_grad_norm": 0.5},
    ],
    ids=["rmsprop", "adam", "statistics and a decaying learning rate"],
)
def test_it_is_the_same_to_the_last_bit_as_in_one_process(connect: Connect, changes: dict[str, object]) -> None:
    """Pushes of two kinds of batches, and all that is learnt, against the graph of the threaded trainer."""
    config = small_config(processes=1, **changes)
    here = connect(config)
    here.network.write(here.mirror.learnt())
    threaded = build_graph(config, *PENDULUM)
    with threaded.graph.as_default():
        initializer = tf.global_variables_initializer()
    session = Session(threaded.graph)
    session.run(initializer)
    calls = worker_calls(threaded.worker_nets[0], session)
    assert [v.op.name for v in here.network.shared] == [v.op.name for v in threaded.shared_variables]
    for net in (calls, here.calls):
        rng = np.random.default_rng(1)
        net.pull_global()
        for rows in (10, 3, 10):
            rollout = [rng.standard_normal((rows, n)).astype(np.float32) for n in (3, 1, 1)]
            scale = [np.float32(0.7)] if config.learning_rate_decay == "linear" else []
            net.update_global(*rollout, *scale)
    here.mirror.take(here.network.read())
    for ours, theirs in zip(here.built.shared_variables, threaded.shared_variables, strict=True):
        np.testing.assert_array_equal(here.session.run(ours), session.run(theirs), ours.op.name)
    for ours, theirs in zip(here.local.nets[0].params, threaded.worker_nets[0].params, strict=True):
        np.testing.assert_array_equal(here.local.session.run(ours), session.run(theirs), ours.op.name)


def test_a_call_that_fails_is_pushed_exactly_once(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's own fault, played: the push was made and its answer lost, or it was not made."""
    here = connect(small_config(processes=1))
    here.network.write(here.mirror.learnt())
    real, failures = here.network.push_and_pull, []

    def fails_once(packet: np.ndarray) -> list[np.ndarray]:
        if failures:
            made = failures.pop()
            if made:
                real(packet)
            raise tf.errors.AbortedError(None, None, "The same RunGraph (Worker) request was received twice.")
        return real(packet)

    monkeypatch.setattr(here.network, "push_and_pull", fails_once)
    calls = here.local.calls(0, here.network.pusher(0), here.network.pull, lambda *told: here.told.append(told))
    rollout = [np.ones((4, n), np.float32) for n in (3, 1, 1)]
    for number, made in enumerate([True, False, True], 1):
        failures.append(made)
        calls.update_global(*rollout)
        assert here.told[-1] == (4 * number, False)
    here.global_weights()
    assert here.steps.tolist() == [12]


def test_a_worker_that_claims_before_all_have_joined_waits_for_the_run_to_begin() -> None:
    """Threads of one process are not ready at the same moment."""

    class Network:
        target = "nowhere"

        def check(self) -> None: ...

        def read(self) -> np.ndarray:
            return np.zeros(1, np.float32)

    class Mirrored:
        def take(self, state: np.ndarray) -> np.ndarray:
            return np.zeros(2, np.int64)

    class Letters:
        said = [(0, ["ready"]), (0, ["claim_episode"]), (1, ["ready"])]  # noqa: RUF012
        answers: list[tuple[int, object]] = []  # noqa: RUF012

        def receive(self, seconds: float) -> object:
            return self.said.pop(0)

        def answer(self, worker: int, answer: object) -> None:
            self.answers.append((worker, answer))

    config = Config(processes=1, workers=2, max_episodes=None, max_steps=100)
    chief = Chief(config, Network(), Mirrored(), "", 0, {})  # type: ignore[arg-type]
    letters = Letters()
    process = WorkerProcess(0, chief, lambda: letters)  # type: ignore[arg-type, return-value]
    process.join()
    assert letters.answers == [(0, True), (1, True)]  # ready and ready: the claim is not answered yet
    ledger = Counters(None, 100, 0.9)
    ledger.worker_episodes = {}  # type: ignore[attr-defined]
    chief.open(ledger)  # type: ignore[arg-type]
    letters.said.append((1, ["claim_episode"]))
    process._serve_once()
    assert sorted(letters.answers[2:]) == [(0, True), (1, True)]
