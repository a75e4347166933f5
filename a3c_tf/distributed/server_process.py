"""The parameter server's process on this machine, and the global network through its pipe."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from typing import Any

from a3c_tf.distributed.channels import ServerGoneError, ServerLostError
from a3c_tf.distributed.child_process import Child
from a3c_tf.distributed.packets import Packet, packet_from
from a3c_tf.distributed.worker_process import START_SECONDS
from a3c_tf.errors import RunError

SERVER_SECONDS = 10.0
"""how long the parameter server may take to answer"""


class ServerProcess:
    """The parameter server's process, and the global network through its pipe: a ``Network`` of ``chief``."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.child = Child({"role": "ps", **setup}, b"")
        self._lock = threading.Lock()
        self._reported = False
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
            self._report_its_end()

    def _ask(self, *parts: bytes) -> bytes:
        with self._lock:
            try:
                for part in parts:
                    self.child.pipes[0].send_bytes(part)
            except OSError:
                self._report_its_end()
            return self._receive(SERVER_SECONDS)

    def _receive(self, seconds: float) -> bytes:
        with contextlib.suppress(OSError, EOFError):
            if self.child.pipes[0].poll(seconds):
                kind, answer = self.child.pipes[0].recv_bytes().split(b":", 1)
                if kind == b"failed":
                    raise RunError(f"the parameter server cannot start: {answer.decode()}")
                return answer
        self._report_its_end()
        raise ServerGoneError

    def _report_its_end(self) -> None:
        """Raise for the first who finds out; the others are stopped by that."""
        if not self._reported:
            self._reported = True
            with contextlib.suppress(subprocess.TimeoutExpired):  # its pipe closes a moment before it has ended
                self.child.process.wait(timeout=1)
            code = self.child.process.poll()
            how = f"does not answer at {self.target}" if code is None else self.child.how_it_ended()
            raise ServerLostError(f"the parameter server (process {self.child.process.pid}) {how}; the run ends")
