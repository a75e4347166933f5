"""Keeps the workers of a cheap environment together on one CPU.

Every session call hands the interpreter lock over and takes it back. While another worker waits for it on
another CPU, each time that CPU must be woken and the data moved to it, and two workers are slower than
one. On one CPU the lock goes on when the kernel changes threads, and eight workers are no slower than one.
It should change them when one has to wait, not whenever another could go on: SCHED_BATCH says so.
An environment whose steps take long may do without the lock meanwhile; it keeps all CPUs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.algorithms.calls import NetCalls
from a3c_tf.training.worker import Environment

CHEAP_STEP_SECONDS = 100e-6
"""a step that takes less than this costs no more than the session calls around it"""
_TIMED_STEPS = 9


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

    def keep(self, cpus: set[int], step_seconds: float | None) -> set[int]:
        """Keep the calling thread on the shared CPU if a step of its environment is that short, else on all.

        ``cpus`` are those that it has; returns those that it has now. A move costs as much as a step, so
        what stays is not moved.
        """
        cheap = step_seconds is not None and step_seconds <= CHEAP_STEP_SECONDS
        wanted = {self._cpu} if cheap and len(self._allowed) > 1 else self._allowed
        if wanted != cpus:
            self._move(wanted)
        self._busy[threading.get_ident()] = time.thread_time()
        return wanted

    @property
    def all_cpus(self) -> set[int]:
        return self._allowed

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


class CpuSharing:
    """One worker's ``env`` and ``net``, wrapped so that its thread is on the shared CPU for the steps of an episode.

    Not for a reset, in which an environment may start threads or processes: they would inherit it. Nor between two
    episodes, when it waits for others.
    """

    def __init__(self, shared: SharedCpu, env: Environment, net: NetCalls) -> None:
        self._shared, self._cpus, self._net = shared, shared.all_cpus, net
        self.env = TimedEnvironment(env, before_reset=self._leave, after_reset=self._keep)
        self.net = dataclasses.replace(
            net, update_global=self._update, update_global_and_report=self._update_at_an_episodes_end
        )

    def _keep(self) -> None:
        """Share the CPU from now on, if the environment's steps are short; follow to another one."""
        self._cpus = self._shared.keep(self._cpus, self.env.step_seconds)

    def _leave(self) -> None:
        """Have all CPUs again."""
        self._cpus = self._shared.keep(self._cpus, None)

    def _update(self, *rollout: np.ndarray) -> None:
        self._net.update_global(*rollout)
        self._keep()

    def _update_at_an_episodes_end(self, *rollout: np.ndarray) -> dict[str, float]:
        report = self._net.update_global_and_report(*rollout)
        self._leave()
        return report


class TimedEnvironment:
    """An environment that takes the time of an episode's first steps, and says when it is reset."""

    def __init__(self, env: Environment, before_reset: Callable[[], None], after_reset: Callable[[], None]) -> None:
        self._env, self._before_reset, self._after_reset = env, before_reset, after_reset
        self.observation_spec, self.action_spec, self.time_limit = env.observation_spec, env.action_spec, env.time_limit
        self.step: Callable[[np.ndarray], Any] = env.step
        self.step_seconds: float | None = None
        """median of an episode's first steps, or None before there are any"""
        self._times: list[float] = []

    def reset(self, seed: int) -> np.ndarray:
        self._before_reset()
        observation = self._env.reset(seed)
        self._times, self.step = [], self._timed_step
        self._after_reset()
        return observation

    def _timed_step(self, action: np.ndarray) -> Any:
        """Take a step and its time; after a few the next ones go to the environment itself."""
        start = time.perf_counter()
        answer = self._env.step(action)
        self._times.append(time.perf_counter() - start)
        if len(self._times) == _TIMED_STEPS:
            self.step_seconds = statistics.median(self._times)
            self.step = self._env.step
        return answer


def _idle_seconds() -> dict[int, float]:
    """How long each CPU has been idle since the machine was started; empty where Linux does not say."""
    if not hasattr(os, "sched_setaffinity"):
        return {}
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    tick = os.sysconf("SC_CLK_TCK")
    found = (re.match(r"cpu(\d+) \d+ \d+ \d+ (\d+)", line) for line in lines)
    return {int(cpu[1]): int(cpu[2]) / tick for cpu in found if cpu}
