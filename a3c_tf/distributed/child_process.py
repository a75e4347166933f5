"""A process of this run on this machine, and the pipes to it."""

from __future__ import annotations

import contextlib
import json
import multiprocessing.connection
import os
import signal
import subprocess
import sys
from multiprocessing import spawn
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from a3c_tf.config import Config
from a3c_tf.distributed.channels import ProcessLostError
from a3c_tf.errors import UsageError

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
            start_new_session=True,  # Ctrl-C is for its parent
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


class PipeChannel:
    """The way to the workers of a child process, a pipe each."""

    def __init__(self, child: Child, workers: range) -> None:
        self.child, self._workers = child, workers

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        for pipe in multiprocessing.connection.wait(self.child.pipes, seconds):
            try:
                message = json.loads(pipe.recv_bytes())  # type: ignore[union-attr]
            except (EOFError, OSError):
                raise ProcessLostError(self.child.how_it_ended()) from None
            return self._workers[self.child.pipes.index(pipe)], message  # type: ignore[arg-type]
        return None

    def answer(self, worker: int, answer: Any) -> None:
        try:
            self.child.pipes[self._workers.index(worker)].send_bytes(json.dumps(answer).encode())
        except OSError:
            raise ProcessLostError(self.child.how_it_ended()) from None

    def end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.process.wait(timeout=1)
        self.child.kill()

    def where_it_hangs(self) -> str:
        self.child.kill(signal.SIGABRT)  # faulthandler writes the stack to stderr, which is ours
        return "; where, stands above"


def _preparation() -> dict[str, Any]:
    """What another process needs to find the same modules, the program's own among them."""
    return {key: value for key, value in spawn.get_preparation_data("a3c_tf").items() if key != "authkey"}
