"""Environments that answer nonsense, raise or hang: nothing wrong is learnt, and the failure is told in full."""

from __future__ import annotations

import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.api import resume, train
from a3c_tf.commands.exit_codes import exit_code
from a3c_tf.config import Config
from a3c_tf.environments.environment import WrongAnswerError
from a3c_tf.errors import RunError
from a3c_tf.graph.tf1 import tf
from a3c_tf.runs.checkpoint import find_checkpoints
from a3c_tf.training import threads, trainer
from a3c_tf.training.threads import HangingWorkerError
from tests.faulty import Env, OwnInterrupt, learnt, raising, rows, settings


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "_draw", lambda run: None)


def train_small(run: Path, env: Any, **changes: Any) -> Any:
    return train(Config.for_env(**settings(run, env=env, **changes)), "none")


def no_worker_is_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("W_")]


# not finite


def wrong(position: int, value: Any) -> type[Env]:
    """Answers ``value`` in the place of the observation's second number, or of the reward."""

    class Wrong(Env):
        def fault(self, *answer: Any) -> tuple[Any, ...]:
            parts = list(answer)
            if position == 0:
                parts[0][1] = value
            else:
                parts[1] = value
            return tuple(parts)

    return Wrong


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("position", "field"), [(0, "observation"), (1, "reward")])
def test_what_is_not_finite_ends_the_run_before_it_is_learnt(
    tmp_path: Path, position: int, field: str, value: float, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    with pytest.raises(FloatingPointError, match=rf"expected finite numbers, got {field} {value} in the last") as told:
        train_small(run, wrong(position, value))
    assert told.value.__notes__ == ["in worker W_0, its episode 2, step 8"]
    assert "W_0" in caplog.text
    assert no_worker_is_left()
    prefixes = find_checkpoints(run / "checkpoints")
    assert [prefix.name for prefix in prefixes] == ["model.ckpt-20", "model.ckpt-0"]
    for prefix in prefixes:
        for name, values in learnt(prefix).items():
            assert np.isfinite(values).all(), name
    assert len(rows(run)) == 2
    factory = type("Wrong", (Env,), {"__module__": __name__, "__qualname__": "wrong.<locals>.Wrong"})
    assert len(resume(run, "none", env=factory).returns) == 8, "the mended environment goes on"


def test_a_nan_in_the_first_observation_is_found_too(tmp_path: Path) -> None:
    class Unready(Env):
        def observation(self) -> np.ndarray:
            return np.full(3, np.nan, np.float32)

    with pytest.raises(FloatingPointError, match="got observation nan"):
        train_small(tmp_path / "run", Unready)


def test_the_program_tells_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: train_small(tmp_path / "run", wrong(1, np.nan))) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: in worker W_0, its episode 2, step 8: expected finite numbers, got reward nan")


# of the wrong form


def answering(call: str, answer: Any) -> type[Env]:
    return type("Answers", (Env,), {call: lambda self, *a, **named: answer})


OBSERVATION = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("call", "answer", "told"),
    [
        ("reset", np.zeros((3, 1)), r"reset\(\) must return an observation of shape \(3,\), got shape \(3, 1\)"),
        ("reset", (OBSERVATION, {}, 1), r"reset\(\) must return an observation or \(observation, info\), got .* 3"),
        ("reset", np.array(["a", "b", "c"]), "and real numbers, got dtype <U1"),
        ("reset", np.zeros(3, complex), "and real numbers, got dtype complex128"),
        ("step", (OBSERVATION, {}), r"\(observation, reward, terminated, truncated, info\), got a tuple of 2"),
        ("step", ((OBSERVATION, {}), 0.0, False, False, {}), r"an observation of shape \(3,\), got"),
        ("step", OBSERVATION, r"\(observation, reward, terminated, truncated, info\), got ndarray"),
        ("step", None, "got NoneType"),
        ("step", (OBSERVATION, None, False, False, {}), "a number as reward, got NoneType None"),
        ("step", (OBSERVATION, "1", False, False, {}), "a number as reward, got str '1'"),
        ("step", (OBSERVATION, np.zeros(2), False, False, {}), "a number as reward, got ndarray"),
        ("step", (OBSERVATION, False, 1.5, False, {}), "True or False after the reward, got float 1.5"),
        ("step", (OBSERVATION, 0.0, "no", False, {}), "True or False after the reward, got str 'no'"),
        ("step", (OBSERVATION, 0.0, False, True), "a dict as its last part, got bool"),
    ],
)
def test_a_wrong_answer_is_found_at_once(tmp_path: Path, call: str, answer: Any, told: str) -> None:
    env = answering(call, answer)()
    with pytest.raises(WrongAnswerError, match=f"environment .*{told}") as error:
        train_small(tmp_path / "run", lambda: env)
    assert error.value.__notes__ == ["in worker W_0, its episode 0, step 0"]
    assert isinstance(error.value, ValueError)


