"""The handoff without the learning: workers put their ids on a queue, one "PPO" takes them batch by batch.

After Morvan Zhou's threading demo, a skeleton of distributed PPO, with his names for what a reader looks for:

===================== ==============================================================
ROLLING_EVENT         ``handoff.rolling_event``
UPDATE_EVENT          ``handoff.update_event``
QUEUE                 ``handoff.queue``
GLOBAL_UPDATE_COUNTER ``handoff.counter``
GLOBAL_EP             ``episodes.n_finished``
COORD                 ``coord`` in ``run``
===================== ==============================================================
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from a3c_tf.handoff import Handoff
from a3c_tf.training.threads import run_tasks

__all__ = ["EP_LEN", "EP_MAX", "MIN_BATCH_SIZE", "N_WORKER", "PPO", "Episodes", "Lane", "Result", "Worker", "run"]

N_WORKER = 4
EP_MAX = 10
EP_LEN = 200
MIN_BATCH_SIZE = 10

STEP_SECONDS = 0.0005
"""Mean length of a stand-in environment step. Steps of no length at all would fill a batch before a second
worker had woken up, and the demo would show one worker at a time."""
UPDATE_SECONDS = 0.002
"""Length of a stand-in update."""
STOP_SECONDS = 0.5
"""How long the threads get to leave after Ctrl-C."""


class Lane:
    """When one thread worked, in seconds of ``time.perf_counter``; the rest of its life it waited."""

    def __init__(self, name: str, record: bool) -> None:
        self.name = name
        self.record = record
        self.born = self.died = self._begun = 0.0
        self.seconds_worked = 0.0
        self.bars: list[tuple[float, float]] = []  # (begin, end) of each piece of work, if recorded

    @property
    def seconds_waited(self) -> float:
        return self.died - self.born - self.seconds_worked

    @contextlib.contextmanager
    def life(self) -> Iterator[None]:
        """The time between these two is the thread's."""
        self.born = time.perf_counter()
        try:
            yield
        finally:
            self.died = time.perf_counter()

    def begin(self) -> None:
        self._begun = time.perf_counter()

    def end(self) -> None:
        now = time.perf_counter()
        self.seconds_worked += now - self._begun
        if self.record:
            self.bars.append((self._begun, now))


class Episodes:
    """Gives each of ``ep_max`` episodes to one worker only, so that exactly so many are run, all to their end."""

    def __init__(self, ep_max: int) -> None:
        self.ep_max = ep_max
        self.n_begun = 0
        self.n_finished = 0  # GLOBAL_EP
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Take an episode; False if none is left."""
        with self._lock:
            if self.n_begun == self.ep_max:
                return False
            self.n_begun += 1
            return True

    def finish(self) -> bool:
        """Count a finished episode; True if it was the last of all."""
        with self._lock:
            self.n_finished += 1
            return self.n_finished == self.ep_max


class Worker:
    """Collects: each step puts the worker's id on the queue, where PPO would put a transition."""

    def __init__(self, wid: int, handoff: Handoff[int], episodes: Episodes, ep_len: int, record: bool = False) -> None:
        self.wid = wid
        self.handoff = handoff
        self.episodes = episodes
        self.ep_len = ep_len
        self.n_put = 0
        self.name = self.place = f"W_{wid}"
        self.lane = Lane(self.name, record)
        self._random = random.Random(wid)

    def work(self) -> None:
        with self.lane.life():
            while self.episodes.begin() and self._run_episode():
                if self.episodes.finish():
                    self.handoff.coord.request_stop()

    def _run_episode(self) -> bool:
        """False if the run was over before the episode was."""
        for _ in range(self.ep_len):
            if not self.handoff.collect(self.step):
                return False
            self.lane.end()
            self.n_put += 1
        return True

    def step(self) -> int:
        self.lane.begin()
        time.sleep(STEP_SECONDS * self._random.uniform(0.5, 1.5))
        return self.wid


