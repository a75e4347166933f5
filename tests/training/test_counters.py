"""Budgets are used exactly, however many threads draw on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from a3c_tf.training.counters import Counters
from tests.conftest import run_together


def test_the_running_return_starts_with_the_first_return() -> None:
    counters = Counters(10, None, 0.9)
    assert counters.finish_episode(-1000.0).running_return == -1000.0
    assert counters.finish_episode(-500.0).running_return == pytest.approx(0.9 * -1000 + 0.1 * -500)
    assert counters.running_return == pytest.approx(-950)


def test_the_decay_is_the_one_given() -> None:
    counters = Counters(10, None, 0.99)
    counters.finish_episode(0.0)
    assert counters.finish_episode(100.0).running_return == pytest.approx(1.0)


def test_finished_episodes_are_numbered_from_0() -> None:
    counters = Counters(3, None, 0.9)
    assert [counters.finish_episode(0.0).episode for _ in range(3)] == [0, 1, 2]
    assert counters.episodes == 3


def test_no_more_episodes_than_the_budget_can_be_claimed() -> None:
    counters = Counters(2, None, 0.9)
    assert [counters.claim_episode() for _ in range(4)] == [True, True, False, False]


def test_an_abandoned_episode_can_be_claimed_again() -> None:
    counters = Counters(1, None, 0.9)
    assert counters.claim_episode()
    counters.abandon_episode()
    assert counters.claim_episode()
    assert not counters.claim_episode()


def test_steps_are_handed_out_up_to_the_budget_and_counted_when_taken() -> None:
    counters = Counters(None, 25, 0.9)
    assert [counters.claim_steps(10), counters.claim_steps(10), counters.claim_steps(10)] == [10, 10, 5]
    assert counters.claim_steps(10) == 0
    assert counters.steps == 0
    counters.settle_steps(10, 10)
    counters.settle_steps(10, 3)
    assert counters.steps == 13
    assert counters.claim_steps(10) == 7, "what was claimed in vain is given back"


def test_without_a_step_left_no_episode_can_be_claimed() -> None:
    """Else a worker would claim episode after episode for ever."""
    counters = Counters(None, 10, 0.9)
    assert counters.claim_episode()
    counters.claim_steps(10)
    assert not counters.claim_episode()
    counters.settle_steps(10, 7)
    assert counters.claim_episode(), "three steps were given back"


def test_without_limits_everything_is_given() -> None:
    counters = Counters(None, None, 0.9)
    assert all(counters.claim_episode() for _ in range(1000))
    assert counters.claim_steps(10**9) == 10**9


def test_global_step_counts_the_steps_of_all_finished_rollouts() -> None:
    counters = Counters(5, None, 0.9)
    counters.settle_steps(counters.claim_steps(10), 10)
    counters.claim_steps(10)
    assert counters.finish_episode(1.0).global_step == 10


def test_many_threads_run_exactly_the_episodes_of_the_budget(switch_threads_at: Callable[[str], None]) -> None:
    counters, finished = Counters(40, None, 0.9), []

    def hammer(i: int) -> None:
        turn = 0
        while counters.claim_episode():
            turn += 1
            if turn % 3 == i % 3:
                counters.abandon_episode()
            else:
                finished.append(counters.finish_episode(1.0).episode)

    switch_threads_at("counters.py")
    run_together(8, hammer)
    assert sorted(finished) == list(range(40))
    assert counters.episodes == 40
    assert counters.running_return == pytest.approx(1.0)


def test_many_threads_take_exactly_the_steps_of_the_budget(switch_threads_at: Callable[[str], None]) -> None:
    counters, taken = Counters(None, 503, 0.9), []

    def hammer(i: int) -> None:
        while (claimed := counters.claim_steps(10)) > 0:
            used = max(1, claimed - (i + len(taken)) % 4)
            taken.append(used)
            counters.settle_steps(claimed, used)

    switch_threads_at("counters.py")
    run_together(8, hammer)
    assert sum(taken) <= 503
    while claimed := counters.claim_steps(10):  # what the last to settle gave back
        taken.append(claimed)
        counters.settle_steps(claimed, claimed)
    assert sum(taken) == 503
    assert counters.steps == 503