def test_a_form_that_changes_later_is_found_too(tmp_path: Path) -> None:
    class Changes(Env):
        def fault(self, *answer: Any) -> tuple[Any, ...]:
            return np.zeros((3, 1)), *answer[1:]

    with pytest.raises(WrongAnswerError, match=r"got shape \(3, 1\)"):
        train_small(tmp_path / "run", Changes)


# raising


ERRORS = [ZeroDivisionError("x"), StopIteration(1), GeneratorExit(), SystemExit(0), SystemExit("x"), OwnInterrupt(),
          KeyboardInterrupt(), MemoryError(), tf.errors.OutOfRangeError(None, None, "x"), OSError(28, "x")]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_is_raised_stops_all_workers_and_comes_out(
    tmp_path: Path, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    raised: list[BaseException] = []

    def main() -> int:
        try:
            train_small(run, raising(error), workers=2, max_episodes=10**6)
        except BaseException as out:
            raised.append(out)
            raise
        return 0

    assert exit_code(main) == 1, "and never 0 or 130, whatever the environment raises"
    assert raised == [error]
    assert no_worker_is_left()
    told = capsys.readouterr().err
    assert type(error).__name__ in told
    assert "in fault" in "".join(traceback.format_tb(error.__traceback__)), "the traceback leads into the environment"
    assert [note for note in error.__notes__ if "in worker W_" in note]  # type: ignore[attr-defined]
    assert len(find_checkpoints(run / "checkpoints")) == 2, "saved at its end"
    del error.__notes__


def test_an_evaluation_that_exits_is_a_failure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last evaluation as well, which follows the workers' end."""
    made = []

    class Second(Env):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def step(self, action: np.ndarray) -> tuple[Any, ...]:
            if self is made[1]:
                raise SystemExit(0)
            return super().step(action)

    changes = {"evaluation_interval": 10**6, "evaluation_episodes": 1}
    assert exit_code(lambda: train_small(tmp_path / "run", Second, **changes)) == 1
    assert len(rows(tmp_path / "run")) == 8


def test_of_two_failures_both_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    both = threading.Barrier(2)

    class Together(Env):
        def fault(self, *answer: Any) -> tuple[Any, ...]:
            both.wait(60)
            raise ZeroDivisionError(threading.current_thread().name)

    with pytest.raises(ZeroDivisionError, match=r"W_[01]"):
        train_small(tmp_path / "run", Together, workers=2, max_episodes=100)
    logged = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sorted(text[: len("in worker W_0")] for text in logged) == ["in worker W_0", "in worker W_1"]
    assert all("ZeroDivisionError" in text for text in logged)


# hanging


def test_a_hanging_worker_is_named_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the stop is another worker's failure, which is told as the cause."""
    monkeypatch.setattr(threads, "GRACE_SECONDS", 0.5)
    hung, go_on = threading.Event(), threading.Event()
    made = []

    class HangsOrRaises(Env):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def fault(self, *answer: Any) -> tuple[Any, ...]:
            if self is made[0]:
                hung.set()
                go_on.wait(100)
                return answer
            hung.wait(100)
            raise ZeroDivisionError("in the physics")

    run = tmp_path / "run"
    with pytest.raises(HangingWorkerError, match=r"(?s)worker W_0 hangs in:.*line \d+, in fault\n") as raised:
        train_small(run, HangsOrRaises, workers=2, max_episodes=100)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert isinstance(raised.value, RunError)
    assert len(find_checkpoints(run / "checkpoints")) == 2
    go_on.set()


def test_a_long_evaluation_is_not_taken_for_a_hanging_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops when a worker fails, and is made again after the resume."""
    monkeypatch.setattr(threads, "GRACE_SECONDS", 2.0)
    evaluating = threading.Event()
    made: list[Env] = []

    class Endless(Env):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)
            self.length = 10 if self in made[:2] else 10**9

        def step(self, action: np.ndarray) -> tuple[Any, ...]:
            if self is made[1]:
                evaluating.wait(100)
                raise ZeroDivisionError
            if self.length > 10:
                evaluating.set()
                time.sleep(0.001)
            return super().step(action)

    with pytest.raises(ZeroDivisionError):
        train_small(
            tmp_path / "run", Endless, workers=2, max_episodes=99, evaluation_interval=10, evaluation_episodes=1
        )
    assert rows(tmp_path / "run", "evaluations.csv") == []
