"""Starts a parameter server and worker processes on this machine, watches them, and leaves none behind.

The processes are in a private network, and their pipes are the only way out: weights, statistics and rows come
through them to the run folder, which belongs to this process alone.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import threading
from multiprocessing import spawn
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from a3c_tf.config import Config
from a3c_tf.distributed import network_namespace
from a3c_tf.distributed.chief import START_SECONDS, Keeper, LostError, ServerGoneError, ServerLostError, WorkerProcess
from a3c_tf.distributed.parameter_server import Mirror, Packet, packet_from, workers_of
from a3c_tf.environments.make import make_env
from a3c_tf.environments.spaces import specs_json
from a3c_tf.errors import RunError, UsageError
from a3c_tf.training.crew import Spaces, Training
from a3c_tf.training.ledger import Ledger

SERVER_SECONDS = 10.0
"""how long the parameter server may take to answer"""
_PACKAGE = str(Path(__file__).parents[2])
_BOOT = (
    f"import sys; sys.path.insert(0, {_PACKAGE!r}); "
    "from a3c_tf.distributed.process_main import main; main(sys.argv[1:])"
)


def pickled(config: Config) -> bytes:
    """The environment for another process, which is ours: nothing of a run folder is ever read in this way."""
    try:
        return bytes(ForkingPickler.dumps(config.env))
    except Exception as error:  # pickle raises many kinds
        raise UsageError(
            f"env = {config.env_name}: cannot be pickled for the worker processes ({error}): expected a function or "
            "class at the top of a module, or its name as 'module:name'"
        ) from None


class Child:
    """A process of this run. It dies with the thread that starts it, where the system can see to that."""

    def __init__(self, setup: dict[str, Any], env: bytes, pipes: int = 1) -> None:
        ours, theirs = zip(*(Pipe() for _ in range(pipes)), strict=True)
        self.pipes: list[Connection] = list(ours)
        descriptors = [pipe.fileno() for pipe in theirs]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, *map(str, descriptors)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the launcher
        )
        for pipe in theirs:
            pipe.close()
        with contextlib.suppress(OSError):  # a child that is gone is found by whoever waits for it
            self.pipes[0].send_bytes(json.dumps({"parent": os.getpid(), **setup}).encode())
            self.pipes[0].send_bytes(bytes(ForkingPickler.dumps(_preparation())))
            self.pipes[0].send_bytes(env)

    def how_it_ended(self) -> str:
        code = self.process.wait(timeout=5)
        if code < 0:
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
        return f"ended with exit code {code}"

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in self.pipes:
            pipe.close()


def _preparation() -> dict[str, Any]:
    """What another process needs to find the same modules, the program's own among them."""
    return {key: value for key, value in spawn.get_preparation_data("a3c_tf").items() if key != "authkey"}


class ServerProcess:
    """The parameter server's process, and the global network through its pipe: a ``remote.Network``."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.child = Child({"role": "ps", **setup}, b"")
        self._lock = threading.Lock()
        self._told = False
        self.target = ""

    def entered(self) -> None:
        """Wait until the process is in its network."""
        self._receive(START_SECONDS)

    def started(self) -> None:
        """Wait until the server runs."""
        self.target = self._receive(START_SECONDS).decode()

    def read(self) -> Packet:
        return packet_from(self._ask(b"read"))

    def write(self, learnt: Packet) -> None:
        self._ask(b"write", learnt.tobytes())

    def request_stop(self) -> None:
        self._ask(b"stop")

    def check(self) -> None:
        if self.child.process.poll() is not None:
            self._tell()

    def _ask(self, *parts: bytes) -> bytes:
        with self._lock:
            try:
                for part in parts:
                    self.child.pipes[0].send_bytes(part)
            except OSError:
                self._tell()
            return self._receive(SERVER_SECONDS)

    def _receive(self, seconds: float) -> bytes:
        with contextlib.suppress(OSError, EOFError):
            if self.child.pipes[0].poll(seconds):
                kind, answer = self.child.pipes[0].recv_bytes().split(b":", 1)
                if kind == b"failed":
                    raise RunError(f"the parameter server cannot start: {answer.decode()}")
                return answer
        self._tell()
        raise ServerGoneError

    def _tell(self) -> None:
        """Raise for the first who finds out; the others are stopped by that."""
        if not self._told:
            self._told = True
            with contextlib.suppress(subprocess.TimeoutExpired):  # its pipe closes a moment before it has ended
                self.child.process.wait(timeout=1)
            code = self.child.process.poll()
            how = f"does not answer at {self.target}" if code is None else self.child.how_it_ended()
            raise ServerLostError(f"the parameter server (process {self.child.process.pid}) {how}; the run ends here")


class PipeChannel:
    """The way to the workers of a child process, a pipe each."""

    def __init__(self, child: Child, workers: range) -> None:
        self.child, self._workers = child, workers

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        for pipe in multiprocessing.connection.wait(self.child.pipes, seconds):
            try:
                message = json.loads(pipe.recv_bytes())  # type: ignore[union-attr]
            except (EOFError, OSError):
                raise LostError(self.child.how_it_ended()) from None
            return self._workers[self.child.pipes.index(pipe)], message  # type: ignore[arg-type]
        return None

    def answer(self, worker: int, answer: Any) -> None:
        try:
            self.child.pipes[self._workers.index(worker)].send_bytes(json.dumps(answer).encode())
        except OSError:
            raise LostError(self.child.how_it_ended()) from None

    def end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.process.wait(timeout=1)
        self.child.kill()

    def where_it_hangs(self) -> str:
        self.child.kill(signal.SIGABRT)  # faulthandler tells it on stderr, which is ours
        return "; where, stands above"


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
        self._keeper = Keeper(
            self._config, self._server, mirror, self._setup["specs"], state.steps, state.worker_episodes
        )
        self._processes = [self._worker_process(i) for i in range(self._config.processes)]
        self._server.started()
        self._server.write(mirror.learnt())
        for process in self._processes:
            process.join()

    def tasks(self, ledger: Ledger) -> list[WorkerProcess]:
        """A task for each process, which counts in the run's own books."""
        self._keeper.open(ledger)
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

        return WorkerProcess(index, self._keeper, start)
