"""What a process runs that ``child_process`` starts: the parameter server, or workers.

Until it is in its private network it must be of one thread, so nothing but the standard library is imported before.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing import spawn
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from a3c_tf.distributed import network_namespace


def main(descriptors: Sequence[str]) -> None:
    """Run the process whose pipes are the ``descriptors``; it ends when its parent does."""
    pipes = [Connection(int(descriptor)) for descriptor in descriptors]
    try:
        setup = json.loads(pipes[0].recv_bytes())
        _die_with(setup["parent"])
        faulthandler.enable()
        namespace = setup.get("namespace")
        if namespace == "new":
            network_namespace.enter_new()
        elif namespace is not None:
            network_namespace.join(namespace)
        preparation = ForkingPickler.loads(pipes[0].recv_bytes())
        env = pipes[0].recv_bytes()
        (_serve if setup["role"] == "ps" else _work)(setup, preparation, env, pipes)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # nobody listens any more
    sys.stderr.flush()
    os._exit(0)  # a session of a server that is gone would be closed for ever


def _die_with(parent: int) -> None:
    """End when the parent does, in whatever way: at once on Linux, else within a second."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    if os.getppid() != parent:
        os._exit(1)
    if sys.platform != "linux":
        threading.Thread(target=watch, daemon=True).start()


def _serve(setup: dict[str, Any], preparation: dict[str, Any], env: bytes, pipes: list[Connection]) -> None:
    """The parameter server: answers what its parent asks of the global network."""
    pipe = pipes[0]
    pipe.send_bytes(b"entered:")
    from a3c_tf.distributed import parameter_server
    from a3c_tf.distributed.packets import packet_from

    try:
        target = parameter_server.serve("localhost:0")
        network = parameter_server.GlobalNetwork(target, *_run_of(setup, "none"), timeout=60)
    except Exception as error:
        pipe.send_bytes(f"failed:{error}".encode())
        return
    pipe.send_bytes(f"started:{target}".encode())
    while True:
        asked, answer = pipe.recv_bytes(), b""
        if asked == b"read":
            answer = network.read().tobytes()
        elif asked == b"write":
            network.write(packet_from(pipe.recv_bytes()))
        else:
            network.request_stop()
        pipe.send_bytes(b"done:" + answer)


def _run_of(setup: dict[str, Any], env: Any) -> tuple[Any, Any, Any]:
    """The run's settings, with the environment as an object, and its spaces."""
    from a3c_tf.config import Config
    from a3c_tf.environments.spaces import specs_from_json

    return Config.from_json(setup["config"], env), *specs_from_json(setup["specs"])


def _work(setup: dict[str, Any], preparation: dict[str, Any], env: bytes, pipes: list[Connection]) -> None:
    """The workers of one process."""
    if setup["named"]:
        preparation = {key: value for key, value in preparation.items() if not key.startswith("init_main")}
    spawn.prepare(preparation)
    asks = [_Asking(pipe) for pipe in pipes]
    from a3c_tf.distributed import worker_side

    try:
        run = _run_of(setup, ForkingPickler.loads(env))
        worker_side.work(*run, setup["workers"], asks)
    except BaseException as error:
        asks[0]("failed", *worker_side.failure(error, f"the process of worker W_{setup['workers'][0]}"))


class _Asking:
    """A worker's end of its pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def __call__(self, kind: str, *what: Any) -> Any:
        try:
            self._pipe.send_bytes(json.dumps([kind, *what]).encode())
            return json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(1)  # the parent is gone, and the run with it
