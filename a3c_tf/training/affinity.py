"""Keeps the workers of a cheap environment together on one CPU.

Every session call hands the interpreter lock over and takes it back. While another worker waits for it on
another CPU, each time that CPU must be woken and the data moved there, and two workers are slower than
one. On one CPU the lock goes on when the kernel changes threads, and eight workers are no slower than one.
It should change them when one has to wait, not whenever another could go on: SCHED_BATCH says so.
An environment whose steps take long may do without the lock meanwhile; it keeps all CPUs.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CHEAP_STEP_SECONDS = 100e-6
"""a step that takes less than this costs no more than the session calls around it"""


class SharedCpu:
    """The CPU that workers share; which one may change, as other programs come and go.

    Only Linux lets a thread choose. Elsewhere, and where no two CPUs are allowed, nothing is done.
    """

    def __init__(self) -> None:
        self._idle = _idle_seconds()
        self._allowed = os.sched_getaffinity(0) & self._idle.keys() if self._idle else set()
        self._looked_at, self._ours = time.monotonic(), 0.0
        self._busy: dict[int, float] = {}  # the CPU time of each worker's thread; TensorFlow's own is elsewhere
        self._policy = os.sched_getscheduler(0) if self._idle else None
        self._pause = 0.2
        # a guess: the first look round is soon
        self._cpu = random.choice(sorted(self._allowed) or [0])

    @contextlib.contextmanager
    def kept(self) -> Iterator[Callable[[float | None], bool]]:
        """A time in which the calling thread may be kept on the shared CPU; afterwards it has all CPUs again.

        Gives ``keep(step_seconds)``, to be called now and then: it keeps the thread if a step of its environment is
        that short, follows to another CPU, and tells whether the thread is kept. A move costs as much as a step,
        so what stays is not moved.
        Not for the time of a reset, in which an environment may start threads or processes: they would inherit it.
        """
        here, thread = self._allowed, threading.get_ident()

        def keep(step_seconds: float | None) -> bool:
            nonlocal here
            cheap = step_seconds is not None and step_seconds <= CHEAP_STEP_SECONDS
            there = {self._cpu} if cheap and len(self._allowed) > 1 else self._allowed
            if there != here:
                self._move(there)
                here = there
            self._busy[thread] = time.thread_time()
            return here != self._allowed

        try:
            yield keep
        finally:
            keep(None)

    def _move(self, cpus: set[int]) -> None:
        with contextlib.suppress(OSError):  # forbidden, or taken from the program meanwhile: then it stays
            os.sched_setaffinity(0, cpus)
            if self._policy == os.SCHED_OTHER:  # else the user has chosen one
                policy = os.SCHED_OTHER if cpus == self._allowed else os.SCHED_BATCH
                os.sched_setscheduler(0, policy, os.sched_param(0))

    def look_around(self) -> None:
        """Go to the idlest CPU if other programs use this one too; to be called now and then by one thread."""
        now = time.monotonic()
        if len(self._allowed) < 2 or now < self._looked_at + self._pause:
            return
        seconds, idle, ours = now - self._looked_at, _idle_seconds(), sum(list(self._busy.values()))
        free = {cpu: (idle[cpu] - self._idle[cpu]) / seconds for cpu in self._allowed & idle.keys() & self._idle.keys()}
        taken_by_others = 1 - free.get(self._cpu, 0) - (ours - self._ours) / seconds
        idlest = max(free, key=free.__getitem__, default=self._cpu)
        if taken_by_others > 0.2 and free.get(idlest, 0) > 0.5:
            self._cpu = idlest
        self._looked_at, self._idle, self._ours = now, idle, ours
        self._pause = random.uniform(1, 3)  # two programs that move at once must not meet again and again


def _idle_seconds() -> dict[int, float]:
    """How long each CPU has been idle since the machine was started; empty where Linux does not tell."""
    if not hasattr(os, "sched_setaffinity"):
        return {}
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    tick = os.sysconf("SC_CLK_TCK")
    found = (re.match(r"cpu(\d+) \d+ \d+ \d+ (\d+)", line) for line in lines)
    return {int(cpu[1]): int(cpu[2]) / tick for cpu in found if cpu}
