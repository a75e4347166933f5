"""Items handed over per second by the handoff, beside a plain queue without turns: ``python benchmarks/handoff.py``.

An item is an int that costs nothing to make and a batch nothing to work on, so this is the price of the
mechanism alone. Each figure is the median of five runs; the table is Markdown.
"""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Callable

from a3c_tf.handoff import Handoff

N_ITEMS = 48_000
N_RUNS = 5
WORKERS = (1, 4, 16)
MIN_BATCH_SIZES = (10, 100, 1000)


class Stop:
    """As much of a Coordinator as the handoff needs."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.should_stop = self._event.is_set

    def request_stop(self, ex: object = None) -> None:
        self._event.set()


def by_handoff(n_workers: int, min_batch_size: int) -> float:
    """Items per second until N_ITEMS have been delivered; the stop that follows is not part of it."""
    stop = Stop()
    handoff: Handoff[int] = Handoff(stop, min_batch_size)
    n_taken = 0

    def collect() -> None:
        while handoff.collect(int):
            pass

    def take(batch: list[int]) -> None:
        nonlocal n_taken
        n_taken += len(batch)

    def update() -> None:
        while n_taken < N_ITEMS:
            handoff.update(take)

    seconds = seconds_of(update, collect, n_workers, stop)
    return n_taken / seconds


def by_queue(n_workers: int) -> float:
    stop = Stop()
    items: queue.Queue[int] = queue.Queue()

    def put() -> None:
        for _ in range(N_ITEMS // n_workers):
            items.put(0)

    def get() -> None:
        for _ in range(N_ITEMS):
            items.get()

    return N_ITEMS / seconds_of(get, put, n_workers, stop)


def seconds_of(take: Callable[[], None], put: Callable[[], None], n_workers: int, stop: Stop) -> float:
    """Seconds that ``take`` needs, in this thread, while ``put`` runs in n others."""
    threads = [threading.Thread(target=put) for _ in range(n_workers)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    take()
    seconds = time.perf_counter() - begun
    stop.request_stop()
    for thread in threads:
        thread.join()
    return seconds


def medians(n_workers: int) -> list[float]:
    """One figure a column. The columns are measured by turns, so that a busy moment touches them all."""
    runs = [[*(by_handoff(n_workers, size) for size in MIN_BATCH_SIZES), by_queue(n_workers)] for _ in range(N_RUNS)]
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def main() -> None:
    titles = ["workers", *(f"handoff, batches of {size}" for size in MIN_BATCH_SIZES), "plain `queue.Queue`"]
    print("|", " | ".join(titles), "|")
    print("|", " | ".join("---:" for _ in titles), "|")
    for n_workers in WORKERS:
        print("|", " | ".join([str(n_workers), *(f"{figure:,.0f}" for figure in medians(n_workers))]), "|", flush=True)


if __name__ == "__main__":
    main()
