"""Threads as tasks: each runs once, the first failure comes out and stops all, and who does not end is named."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from a3c_tf.errors import marked_place
from a3c_tf.graph.tf1 import tf
from a3c_tf.training.threads import EndedByForceError, HangingWorkerError, run_tasks


class Does:
    """A task that calls a function of its number."""

    def __init__(self, index: int, what: Callable[[int], Any]) -> None:
        self.name, self.place = f"task {index}", f"task {index}, step 7"
        self.work = lambda: what(index)


@pytest.fixture
def coordinator() -> Any:
    return tf.train.Coordinator(clean_stop_exception_types=[])


def run(number: int, coordinator: Any, what: Callable[[int], Any], look_after: Callable[[], Any] = int) -> None:
    run_tasks([Does(i, what) for i in range(number)], coordinator, look_after)  # type: ignore[arg-type]


def test_each_task_runs_once_in_a_thread_of_its_name(coordinator: Any) -> None:
    ran = []
    run(8, coordinator, lambda i: ran.append((i, threading.current_thread().name)))
    assert sorted(ran) == [(i, f"task {i}") for i in range(8)]


def test_it_waits_for_all(coordinator: Any) -> None:
    done = []

    def wait(i: int) -> None:
        time.sleep(0.1 * i)
        done.append(i)

    run(3, coordinator, wait)
    assert done == [0, 1, 2]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("one"),
        SystemExit(0),
        KeyboardInterrupt(),
        StopIteration(),
        tf.errors.OutOfRangeError(None, None, "end"),
    ],
)
def test_the_first_failure_comes_out_with_its_place_and_stops_the_others(
    coordinator: Any, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def work(i: int) -> None:
        if i == 1:
            raise error
        assert coordinator.wait_for_stop(5), "the others are stopped"

    with pytest.raises(type(error)) as raised:
        run(3, coordinator, work)
    assert raised.value is error
    assert marked_place(error) == "in task 1, step 7"
    assert "in task 1, step 7" in caplog.text


def test_a_second_failure_is_logged(coordinator: Any, caplog: pytest.LogCaptureFixture) -> None:
    both = threading.Barrier(2)

    def work(i: int) -> None:
        both.wait(5)
        raise ValueError(f"of task {i}")

    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="of task"):
        run(2, coordinator, work)
    assert "of task 0" in caplog.text
    assert "of task 1" in caplog.text


def test_an_exception_in_the_caller_stops_all_and_comes_out(coordinator: Any) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    stopped = []
    with pytest.raises(KeyboardInterrupt):
        run(3, coordinator, lambda i: stopped.append(coordinator.wait_for_stop(5)), interrupt)
    assert stopped == [True] * 3


def test_the_caller_looks_after_the_run_meanwhile(coordinator: Any) -> None:
    looked = threading.Semaphore(0)
    run(1, coordinator, lambda i: [looked.acquire(timeout=5) for _ in range(3)], looked.release)


@pytest.mark.parametrize("failure", [None, ValueError("the first")])
def test_who_does_not_end_is_named_with_where_it_hangs(coordinator: Any, failure: Exception | None) -> None:
    free = threading.Event()

    def hangs_here(i: int) -> None:
        if i:
            free.wait(10)
        elif failure:
            raise failure
        else:
            coordinator.request_stop()

    try:
        with pytest.raises(HangingWorkerError, match=r"worker task 1 hangs in:(.|\n)*hangs_here") as raised:
            run_tasks([Does(0, hangs_here), Does(1, hangs_here)], coordinator, int, grace_seconds=0.2)  # type: ignore[arg-type]
    finally:
        free.set()
    assert raised.value.__cause__ is failure


def test_what_was_ended_by_force_is_more_than_the_stop(coordinator: Any) -> None:
    def work(i: int) -> None:
        coordinator.wait_for_stop(5)
        raise EndedByForceError("process 0 was killed")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(EndedByForceError, match="process 0"):
        run(1, coordinator, work, interrupt)


def test_a_coordinator_can_be_used_again(coordinator: Any) -> None:
    ran: list[int] = []
    run(2, coordinator, ran.append)
    run(2, coordinator, ran.append)
    assert sorted(ran) == [0, 0, 1, 1]
