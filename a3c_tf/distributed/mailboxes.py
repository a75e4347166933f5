"""Mailboxes on the parameter server, over which the chief and the workers of other machines talk.

Only the parameter server listens. Messages lie in variables on it, which both sides read.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from a3c_tf.config import Config
from a3c_tf.distributed.numbering import number_of_workers
from a3c_tf.distributed.parameter_server import repeatable
from a3c_tf.errors import RunError
from a3c_tf.graph.session import RemoteSession
from a3c_tf.graph.tf1 import quiet_deprecations, tf

CALL_SECONDS = 4.0
"""for one look into a mailbox; the trainer waits a second longer for a thread to end"""
LOOK_SECONDS = 0.01
"""between two looks into a mailbox"""
_LONGEST_LOOK = 0.2
"""a worker that waits long looks less often"""


class Mailboxes:
    """The variables on the parameter server beside the global network, for one of the ``cluster`` programs.

    ``run_id`` and ``chief`` say whose it is. ``beats`` counts for each process while it lives, ``over`` is set at
    the end. ``asked`` and ``answered`` are each worker's mailboxes: a message stays until the next replaces it.
    """

    def __init__(self, target: str, config: Config, timeout: float) -> None:
        graph, number = tf.Graph(), number_of_workers(config)
        with graph.as_default(), graph.device("/job:ps/task:0/cpu:0"), quiet_deprecations():
            with tf.variable_scope("mailboxes", use_resource=True):
                texts = [tf.get_variable(name, [], tf.string) for name in self._text_names(number)]
                beats = tf.get_variable("beats", [config.processes], tf.int64, tf.zeros_initializer())
                over = tf.get_variable("over", [], tf.int64, tf.zeros_initializer())
            text, beat = tf.placeholder(tf.string, []), tf.placeholder(tf.int64, [config.processes])
            ends = tf.stack([over.read_value()])
            writes = [variable.assign(text, read_value=False) for variable in texts]
            reads = [variable.read_value() for variable in texts]
            beat_op, end_op = beats.assign_add(beat, read_value=False), over.assign(1, read_value=False)
            life = [beats.read_value(), ends]
            start = [beats.initializer, over.initializer]
        graph.finalize()
        self.session = session = RemoteSession(target, graph, timeout)
        names = self._text_names(number)
        self.write = {name: repeatable(session.call([], [text], [op])) for name, op in zip(names, writes, strict=True)}
        self.read = {name: repeatable(session.call([op])) for name, op in zip(names, reads, strict=True)}
        self.beat = repeatable(session.call([], [beat], [beat_op]))
        self.life = repeatable(session.call(life))
        self.end = repeatable(session.call([], [], [end_op]))
        self._start = session.call([], [], start)

    @staticmethod
    def _text_names(number: int) -> list[str]:
        return ["run_id", "chief", *(f"{kind}_{i}" for i in range(number) for kind in ("asked", "answered"))]

    def open(self, run_id: str) -> None:
        """Begin, on a new server."""
        self._start()
        for name, write in self.write.items():
            write(run_id if name == "run_id" else "")

    def text(self, name: str) -> str:
        return bytes(self.read[name]()[0]).decode()


class MailboxAsk:
    """A worker's end of its mailboxes; asks as ``worker_side.work`` does."""

    def __init__(self, mailboxes: Mailboxes, worker: int) -> None:
        self._mailboxes, self._worker = mailboxes, worker
        self._first, self._number = os.urandom(4).hex(), 0

    def __call__(self, kind: str, *what: Any) -> Any:
        self._number += 1
        number = f"{self._first}-{self._number}"
        answer = None
        while answer is None:  # as long as this process lives, which ends if the server or the chief is lost
            try:
                answer = self._exchange(number, json.dumps([number, kind, *what]))
            except tf.errors.OpError:
                time.sleep(0.2)
        if answer[0] == "given up":
            raise RunError("the chief has given this worker up, after it was not heard of; start it again")
        return answer[0]

    def _exchange(self, number: str, text: str) -> list[Any]:
        self._mailboxes.write[f"asked_{self._worker}"](text)
        pause = LOOK_SECONDS
        while True:
            answered, *answer = json.loads(self._mailboxes.text(f"answered_{self._worker}") or "[null]")
            if answered == number:
                return answer
            time.sleep(pause)
            pause = min(1.3 * pause, _LONGEST_LOOK)
