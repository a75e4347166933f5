"""Every promise of the handoff, with delays between any two of its steps.

The delays cost the handoff nothing: a test puts slow stand-ins in place of its Events, its queue and its
lock, and slow properties in place of its counts, so that even ``counter += 1`` has a before and an after.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable

import pytest

from a3c_tf import handoff as module
from a3c_tf.handoff import Handoff

LIMIT = 20.0
"""Seconds within which anything must end: far more than it takes, so that only a hang fails."""

Hook = Callable[[str], None]


class Coord:
    """As much of a Coordinator as the handoff may use, with the first exception kept."""

    def __init__(self, hook: Hook = lambda point: None) -> None:
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.hook = hook

    def should_stop(self) -> bool:
        answer = self.stop.is_set()
        self.hook("should_stop after")
        return answer

    def request_stop(self, ex: BaseException | None = None) -> None:
        if not self.stop.is_set():
            self.error = ex
        self.stop.set()


class Slow:
    """Calls the hook before and after each method of what it stands for."""

    def __init__(self, name: str, target: object, hook: Hook) -> None:
        self.name, self.target, self.hook = name, target, hook

    def __getattr__(self, method: str):
        def call(*args):
            self.hook(f"{self.name}.{method} before")
            result = getattr(self.target, method)(*args)
            self.hook(f"{self.name}.{method} after")
            return result

        return call

    def __enter__(self) -> None:
        self.hook(f"{self.name} before")
        self.target.__enter__()

    def __exit__(self, *exc_info) -> None:
        self.target.__exit__(*exc_info)
        self.hook(f"{self.name} after")


def slow_attribute(name: str) -> property:
    def get(self):
        value = self.__dict__[name]
        self.hook(f"{name} read")
        return value

    def put(self, value) -> None:
        self.__dict__[name] = value
        self.__dict__.setdefault("puts", []).append((name, value))

    return property(get, put)


class SlowHandoff(Handoff):
    hook: Hook = staticmethod(lambda point: None)
    counter = slow_attribute("counter")
    _in_flight = slow_attribute("_in_flight")
    error = slow_attribute("error")

    def __init__(self, coord: Coord, min_batch_size: int, hook: Hook) -> None:
        super().__init__(coord, min_batch_size)
        self.rolling_event = Slow("ROLLING", self.rolling_event, hook)
        self.update_event = Slow("UPDATE", self.update_event, hook)
        self.queue = Slow("queue", self.queue, hook)
        self._lock = Slow("lock", self._lock, hook)
        self.hook = hook


POINTS = [
    *(f"ROLLING.{method} {side}" for method in ("wait", "is_set", "clear", "set") for side in ("before", "after")),
    *(f"UPDATE.{method} {side}" for method in ("wait", "clear", "set") for side in ("before", "after")),
    *(f"queue.{method} {side}" for method in ("put", "get_nowait") for side in ("before", "after")),
    *("lock before", "lock after", "counter read", "_in_flight read", "should_stop after", "make", "work"),
]


class Run:
    """One run of n workers and an updater, in which the threads themselves check what must hold at each moment.

    ``on_item(number)`` is called as each item is made, ``on_batch(number)`` while each batch is worked on;
    both count from 1.
    """

    def __init__(
        self,
        n_workers: int,
        n_items: int,
        min_batch_size: int,
        hook: Hook = lambda point: None,
        on_item: Callable[[int], object] = lambda number: None,
        on_batch: Callable[[int], object] = lambda number: None,
    ) -> None:
        self.n_workers, self.n_items, self.hook = n_workers, n_items, hook
        self.on_item, self.on_batch = on_item, on_batch
        self.coord = Coord(hook)
        self.handoff: Handoff = SlowHandoff(self.coord, min_batch_size, hook)
        self.lock = threading.Lock()
        self.n_made = self.n_left = 0
        self.version = 0  # of the parameters: one more after each update
        self.updating = False
        self.put: list[list[tuple]] = [[] for _ in range(n_workers)]
        self.batches: list[list[tuple]] = []

    def work(self, wid: int) -> None:
        try:
            for index in range(self.n_items):
                item: list[tuple] = []
                if not self.handoff.collect(lambda index=index, item=item: self.make(wid, index, item)):
                    return
                self.put[wid] += item
        finally:
            with self.lock:
                self.n_left += 1
                if self.n_left == self.n_workers:
                    self.coord.request_stop()

    def make(self, wid: int, index: int, keep: list[tuple]) -> tuple:
        item = (wid, index, self.version)
        with self.lock:
            self.n_made += 1
            number = self.n_made
        self.on_item(number)
        self.hook("make")
        assert not self.updating, "an item was made during an update"
        assert item[2] == self.version
        keep.append(item)
        return item

    def update(self) -> None:
        while self.handoff.update(self.work_on):
            pass

    def work_on(self, batch: list[tuple]) -> None:
        self.updating = True
        self.batches.append(batch)
        assert batch
        assert self.handoff.counter == len(batch)
        assert self.handoff.queue.qsize() == 0
        assert {version for _, _, version in batch} == {self.version}
        self.on_batch(len(self.batches))
        self.hook("work")
        assert self.handoff.counter == len(batch)
        assert self.handoff.queue.qsize() == 0
        self.version += 1
        self.updating = False

    def start(self) -> None:
        targets = [(self.update, ()), *((self.work, (wid,)) for wid in range(self.n_workers))]
        self.threads = [
            threading.Thread(target=quietly, args=(target, *args), name=f"T_{i}", daemon=True)
            for i, (target, args) in enumerate(targets)
        ]
        for thread in self.threads:
            thread.start()

    def join(self) -> Run:
        deadline = time.monotonic() + LIMIT
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        assert not [thread.name for thread in self.threads if thread.is_alive()], "these threads hang"
        return self

    def check(self) -> Run:
        """What must hold after any run whose updater did not fail."""
        assert self.coord.error is self.handoff.error
        taken = [item for batch in self.batches for item in batch]
        for wid in range(self.n_workers):
            assert [item for item in taken if item[0] == wid] == self.put[wid]
        assert len(taken) == sum(map(len, self.put))
        low, high = self.handoff.min_batch_size, self.handoff.min_batch_size + self.n_workers
        assert all(low <= len(batch) < high for batch in self.batches[:-1])
        assert all(1 <= len(batch) < high for batch in self.batches[-1:])
        return self

    def complete(self) -> Run:
        """Run to the end; every worker must have put all its items."""
        self.start()
        self.join().check()
        assert self.handoff.error is None
        assert [len(items) for items in self.put] == [self.n_items] * self.n_workers
        return self


def quietly(target: Callable, *args) -> None:
    """An exception comes out of ``collect`` and ``update`` too; here it has been noted already."""
    with contextlib.suppress(AssertionError, BoomError, KeyboardInterrupt):
        target(*args)


class BoomError(Exception):
    pass


def boom_at(moment: int) -> Callable[[int], None]:
    def boom(number: int) -> None:
        if number == moment:
            raise BoomError(number)

    return boom


@pytest.mark.parametrize("seed", range(200))
def test_random_settings(seed):
    rng = random.Random(seed)
    n_workers, n_items = rng.randint(1, 8), rng.randint(0, 20)
    hook = random_delays(seed) if seed % 2 else lambda point: None
    run = Run(n_workers, n_items, rng.choice([1, rng.randint(2, 12), 1000]), hook)
    stop_at = rng.randint(1, 60)  # often after the end, so that both kinds of end are met
    stopper = rng.choice(["on_item", "on_batch"])
    setattr(run, stopper, lambda number: run.coord.request_stop() if number == stop_at else None)
    run.start()
    run.join().check()
    assert run.handoff.error is None


def random_delays(seed: int) -> Hook:
    rng = random.Random(seed)

    def hook(point: str) -> None:
        if rng.random() < 0.1:
            time.sleep(rng.random() * 0.002)

    return hook


@pytest.mark.parametrize(("n_workers", "n_items", "min_batch_size"), [(1, 20, 3), (4, 15, 5), (8, 4, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_delays_at_random(seed, n_workers, n_items, min_batch_size):
    Run(n_workers, n_items, min_batch_size, random_delays(seed)).complete()


@pytest.mark.parametrize("slow", ["all", "one", "updater"])
@pytest.mark.parametrize("point", POINTS)
def test_a_delay_at_each_point_in_turn(point, slow):
    names = {"all": {"T_0", "T_1", "T_2", "T_3"}, "one": {"T_1"}, "updater": {"T_0"}}[slow]

    def hook(here: str) -> None:
        if here == point and threading.current_thread().name in names:
            time.sleep(0.004)

    Run(3, 4, 3, hook).complete()


def test_the_points_are_those_that_are_passed():
    passed = set()
    Run(3, 5, 4, passed.add).complete()
    assert passed - {"queue.qsize before", "queue.qsize after", "error read"} == set(POINTS)  # those are the test's own


@pytest.mark.parametrize(
    ("n_workers", "n_items", "min_batch_size", "n_batches"),
    [(1, 50, 1, 50), (1, 50, 7, 8), (1, 50, 1000, 1), (64, 20, 10, None), (64, 1, 1, None), (64, 5, 10**9, 1)],
)
def test_corners(n_workers, n_items, min_batch_size, n_batches):
    run = Run(n_workers, n_items, min_batch_size).complete()
    assert n_batches is None or len(run.batches) == n_batches


def test_the_parameters_named_in_a_batch_are_those_the_batch_before_left():
    run = Run(4, 50, 10).complete()
    assert [batch[0][2] for batch in run.batches] == list(range(len(run.batches)))
    assert len(run.batches) > 1


def test_nothing_put_nothing_delivered():
    assert Run(3, 0, 5).complete().batches == []


@pytest.mark.parametrize("size", [0, -1])
def test_a_minimum_below_one_is_refused(size):
    with pytest.raises(ValueError, match=f"min_batch_size must be at least 1, got {size}"):
        Handoff(Coord(), size)


# A thread held at one point, while the others go on as far as they can.


class Gate:
    """A hook that holds one thread the first time it comes to one point."""

    def __init__(self, thread: str, point: str) -> None:
        self.thread, self.point = thread, point
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, point: str) -> None:
        here = threading.current_thread().name == self.thread and point == self.point
        if here and not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(LIMIT)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_worker_that_wakes_after_rolling_was_cleared_waits_for_the_next_turn():
    gate = Gate("T_1", "ROLLING.wait after")
    done = threading.Event()
    run = Run(2, 5, 3, gate, on_batch=lambda number: done.wait(LIMIT) if number == 1 else None)
    run.start()
    wait_until(lambda: len(run.batches) == 1)  # made by the other worker alone
    gate.opened.set()
    time.sleep(0.1)  # let the late one do harm if it can
    done.set()
    run.join().check()
    assert run.handoff.error is None
    assert {wid for wid, _, _ in run.batches[0]} == {1}


def test_a_worker_that_wakes_after_the_last_batch_makes_nothing():
    gate = Gate("T_1", "ROLLING.wait after")
    run = Run(2, 5, 100, gate, on_item=lambda number: run.coord.request_stop() if number == 3 else None)
    run.start()
    run.threads[0].join(LIMIT)
    assert [len(batch) for batch in run.batches] == [3]
    gate.opened.set()
    run.join().check()
    assert run.n_made == 3


@pytest.mark.parametrize("point", ["_in_flight read", "make", "queue.put before", "queue.put after", "counter read"])
def test_the_last_batch_waits_for_those_in_flight(point):
    gate = Gate("T_1", point)
    run = Run(1, 5, 100, gate)
    run.start()
    assert gate.reached.wait(LIMIT)
    run.coord.request_stop()
    time.sleep(3 * module.POLL_SECONDS)  # the updater has looked up by now, or is waiting for the lock
    assert run.threads[0].is_alive()
    gate.opened.set()
    run.join().check()
    assert [len(batch) for batch in run.batches] == [1]


def test_an_update_waits_for_those_in_flight():
    gate = Gate("T_1", "make")
    run = Run(2, 5, 3, gate)
    run.start()
    wait_until(lambda: run.handoff.counter >= 3 and not run.handoff.rolling_event.is_set())
    time.sleep(2 * module.POLL_SECONDS)
    assert run.batches == []
    assert not run.handoff.update_event.is_set()
    gate.opened.set()
    run.join().check()
    assert len(run.batches[0]) == 4


# Stops


def parked(n_workers: int, hook: Hook = lambda point: None) -> tuple[Run, threading.Event]:
    """A run whose workers wait for ROLLING and whose updater is in the middle of a batch until the Event is set."""
    go_on = threading.Event()
    run = Run(n_workers, 1000, 1, hook, on_batch=lambda number: go_on.wait(LIMIT))
    run.start()
    wait_until(lambda: run.updating)
    return run, go_on


def test_a_bare_request_stop_wakes_all_within_a_tenth_of_a_second():
    seconds = []
    for _ in range(5):  # the best of five: one slow answer may be the machine's
        run, go_on = parked(4)
        begun = time.monotonic()
        run.coord.stop.set()
        for thread in run.threads[1:]:
            thread.join(LIMIT)
        seconds.append(time.monotonic() - begun)
        go_on.set()
        run.join().check()
    assert min(seconds) < 0.1


def test_a_bare_request_stop_wakes_an_updater_that_has_nothing_to_do():
    seconds = []
    for _ in range(5):
        coord = Coord()
        thread = threading.Thread(target=Handoff(coord, 1).update, args=(list,), daemon=True)
        thread.start()
        begun = time.monotonic()
        coord.stop.set()
        thread.join(LIMIT)
        seconds.append(time.monotonic() - begun)
    assert min(seconds) < 0.1


def test_waits_are_timed_and_never_busy():
    waits = []
    run, go_on = parked(4, hook=lambda point: waits.append(point) if point == "ROLLING.wait before" else None)
    assert 0.02 <= module.POLL_SECONDS <= 0.1
    waits.clear()
    time.sleep(0.5)
    assert len(waits) <= 4 * (0.5 / module.POLL_SECONDS + 2)  # fewer on a busy machine, never more
    run.coord.stop.set()
    go_on.set()
    run.join().check()


def test_the_update_wait_is_timed_and_never_busy():
    waits = []
    coord = Coord()
    handoff = SlowHandoff(coord, 1, lambda point: waits.append(point) if point == "UPDATE.wait before" else None)
    thread = threading.Thread(target=handoff.update, args=(list,), daemon=True)
    thread.start()
    time.sleep(0.5)
    assert len(waits) <= 0.5 / module.POLL_SECONDS + 2
    coord.stop.set()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_after_the_end_nothing_is_begun():
    run = Run(2, 5, 3).complete()
    assert not run.handoff.collect(pytest.fail)
    assert not run.handoff.update(pytest.fail)


# Failures


@pytest.mark.parametrize("moment", [1, 2, 7, 19])
def test_a_worker_that_raises_ends_the_run_and_loses_nothing(moment, caplog):
    run = Run(4, 25, 5, on_item=boom_at(moment))
    run.start()
    run.join().check()
    assert isinstance(run.coord.error, BoomError)
    assert sum(map(len, run.put)) < 100
    assert f"failed: BoomError({moment})" in caplog.text
    assert "T_" in caplog.text


def test_a_full_batch_is_delivered_though_the_last_in_flight_raises():
    gate = Gate("T_1", "make")
    run = Run(2, 5, 3, gate, on_batch=lambda number: run.coord.request_stop())
    run.make = failing_for_worker_0(run, run.make)
    run.start()
    wait_until(lambda: run.handoff.counter >= 3)
    gate.opened.set()
    run.join().check()
    assert isinstance(run.handoff.error, BoomError)
    assert [len(batch) for batch in run.batches] == [3]


def failing_for_worker_0(run: Run, make: Callable) -> Callable:
    def fails(wid, index, keep):
        item = make(wid, index, keep)
        if wid == 0:
            raise BoomError
        return item

    return fails


@pytest.mark.parametrize("moment", [1, 2, 4])
def test_an_updater_that_raises_ends_the_run_and_nothing_is_made_for_it_any_more(moment, caplog):
    run = Run(4, 25, 5, random_delays(moment), on_batch=boom_at(moment))
    run.start()
    run.join()
    assert isinstance(run.coord.error, BoomError)
    assert run.handoff.error is run.coord.error
    assert len(run.batches) == moment
    assert run.handoff.queue.qsize() == 0
    assert "T_0 failed: BoomError" in caplog.text
    assert not run.handoff.update(pytest.fail)


def test_no_item_is_made_between_a_failed_update_and_its_stop():
    """A stop that takes its time must not leave a gap in which workers collect for an updater that is gone."""
    run = Run(4, 25, 5)
    made = []

    def fail(number: int) -> None:
        made.append(run.n_made)
        raise BoomError

    run.on_batch = fail
    stop_at_once = run.coord.request_stop
    run.coord.request_stop = lambda ex=None: (time.sleep(0.1), stop_at_once(ex))
    run.start()
    run.join()
    assert made == [run.n_made]
    assert run.handoff.queue.qsize() == run.handoff.counter == 0


def test_what_was_raised_comes_out_where_it_was_raised():
    handoff, error = Handoff(Coord(), 1), BoomError()
    handoff.collect(int)
    with pytest.raises(BoomError) as from_update:
        handoff.update(lambda batch: throw(error))
    with pytest.raises(BoomError) as from_collect:
        Handoff(Coord(), 1).collect(lambda: throw(error))
    assert from_update.value is from_collect.value is error


def throw(error: BaseException) -> None:
    raise error


def test_an_error_in_the_last_batch_after_a_clean_stop_is_kept():
    run = Run(2, 3, 100, on_batch=boom_at(1))
    run.start()
    run.join()
    assert run.coord.error is None  # as tf.train.Coordinator has it
    assert isinstance(run.handoff.error, BoomError)
    assert not run.handoff.update(pytest.fail)


def test_of_two_failures_the_first_is_kept_and_both_are_logged(caplog):
    both = threading.Barrier(2)

    def fail(number: int) -> None:
        both.wait(LIMIT)
        raise BoomError(number)

    run = Run(2, 3, 100, lambda point: time.sleep(0.02) if point == "error read" else None, on_item=fail)
    run.start()
    run.join()
    assert [error for name, error in run.handoff.puts if name == "error"] == [None, run.handoff.error]
    assert "BoomError(1)" in caplog.text
    assert "BoomError(2)" in caplog.text


@pytest.mark.parametrize("point", ["UPDATE.wait before", "lock before", "UPDATE.clear after", "ROLLING.set before"])
def test_ctrl_c_in_an_updating_thread_ends_the_run(point):
    """Python raises it in the main thread, wherever that is; here it is raised in the updater's."""

    def hook(here: str) -> None:
        if here == point and threading.current_thread().name == "T_0":
            raise KeyboardInterrupt

    run = Run(2, 1000, 5, hook)
    run.start()
    run.join()
    assert isinstance(run.coord.error, KeyboardInterrupt)


def test_ctrl_c_in_a_waiting_worker_ends_the_run():
    def hook(here: str) -> None:
        if here == "ROLLING.wait before" and threading.current_thread().name == "T_1":
            raise KeyboardInterrupt

    run = Run(2, 1000, 5, hook)
    run.start()
    run.join().check()
    assert isinstance(run.coord.error, KeyboardInterrupt)
