"""Both sides of a run with processes, without any: the chief and its view of a process, and the worker's ledger."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from a3c_tf.config import Config
from a3c_tf.distributed import worker_process
from a3c_tf.distributed.channels import (
    HangingProcessError,
    ProcessLostError,
    RemoteError,
    ServerGoneError,
    ServerLostError,
    WorkerError,
)
from a3c_tf.distributed.chief import Chief
from a3c_tf.distributed.remote_ledger import LEASE_ROLLOUTS, RemoteLedger
from a3c_tf.distributed.worker_process import WorkerProcess
from a3c_tf.distributed.worker_side import failure
from a3c_tf.errors import RunError
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import Episode
from a3c_tf.training.counters import Counters
from tests.conftest import small_config

SPECS = "the spaces"
EPISODE = Episode("W_0", -3.0, 7)


class Books(Counters):
    """A ledger that only counts, and remembers what it was given."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.max_episodes, config.max_steps, config.running_return_decay)
        self.worker_episodes = {"W_0": 4}
        self.reported: list[tuple[Episode, dict[str, float]]] = []

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        self.finish_episode(episode.episode_return)
        self.reported.append((episode, report))


class Server:
    """A parameter server's counts of steps; the mirror takes them as they are."""

    target = "grpc://server"

    def __init__(self) -> None:
        self.pushed = np.zeros(4, np.int64)
        self.stopped = 0
        self.lost: Exception | None = None

    def read(self) -> Any:
        return self.pushed.copy()

    def take(self, state: np.ndarray) -> np.ndarray:
        return state

    def request_stop(self) -> None:
        self.stopped += 1

    def check(self) -> None:
        if self.lost:
            raise self.lost


class Line:
    """A channel whose messages are written down before. An exception among them is what happens then."""

    def __init__(self, *messages: Any) -> None:
        self.messages = deque(messages)
        self.answers: list[tuple[int, Any]] = []
        self.ended = False

    def receive(self, seconds: float) -> tuple[int, list[Any]] | None:
        message = self.messages.popleft() if self.messages else None
        if isinstance(message, Exception):
            raise message
        return message

    def answer(self, worker: int, answer: Any) -> None:
        self.answers.append((worker, answer))

    def end(self) -> None:
        self.ended = True

    def where_it_hangs(self) -> str:
        return " in a sleep"


class Run:
    """A chief, its books and its server, with two processes of two workers."""

    def __init__(self, **changes: Any) -> None:
        self.config = small_config(**{"processes": 2, "workers": 2, "seed": None, **changes})
        self.server, self.books = Server(), Books(self.config)
        self.chief = Chief(self.config, self.server, self.server, SPECS, 100, {"W_0": 3})  # type: ignore[arg-type]
        self.lines: list[Line] = []

    def process(self, *lines: Line, external: bool = False) -> WorkerProcess:
        """The first process; it is started once for each of ``lines``."""
        waiting: Iterator[Line] = iter(lines)

        def start() -> Line:
            self.lines.append(next(waiting))
            return self.lines[-1]

        return WorkerProcess(0, self.chief, start, external)

    def begun(self, *lines: Line, external: bool = False) -> WorkerProcess:
        self.chief.open(self.books)  # type: ignore[arg-type]
        return self.process(*lines, external=external)


def joining(*messages: Any) -> Line:
    """A process whose two workers join, before the messages."""
    return Line((0, ["hello", {"specs": SPECS}]), (0, ["ready"]), (1, ["ready"]), *messages)


DONE = (0, ["done"]), (1, ["done"])


def test_who_joins_is_told_what_it_must_know() -> None:
    run = Run(seed=5)
    line = joining()
    run.process(line).join()
    welcome = {"target": "grpc://server", "seed": 5, "steps": 100, "episodes": {"W_0": 3}}
    assert line.answers == [(0, welcome), (0, True), (1, True)]


def test_another_environment_may_not_join() -> None:
    process = Run().process(Line((0, ["hello", {"specs": "others"}])))
    with pytest.raises(RunError, match="another environment: expected the spaces, got others"):
        process.join()


