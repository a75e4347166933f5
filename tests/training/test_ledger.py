"""The ledger: a row for each finished episode in order, the snapshot that belongs to it, evaluations when due."""

from __future__ import annotations

from typing import Any

import pytest

from a3c_tf.records import Episode, FinishedEpisode, RunState
from a3c_tf.training.ledger import Ledger
from tests.conftest import run_together, small_config


class Log:
    """In place of metrics, checkpointer and evaluation: writes down what it is given."""

    def __init__(self) -> None:
        self.rows: list[FinishedEpisode] = []
        self.workers: list[str] = []
        self.snapshots: list[RunState] = []
        self.evaluated: list[tuple[int, int]] = []
        self.evaluated_at = 0
        self.stops = False

    def wall_time(self) -> float:
        return 2.5

    def episode(self, episode: Episode, count: FinishedEpisode, report: dict[str, float]) -> None:
        self.rows.append(count)
        self.workers.append(episode.worker)

    def snapshot(self, state: RunState) -> None:
        self.snapshots.append(state)

    def evaluate(self, global_step: int, steps_before: int, should_stop: Any) -> int | None:
        self.evaluated.append((global_step, steps_before))
        if self.stops:
            return None
        self.evaluated_at = global_step
        return steps_before + 1000


def ledger(log: Any, state: RunState | None = None, evaluated: bool = False, **changes: Any) -> Ledger:
    config = small_config(**{"max_episodes": 10**6, "evaluation_interval": 100 if evaluated else None, **changes})
    return Ledger(config, log, log, log if evaluated else None, state or RunState(), lambda: False)


def finish(books: Ledger, worker: str = "W_0", episode_return: float = 0.0, steps: int = 0) -> None:
    books.claim_episode()
    books.settle_steps(books.claim_steps(steps), steps)
    books.episode(Episode(worker, episode_return, steps), {})


def test_an_episode_is_a_row_and_a_snapshot() -> None:
    log = Log()
    books = ledger(log, running_return_decay=0.9)
    finish(books, "W_1", -100.0, 20)
    finish(books, "W_0", 0.0, 5)
    assert log.rows == [FinishedEpisode(0, -100.0, 20), FinishedEpisode(1, -90.0, 25)]
    assert log.snapshots[1] == RunState(25, 2, -90.0, 2.5, {"W_1": 1, "W_0": 1}, 0, 0)


def test_it_goes_on_where_a_state_stands() -> None:
    log = Log()
    state = RunState(40, 4, -10.0, 1.0, {"W_0": 4}, 3000, 150)
    books = ledger(log, state, evaluated=True, max_episodes=5, running_return_decay=0.5)
    assert books.state() == RunState(40, 4, -10.0, 2.5, {"W_0": 4}, 3000, 150)
    finish(books, "W_0", 10.0, 2)
    assert log.rows == [FinishedEpisode(4, 0.0, 42)]
    assert books.worker_episodes == {"W_0": 5}
    assert state.worker_episodes == {"W_0": 4}, "the state it began from stays"
    assert not books.claim_episode()


def test_rows_of_many_workers_stand_in_their_order_with_their_snapshots(switch_threads_at: Any) -> None:
    switch_threads_at("training/ledger.py")
    log = Log()
    books = ledger(log)

    def finish_many(worker: int) -> None:
        for _ in range(25):
            finish(books, f"W_{worker}", 0.0, 1)

    run_together(8, finish_many)
    assert [row.episode for row in log.rows] == list(range(200))
    assert books.worker_episodes == {f"W_{i}": 25 for i in range(8)}
    for state in log.snapshots:
        assert state.episodes == sum(state.worker_episodes.values()), "nothing between a row and its snapshot is lost"


def test_an_evaluation_is_made_each_interval_and_before_the_snapshot() -> None:
    log = Log()
    books = ledger(log, evaluated=True)
    for _ in range(5):
        finish(books, steps=60)
    assert log.evaluated == [(120, 0), (240, 1000), (300, 2000)]
    assert [state.evaluation_steps for state in log.snapshots] == [0, 1000, 1000, 2000, 3000]
    assert [state.next_evaluation for state in log.snapshots] == [100, 200, 200, 300, 400]


def test_after_a_stop_within_an_evaluation_nothing_is_saved() -> None:
    log = Log()
    books = ledger(log, evaluated=True)
    finish(books, steps=60)
    log.stops = True
    finish(books, steps=60)
    assert len(log.snapshots) == 1, "a resume goes on before the episode, and evaluates again"


@pytest.mark.parametrize(("evaluated_at", "more"), [(60, 0), (40, 1)])
def test_the_end_is_evaluated_once(evaluated_at: int, more: int) -> None:
    log = Log()
    books = ledger(log, RunState(steps=60), evaluated=True)
    log.evaluated_at = evaluated_at
    books.last_evaluation()
    assert len(log.evaluated) == more
    books.finish()
    assert log.snapshots == [books.state()]


def test_without_evaluations_the_end_needs_none() -> None:
    log = Log()
    ledger(log).last_evaluation()
    assert not log.evaluated
