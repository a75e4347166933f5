"""Workers in a process of their own, away from the chief: their networks, threads and failures."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from a3c_tf.config import Config
from a3c_tf.distributed.local_networks import LocalNetworks
from a3c_tf.distributed.parameter_server import GlobalNetwork
from a3c_tf.distributed.remote_ledger import RemoteLedger
from a3c_tf.environments.environment import Environment
from a3c_tf.environments.make import make_env
from a3c_tf.environments.spaces import AnyActionSpec, ObservationSpec, specs_json
from a3c_tf.errors import RunError
from a3c_tf.graph.tf1 import tf
from a3c_tf.training.worker import Worker

Ask = Callable[..., Any]
CALL_SECONDS = 8.0
"""how long a push may take before the parameter server counts as lost"""


def work(
    config: Config,
    observations: ObservationSpec,
    actions: AnyActionSpec,
    workers: Sequence[int],
    asks: Sequence[Ask],
    on_failure: Callable[[BaseException], Any] = lambda error: None,
) -> None:
    """Join the run and run the ``workers``, each in a thread and with the one of ``asks`` that is its own.

    A worker's failure goes to the chief, and to ``on_failure``.
    """
    envs = [make_env(config.env) for _ in workers]
    local = LocalNetworks(config, observations, actions, workers)
    welcome = asks[0]("hello", {"specs": specs_json(envs[0].observation_spec, envs[0].action_spec)})
    network = GlobalNetwork(welcome["target"], config, observations, actions, CALL_SECONDS)

    def joined(index: int, env: Environment, ask: Ask) -> Worker:
        ledger = RemoteLedger(ask, config, welcome["steps"], welcome["episodes"])
        net = local.calls(index, network.pusher(index), network.pull, ledger.on_pull)
        net.pull_global()  # the first call over the network takes longest
        return Worker(index, config, env, net, local.networks.learner(net, lambda: ledger.steps), ledger)

    threads = [
        threading.Thread(target=_run, args=(joined(index, env, ask), ask, on_failure), daemon=True)
        for index, env, ask in zip(workers, envs, asks, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for env in envs:
        env.close()


def _run(worker: Worker, ask: Ask, on_failure: Callable[[BaseException], Any]) -> None:
    try:
        ask("ready")
        worker.work()
        ask("done")
    except BaseException as error:  # whatever an environment raises ends the run, SystemExit too
        on_failure(error)
        ask("failed", *failure(error, worker.place))


def failure(error: BaseException, place: str) -> tuple[str, str, str | None, str, bool]:
    """(type, message, traceback or None if the message says all, place, whether the server is lost) of an error."""
    text = "".join(traceback.format_exception(error)).rstrip()
    says_all = isinstance(error, RunError) and error.__cause__ is None
    return type(error).__name__, str(error), None if says_all else text, place, isinstance(error, tf.errors.OpError)