def test_a_process_that_ends_before_it_has_joined_says_what_a_program_needs() -> None:
    process = Run().process(Line(ProcessLostError("was killed")))
    with pytest.raises(RunError, match=r"process 0 \(W_0, W_1\) was killed before it had joined.*__main__"):
        process.join()


def test_a_process_that_does_not_join_in_time_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "START_SECONDS", -1.0)
    with pytest.raises(RunError, match="has not joined"):
        Run().process(Line()).join()


def test_a_worker_that_asks_before_it_has_joined_is_given_up() -> None:
    line = Line((0, ["claim_steps", 5]), *joining().messages, *DONE)
    Run().begun(line).work()
    assert line.answers[0] == (0, "given up")


def test_an_episode_is_claimed_reported_and_counted() -> None:
    run = Run(max_episodes=1)
    line = joining((0, ["claim_episode"]), None, (0, ["episode", [*EPISODE], {"loss/actor": 0.5}]), *DONE)
    run.server.pushed[0] = 7
    run.begun(line).work()
    assert line.answers[3] == (0, True)
    assert run.books.reported == [(EPISODE, {"loss/actor": 0.5})]
    assert (run.books.episodes, run.books.steps) == (1, 7)
    assert line.ended


def test_no_is_said_only_when_no_episode_can_come_back() -> None:
    run = Run(max_episodes=1)
    assert run.books.claim_episode(), "a worker of another process has it"
    line = joining((0, ["claim_episode"]), None, None)
    process = run.begun(line)
    for _ in range(6):
        process._serve_once()
    assert len(line.answers) == 3, "it waits"
    run.books.finish_episode(0.0)
    process._serve_once()
    assert line.answers[3] == (0, False)


def test_an_episode_that_comes_back_goes_to_who_waits() -> None:
    run = Run(max_episodes=1)
    run.books.claim_episode()
    line = joining((0, ["claim_episode"]))
    process = run.begun(line)
    for _ in range(4):
        process._serve_once()
    run.books.abandon_episode()
    process._serve_once()
    assert line.answers[3] == (0, True)


def test_steps_are_leased_and_what_is_left_comes_back() -> None:
    run = Run(max_episodes=None, max_steps=10)
    line = joining((0, ["claim_steps", 8]), (1, ["claim_steps", 8]), *DONE)
    run.server.pushed[:2] = 5, 2
    run.begun(line).work()
    assert [answer for _, answer in line.answers[3:5]] == [8, 2]
    assert run.books.steps == 7
    assert run.books.claim_steps(99) == 3


def test_a_killed_process_gives_back_what_it_held_and_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(max_episodes=2, restarts=1)
    killed = joining((0, ["claim_episode"]), None, ProcessLostError("was killed by SIGKILL"))
    again = joining((0, ["claim_episode"]), (1, ["claim_episode"]), None, *DONE)
    with caplog.at_level(logging.WARNING):
        run.begun(killed, again).work()
    assert killed.ended
    assert [answer for _, answer in again.answers[3:5]] == [True, True], "both episodes can be claimed again"
    assert "was killed by SIGKILL; it is started again" in caplog.text


def test_more_kills_than_restarts_end_the_run() -> None:
    run = Run(restarts=1)
    process = run.begun(joining(ProcessLostError("was killed")), joining(ProcessLostError("was killed")))
    with pytest.raises(RunError, match="was killed, and restarts = 1 are used up"):
        process.work()


def test_a_machine_that_is_lost_may_join_again_however_often(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(restarts=0)
    lines = [joining(ProcessLostError("is lost")), joining(ProcessLostError("is lost")), joining(*DONE)]
    with caplog.at_level(logging.WARNING):
        run.begun(*lines, external=True).work()
    assert len(run.lines) == 3
    assert caplog.text.count("may join again") == 2


def test_a_stop_reaches_the_server_once_and_who_waits_is_told_no() -> None:
    run = Run()
    line = joining((0, ["claim_episode"]), *DONE)
    run.begun(line).serve(lambda: len(line.answers) > 2).work()
    assert run.server.stopped == 1
    assert line.answers[3] == (0, False)


def test_a_process_that_does_not_stop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "STOP_SECONDS", 0.0)
    line = joining()
    process = Run().begun(line).serve(lambda: len(line.answers) > 2)
    with pytest.raises(HangingProcessError, match=r"process 0 \(W_0, W_1\) hangs in a sleep"):
        process.work()


