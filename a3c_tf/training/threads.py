"""Runs tasks in threads under a ``tf.train.Coordinator``, until all have ended or one has failed."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from a3c_tf.errors import RunError, mark_place

GRACE_SECONDS = 5.0
"""how long a task may take to end after a stop was asked for"""

_log = logging.getLogger("a3c_tf")


class HangingWorkerError(RunError):
    """A worker did not end when it was asked to; the message says which, and where it hangs."""


class EndedByForceError(RunError):
    """What a task worked with did not end when it was asked to, and was killed; the message says what."""


class Task(Protocol):
    """What runs in a thread of its own until it is done or asked to stop."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str:
        """where it is, for a message"""

    def work(self) -> None: ...


def run_tasks(
    tasks: Sequence[Task], coordinator: Any, look_after: Callable[[], None], grace_seconds: float | None = None
) -> None:
    """Run each task in a thread of its own; raises what the first failure raised.

    ``look_after`` is called every 0.1 s. A failure, or an exception in the caller such as Ctrl-C, stops all. Raises
    ``HangingWorkerError`` if a task has not ended ``grace_seconds`` (``GRACE_SECONDS``) later.
    """
    coordinator.clear_stop()
    ended_by_force: list[EndedByForceError] = []
    ended = threading.Semaphore(0)

    def run(task: Task) -> None:
        try:
            _run_task(task, coordinator, ended_by_force)
        finally:
            ended.release()

    # each thread gets its own task by args: a closure over a loop variable could run one task twice
    threads = [threading.Thread(target=run, args=(task,), name=task.name, daemon=True) for task in tasks]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            while not (coordinator.should_stop() or ended.acquire(timeout=0.1)):
                look_after()
    finally:
        coordinator.request_stop()
        _join([thread for thread in threads if thread.ident], coordinator, grace_seconds or GRACE_SECONDS)
        if ended_by_force:  # more than the stop that was asked for
            raise ended_by_force[0]
    coordinator.join(threads)


def _run_task(task: Task, coordinator: Any, ended_by_force: list[EndedByForceError]) -> None:
    try:
        task.work()
    except EndedByForceError as error:
        ended_by_force.append(error)
    except BaseException as error:  # whatever an environment raises ends the run, SystemExit too
        place = f"in {task.place}"
        _log.error("%s: %s: %s", place, type(error).__name__, error)  # the Coordinator keeps only the first
        mark_place(error, place)
        coordinator.request_stop(error)


def _join(threads: list[threading.Thread], coordinator: Any, grace_seconds: float) -> None:
    """Wait for the threads to end. Raises ``HangingWorkerError`` if one takes longer than the grace period."""
    deadline = time.monotonic() + grace_seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    frames = sys._current_frames()
    hanging = [
        f"worker {thread.name} hangs in:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
        for thread in threads
        if thread.is_alive() and thread.ident in frames
    ]
    if hanging:
        message = f"{grace_seconds:.0f} s after the stop was asked for, " + "\n".join(hanging)
        try:
            coordinator.join([])
        except BaseException as failure:
            raise HangingWorkerError(message) from failure
        raise HangingWorkerError(message) from None
