"""Processes as a crew: a parameter server and workers on this machine, watched, and none left behind.

The processes are in a private network, and their pipes are the only way out: weights, statistics and rows come
through them to the run folder, which belongs to this process alone.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from a3c_tf.config import Config
from a3c_tf.distributed import network_namespace
from a3c_tf.distributed.chief import Chief
from a3c_tf.distributed.child_process import Child, PipeChannel, pickled
from a3c_tf.distributed.mirror import Mirror
from a3c_tf.distributed.numbering import workers_of
from a3c_tf.distributed.server_process import ServerProcess
from a3c_tf.distributed.worker_process import WorkerProcess
from a3c_tf.environments.make import make_env
from a3c_tf.environments.spaces import specs_json
from a3c_tf.errors import UsageError
from a3c_tf.training.crew import Spaces, Training
from a3c_tf.training.ledger import Ledger


class ProcessCrew:
    """The parameter server and the worker processes of a run on this machine."""

    def check(self, config: Config) -> None:
        """Raises ``UsageError`` if the processes cannot be had here, before any is started."""
        if os.name != "posix":
            raise UsageError(
                "processes: expected Linux or macOS, where pipes are handed to processes; use threads: workers"
            )
        pickled(config)
        if not config.allow_open_port and (why := network_namespace.refusal()):
            raise UsageError(
                f"processes = {config.processes}: TensorFlow's server listens on all interfaces, without a password, "
                f"and runs any graph sent to it;\na private network to keep it in is not permitted here ({why}): "
                "allow_open_port (--allow-open-port) starts it all the same, see SECURITY.md"
            )

    def open(self, config: Config, closing: contextlib.ExitStack) -> Spaces:
        """Start the parameter server; what is started ends with ``closing``."""
        spaces = self._prepare(config, closing)
        namespace = {} if config.allow_open_port else {"namespace": "new"}
        self._server = ServerProcess({**self._setup, **namespace})
        closing.callback(self._server.child.kill)
        self._server.entered()
        if not config.allow_open_port:
            self._setup["namespace"] = self._server.child.process.pid
        return spaces

    def _prepare(self, config: Config, closing: contextlib.ExitStack) -> Spaces:
        self._config, self._closing = config, closing
        env = closing.enter_context(contextlib.closing(make_env(config.env)))
        spaces = env.observation_spec, env.action_spec
        self._env = pickled(config)
        self._setup: dict[str, Any] = {
            "config": config.to_json(),
            "specs": specs_json(*spaces),
            "named": isinstance(config.env, str),
        }
        return spaces

    def start(self, training: Training) -> None:
        """Start the workers' processes and wait until all have joined the run as it stands."""
        mirror = Mirror(training.graph.shared_variables, training.session, training.config)
        state = training.state
        self._chief = Chief(
            self._config, self._server, mirror, self._setup["specs"], state.steps, state.worker_episodes
        )
        self._processes = [self._worker_process(i) for i in range(self._config.processes)]
        self._server.started()
        self._server.write(mirror.learnt())
        for process in self._processes:
            process.join()

    def tasks(self, ledger: Ledger) -> list[WorkerProcess]:
        """A task for each process, which counts in the run's own books."""
        self._chief.open(ledger)
        return [process.serve(ledger.should_stop) for process in self._processes]

    def look_after(self) -> None:
        """Each process is looked after by its own task."""

    def _worker_process(self, index: int) -> WorkerProcess:
        workers = workers_of(index, self._config)

        def start() -> PipeChannel:
            setup = {"role": "worker", "workers": list(workers), **self._setup}
            child = Child(setup, self._env, pipes=len(workers))
            self._closing.callback(child.kill)
            return PipeChannel(child, workers)

        return WorkerProcess(index, self._chief, start)
