"""The rolling/update handoff: several workers collect, one updater works on what they collected, by turns.

Two Events say whose turn it is (ROLLING_EVENT and UPDATE_EVENT in Morvan Zhou's threading demo, whose
mechanism this is)::

    worker                                      updater
    ------                                      -------
    wait for ROLLING  <--- set ------------+
    make an item, put it on the queue      |
    count it                               |
    counter >= min_batch_size?             |
        clear ROLLING: nobody sets out     |
        last one in flight? set UPDATE --------> wait for UPDATE
                                           |    work on the batch
                                           |    counter = 0, clear UPDATE
                                           +--- set ROLLING
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Handoff"]

POLL_SECONDS = 0.05
"""Longest sleep on an Event. A bare ``request_stop()`` sets none, so every waiter looks up this often."""

Item = TypeVar("Item")
logger = logging.getLogger(__name__)


class Coordinator(Protocol):
    """What is needed of ``tf.train.Coordinator``."""

    def should_stop(self) -> bool: ...

    def request_stop(self, ex: Any = None) -> None: ...


class Handoff(Generic[Item]):
    """Hands items from the threads that call ``collect`` to the one thread that calls ``update``.

    With n collecting threads it promises:

    - every item put is delivered exactly once, each worker's items in the order it put them;
    - no batch is empty, and ``counter`` equals the size of the batch while the updater works on it;
    - every batch but the last holds at least ``min_batch_size`` and fewer than ``min_batch_size + n`` items;
    - nobody collects while the updater works, so all items of a batch were made with the parameters that the
      batch before it left behind;
    - once ``coord.should_stop()``, whoever asked for it, no item is begun, all waits end within 0.1 s, and
      what is left (fewer than ``min_batch_size + n`` items) is delivered as the last batch;
    - an exception in ``make_item`` or ``work_on`` stops the run, is logged with its thread's name, and is
      raised where it happened. ``error`` keeps the first one: ``tf.train.Coordinator.join`` raises it too, but
      forgets one that comes after a clean stop.

    A worker is in flight from the moment it has passed ROLLING until it has put its item or failed. The
    last batch waits for those in flight, so an item that takes for ever holds up the end. A full batch
    is what sets UPDATE: workers that run out of work must ask for the stop, or the rest stays on the queue.

    ``rolling_event``, ``update_event``, ``queue`` and ``counter`` are there to be read; only this class changes them.
    """

    def __init__(self, coord: Coordinator, min_batch_size: int) -> None:
        if min_batch_size < 1:
            raise ValueError(f"min_batch_size must be at least 1, got {min_batch_size!r}")
        self.coord = coord
        self.min_batch_size = min_batch_size
        self.rolling_event = threading.Event()  # set: workers may collect
        self.update_event = threading.Event()  # set: a batch is complete and nobody is collecting
        self.queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.counter = 0  # items on the queue, or in the batch being worked on
        self.error: BaseException | None = None
        self._in_flight = 0
        self._lock = threading.Lock()  # of counter and _in_flight, and of the decisions taken on them
        self.rolling_event.set()

    def collect(self, make_item: Callable[[], Item]) -> bool:
        """Wait for ROLLING, then put what ``make_item()`` returns. False: the run is over, nothing was made."""
        try:
            if not self._set_out():
                return False
            n_items = 0
            try:
                self.queue.put(make_item())
                n_items = 1
            finally:
                self._land(n_items)
        except BaseException as error:
            self._fail(error)
            raise
        return True

    def update(self, work_on: Callable[[list[Item]], object]) -> bool:
        """Wait for UPDATE, then call ``work_on`` with the batch. False: the run is over, no items are left."""
        try:
            if not self._wait_for_batch():
                return False
            try:
                work_on([self.queue.get_nowait() for _ in range(self.counter)])
            finally:  # nobody is in flight, so no lock is needed
                self.counter = 0
                self.update_event.clear()
            self.rolling_event.set()
        except BaseException as error:
            self._fail(error)
            raise
        return True

    def _set_out(self) -> bool:
        while not self.coord.should_stop():
            if self.rolling_event.wait(POLL_SECONDS):
                # ROLLING may have been cleared, or the stop requested, since the wait returned. Asked again
                # under the lock, the answer holds until the updater sees this worker in flight.
                with self._lock:
                    if self.rolling_event.is_set() and not self.coord.should_stop():
                        self._in_flight += 1
                        return True
        return False

    def _land(self, n_items: int) -> None:
        with self._lock:
            self.counter += n_items
            self._in_flight -= 1
            if self.counter >= self.min_batch_size:
                self.rolling_event.clear()
                if self._in_flight == 0:
                    self.update_event.set()

    def _wait_for_batch(self) -> bool:
        while True:
            with self._lock:
                # Whoever is not in flight now will meet the same should_stop() and stay on the ground.
                if self._in_flight == 0 and self.coord.should_stop():
                    return self.counter > 0
            if self.update_event.wait(POLL_SECONDS):
                return True

    def _fail(self, error: BaseException) -> None:
        self.coord.request_stop(error)  # first of all: nothing that goes wrong below may keep the run from ending
        logger.error("%s failed: %r", threading.current_thread().name, error)
        with self._lock:
            if self.error is None:
                self.error = error