class PPO:
    """Updates: takes each batch, reports it, and sleeps where PPO would learn."""

    def __init__(
        self, handoff: Handoff[int], episodes: Episodes, report: Callable[[str], object], record: bool = False
    ) -> None:
        self.handoff = handoff
        self.episodes = episodes
        self.report = report
        self.batch_sizes: list[int] = []
        self.n_taken: Counter[int] = Counter()  # by worker id
        self.name = self.place = "PPO"
        self.lane = Lane(self.name, record)

    def work(self) -> None:
        with self.lane.life():
            while self.handoff.update(self.update):
                self.lane.end()

    def update(self, batch: list[int]) -> None:
        self.lane.begin()
        self.report(
            "====update====\n"
            f"GLOBAL_EP {self.episodes.n_finished}\n"
            f"GLOBAL_UPDATE_COUNTER: {self.handoff.counter}\n"
            "update_old_pi\n"
            f"Queuesize: {len(batch)}\n"
            f"{batch}\n"
            "update Critic\n"
            "update Actor\n"
            "=====END======"
        )
        time.sleep(UPDATE_SECONDS)
        self.batch_sizes.append(len(batch))
        self.n_taken.update(batch)


@dataclass(frozen=True)
class Result:
    """What is left of a run: its workers and its PPO with their counts and lanes, and its seconds."""

    workers: list[Worker]
    ppo: PPO
    seconds: float

    def summary(self) -> str:
        sizes, row = self.ppo.batch_sizes, "{:<8}{:>8}{:>8}{:>8.2f} s for {}".format
        rows = [
            row(w.lane.name, w.n_put, self.ppo.n_taken[w.wid], w.lane.seconds_waited, "ROLLING") for w in self.workers
        ]
        put, waited = sum(w.n_put for w in self.workers), sum(w.lane.seconds_waited for w in self.workers)
        return "\n".join(
            [
                f"episodes {self.ppo.episodes.n_finished}, updates {len(sizes)}, seconds {self.seconds:.2f}",
                f"batches: smallest {min(sizes)}, largest {max(sizes)}, last (the rest) {sizes[-1]}",
                "{:<8}{:>8}{:>8}{:>10}".format("thread", "put", "taken", "waited"),
                *rows,
                row("workers", put, sum(sizes), waited, "ROLLING"),
                row("PPO", "", "", self.ppo.lane.seconds_waited, "UPDATE"),
            ]
        )


def run(
    n_workers: int = N_WORKER,
    ep_max: int = EP_MAX,
    ep_len: int = EP_LEN,
    min_batch_size: int = MIN_BATCH_SIZE,
    report: Callable[[str], object] = print,
    record: bool = False,
) -> Result:
    """Run ``ep_max`` episodes of ``ep_len`` steps, shared out among ``n_workers`` threads, and one updating thread.

    ``report`` gets the text of each update, ``record`` keeps the times a timeline is drawn from (some 100 bytes
    a step). Raises what a worker or the updater raised, or ``KeyboardInterrupt``, when all threads have left.
    """
    for name, value in [("n_workers", n_workers), ("ep_max", ep_max), ("ep_len", ep_len)]:
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value!r}")
    from a3c_tf.graph.tf1 import tf

    coord = tf.train.Coordinator(clean_stop_exception_types=[])
    handoff: Handoff[int] = Handoff(coord, min_batch_size)
    episodes = Episodes(ep_max)
    workers = [Worker(wid, handoff, episodes, ep_len, record) for wid in range(n_workers)]
    ppo = PPO(handoff, episodes, report, record)
    begun = time.perf_counter()
    run_tasks([ppo, *workers], coord, look_after=lambda: None, grace_seconds=STOP_SECONDS)
    if handoff.error is not None:  # the Coordinator forgets one that came after the stop
        raise handoff.error
    return Result(workers, ppo, time.perf_counter() - begun)
