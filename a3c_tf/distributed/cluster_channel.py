"""The chief's ways out of its machine: to the parameter server, and through mailboxes to workers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NoReturn

from a3c_tf.distributed.channels import ProcessLostError, ServerGoneError, ServerLostError
from a3c_tf.distributed.heartbeat import LOST_SECONDS, Heartbeat
from a3c_tf.distributed.mailboxes import LOOK_SECONDS, Mailboxes
from a3c_tf.distributed.packets import Packet
from a3c_tf.distributed.parameter_server import GlobalNetwork
from a3c_tf.graph.tf1 import tf


class ClusterNetwork:
    """A global network on another machine, as a ``Network`` of ``chief``."""

    def __init__(self, address: str, network: GlobalNetwork) -> None:
        self.target = f"grpc://{address}"
        self._network = network
        self._reported = False
        self.lost: Exception | None = None

    def read(self) -> Packet:
        return self._guarded(self._network.read)

    def write(self, learnt: Packet) -> None:
        self._guarded(lambda: self._network.write(learnt))

    def request_stop(self) -> None:
        self._guarded(self._network.request_stop)

    def check(self) -> None:
        if self._reported:
            raise ServerGoneError
        if self.lost:
            self._report_lost(self.lost)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        if self._reported:
            raise ServerGoneError
        try:
            return call()
        except tf.errors.OpError as error:
            self._report_lost(error)

    def _report_lost(self, error: Exception) -> NoReturn:
        if self._reported:
            raise ServerGoneError
        self._reported = True
        raise ServerLostError(f"the parameter server at {self.target} is lost ({type(error).__name__}); the run ends")


class MailboxChannel:
    """The chief's way to the workers of a process elsewhere."""

    def __init__(
        self, mailboxes: Mailboxes, heartbeat: Heartbeat, network: ClusterNetwork, process: int, workers: range
    ) -> None:
        self._mailboxes, self._heartbeat, self._network = mailboxes, heartbeat, network
        self._process, self._workers = process, workers
        self._seen = dict.fromkeys(workers, "")
        self._number: dict[int, Any] = {}
        self._joined = False

    def again(self) -> MailboxChannel:
        """Wait for the process, the first time or after it was lost."""
        self._joined = False
        return self

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        try:
            return self._look()
        except tf.errors.OpError:
            time.sleep(seconds)  # it may answer again; the thread that beats knows when it is lost
            return None

    def _look(self) -> tuple[int, list[Any]] | None:
        for worker in self._workers:
            text = self._mailboxes.text(f"asked_{worker}")
            if text != self._seen[worker]:
                number, *message = json.loads(text)
                if message[0] == "hello" and self._joined:
                    raise ProcessLostError("was started again")
                self._joined |= message[0] == "hello"
                self._seen[worker], self._number[worker] = text, number
                return worker, message
        if self._joined and self._heartbeat.silent(self._process) > LOST_SECONDS:
            raise ProcessLostError(f"has not been heard of for {LOST_SECONDS:.0f} s")
        time.sleep(2 * LOOK_SECONDS)
        return None

    def answer(self, worker: int, answer: Any) -> None:
        text = json.dumps([self._number[worker], answer])
        while True:
            try:
                self._mailboxes.write[f"answered_{worker}"](text)
                return
            except tf.errors.OpError:
                self._network.check()
                time.sleep(0.2)

    def end(self) -> None:
        """It ends by itself when the answer is no, or that it was given up."""

    def where_it_hangs(self) -> str:
        return " or is out of reach"