FAILURES: dict[str, tuple[Callable[[], BaseException], type[Exception], str]] = {
    "a refusal": (lambda: RunError("the reward is not finite"), type(None), "the reward is not finite"),
    "anything else": (lambda: ZeroDivisionError("oh"), RemoteError, "ZeroDivisionError: oh"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_workers_failure_comes_out_with_its_place_and_its_traceback(case: str) -> None:
    made, cause, message = FAILURES[case]
    line = joining((1, ["failed", *failure(made(), "W_1, episode 3, step 7")]))
    process = Run().begun(line)
    with pytest.raises(WorkerError) as raised:
        process.work()
    assert str(raised.value) == message
    assert isinstance(raised.value.__cause__, cause)
    assert process.place == "W_1, episode 3, step 7"


def test_a_lost_server_is_reported_by_one_thread_only(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = failure(tf.errors.UnavailableError(None, None, "no connection"), "W_0")
    run = Run()
    process = run.begun(joining((0, ["failed", *gone])))
    run.server.check = iterate(None, None, None, None, ServerGoneError())  # type: ignore[method-assign]
    process.work()  # another thread reports it

    monkeypatch.setattr(worker_process, "STOP_SECONDS", 0.1)
    with pytest.raises(ServerLostError, match="does not answer a worker: no connection"):
        Run().begun(joining((0, ["failed", *gone]))).work()


def iterate(*values: Exception | None) -> Callable[[], None]:
    waiting = iter(values)

    def call() -> None:
        if error := next(waiting, None):
            raise error

    return call


# the worker's side


class Asks:
    """A chief that remembers the questions and gives the answers written down."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.questions = list(answers), []  # type: ignore[var-annotated]

    def __call__(self, *question: Any) -> Any:
        self.questions.append(question)
        return self.answers.pop(0)


def ledger(asks: Asks, **budget: Any) -> RemoteLedger:
    return RemoteLedger(asks, small_config(**budget), 100, {"W_0": 3})


def test_steps_are_claimed_for_many_rollouts_at_once() -> None:
    asks = Asks(12, 0)
    remote = ledger(asks, max_episodes=None, max_steps=1000)
    taken = []
    for _ in range(4):
        claimed = remote.claim_steps(5)
        remote.settle_steps(claimed, claimed)
        taken.append(claimed)
    assert taken == [5, 5, 2, 0]
    assert asks.questions == [("claim_steps", 5 * LEASE_ROLLOUTS)] * 2


def test_steps_claimed_in_vain_are_there_for_the_next_rollout_of_the_episode_only() -> None:
    asks = Asks(10, True, 10)
    remote = ledger(asks, max_episodes=None, max_steps=1000)
    remote.settle_steps(remote.claim_steps(5), 2)
    assert remote.claim_steps(99) == 8
    assert remote.claim_episode()
    remote.claim_steps(5)
    assert [question[0] for question in asks.questions] == ["claim_steps", "claim_episode", "claim_steps"]


def test_without_a_budget_of_steps_nobody_is_asked() -> None:
    asks = Asks()
    remote = ledger(asks, max_episodes=10)
    assert remote.claim_steps(5) == 5
    remote.settle_steps(5, 5)
    assert not asks.questions


def test_a_pull_brings_the_steps_of_all_and_the_stop() -> None:
    remote = ledger(Asks())
    assert (remote.steps, remote.should_stop()) == (100, False)
    remote.on_pull(25, True)
    assert (remote.steps, remote.should_stop()) == (125, True)


def test_episodes_are_reported_and_given_back_by_asking() -> None:
    asks = Asks(True, True)
    remote = ledger(asks)
    remote.episode(EPISODE, {"loss/actor": 1.0})
    remote.abandon_episode()
    assert asks.questions == [("episode", EPISODE, {"loss/actor": 1.0}), ("abandon_episode",)]
