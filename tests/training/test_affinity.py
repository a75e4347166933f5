"""The CPU that the workers of a cheap environment share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.algorithms.calls import NetCalls
from a3c_tf.api import train
from a3c_tf.environments.environment import Environment
from a3c_tf.environments.make import make_env
from a3c_tf.training import affinity
from a3c_tf.training.affinity import CHEAP_STEP_SECONDS, CpuSharing, SharedCpu, TimedEnvironment
from tests.conftest import ToyEnv, small_config

SEVERAL = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs Linux and two CPUs"
)
CHEAP = CHEAP_STEP_SECONDS / 2


def in_a_thread(look: Callable[[], None]) -> None:
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()


def cpus_of(shared: SharedCpu, step_seconds: float | None) -> tuple[set[int], set[int]]:
    """The CPUs allowed to a thread while it is kept and afterwards."""
    seen: list[set[int]] = []

    def look() -> None:
        cpus = shared.keep(shared.all_cpus, step_seconds)
        seen.append(os.sched_getaffinity(0))
        assert cpus == seen[-1]
        assert shared.keep(cpus, None) == shared.all_cpus
        seen.append(os.sched_getaffinity(0))

    in_a_thread(look)
    return seen[0], seen[1]


@SEVERAL
def test_threads_of_a_cheap_environment_share_a_cpu_and_are_let_go() -> None:
    everywhere, shared = os.sched_getaffinity(0), SharedCpu()
    within = [cpus_of(shared, CHEAP) for _ in range(3)]
    assert all(len(cpus) == 1 and afterwards == everywhere for cpus, afterwards in within)
    assert len({frozenset(cpus) for cpus, _ in within}) == 1
    assert os.sched_getaffinity(0) == everywhere


@SEVERAL
@pytest.mark.parametrize("chosen", [os.SCHED_OTHER, os.SCHED_BATCH] if hasattr(os, "SCHED_BATCH") else [])
def test_kept_threads_let_each_other_finish_unless_the_user_chose_a_policy(chosen: int) -> None:
    seen: list[int] = []

    def look() -> None:
        os.sched_setscheduler(0, chosen, os.sched_param(0))
        shared = SharedCpu()
        cpus = shared.all_cpus
        for step_seconds in (None, CHEAP, None):
            cpus = shared.keep(cpus, step_seconds)
            seen.append(os.sched_getscheduler(0))

    in_a_thread(look)
    assert seen == [chosen, os.SCHED_BATCH, chosen]


@SEVERAL
@pytest.mark.parametrize("step_seconds", [None, 2 * CHEAP_STEP_SECONDS])
def test_a_costly_environment_keeps_all_cpus(step_seconds: float | None) -> None:
    everywhere = os.sched_getaffinity(0)
    assert cpus_of(SharedCpu(), step_seconds) == (everywhere, everywhere)


@pytest.mark.parametrize("missing", ["choice", "figures", "permission"])
def test_where_it_cannot_be_done_nothing_is(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    if missing == "choice":
        monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    elif missing == "figures":
        monkeypatch.setattr(Path, "read_text", refuse)
    else:
        monkeypatch.setattr(os, "sched_setaffinity", refuse, raising=False)
    shared = SharedCpu()
    shared.keep(shared.all_cpus, CHEAP)
    shared.look_around()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, float], float], None]:
    """A machine of three CPUs: for a second, each is idle for a part of it and the calling thread busy for another."""
    now = {"clock": 0.0, "ours": 0.0, "idle": {0: 0.0, 1: 0.0, 2: 0.0}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.setattr(affinity, "_idle_seconds", lambda: dict(now["idle"]))  # type: ignore[call-overload]
    monkeypatch.setattr(affinity.random, "choice", lambda cpus: 1)  # type: ignore[attr-defined]
    monkeypatch.setattr(affinity.random, "uniform", lambda low, high: 0.5)  # type: ignore[attr-defined]
    monkeypatch.setattr(time, "monotonic", lambda: now["clock"])
    monkeypatch.setattr(time, "thread_time", lambda: now["ours"])
    monkeypatch.setattr(time, "process_time", lambda: now["clock"])  # of TensorFlow's threads too, which are elsewhere

    def second(idle: dict[int, float], ours: float) -> None:
        now["clock"] += 1.0  # type: ignore[operator]
        now["ours"] += ours  # type: ignore[operator]
        now["idle"] = {cpu: now["idle"][cpu] + part for cpu, part in idle.items()}  # type: ignore[index]

    return second


@pytest.mark.parametrize(
    ("idle", "ours", "expected"),
    [
        pytest.param({0: 1.0, 1: 0.0, 2: 1.0}, 1.0, 1, id="all-ours"),
        pytest.param({0: 0.6, 1: 0.0, 2: 0.9}, 0.5, 2, id="shared-with-another"),
        pytest.param({0: 0.1, 1: 0.0, 2: 0.3}, 0.5, 1, id="no-room-elsewhere"),
        pytest.param({0: 1.0, 1: 0.9, 2: 1.0}, 0.1, 1, id="idle-itself"),
    ],
)
def test_it_moves_away_from_other_programs(
    idle: dict[int, float],
    ours: float,
    expected: int,
    machine: Callable[[dict[int, float], float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    shared = SharedCpu()
    machine(idle, ours)
    shared.keep({0, 1, 2}, CHEAP)
    shared.look_around()
    assert shared._cpu == expected


def test_a_thread_is_moved_only_when_it_must_be(
    machine: Callable[[dict[int, float], float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[set[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: moves.append(set(cpus)), raising=False)
    shared = SharedCpu()
    cpus, kept = shared.all_cpus, []

    def keep(*step_seconds: float | None) -> None:
        nonlocal cpus
        for seconds in step_seconds:
            cpus = shared.keep(cpus, seconds)
            kept.append(cpus)

    keep(None, CHEAP, CHEAP)
    machine({0: 1.0, 1: 0.0, 2: 0.5}, 0.0)
    shared.look_around()
    keep(CHEAP, 2 * CHEAP_STEP_SECONDS, CHEAP, None)
    assert kept == [{0, 1, 2}, {1}, {1}, {0}, {0, 1, 2}, {0}, {0, 1, 2}]
    assert moves == [{1}, {0}, {0, 1, 2}, {0}, {0, 1, 2}]


def test_figures_that_are_missing_once_end_no_training(
    machine: Callable[[dict[int, float], float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedCpu()
    read = affinity._idle_seconds
    for figures in (dict, read, read):
        monkeypatch.setattr(affinity, "_idle_seconds", figures)
        machine({0: 1.0, 1: 0.0, 2: 0.5}, 0.0)
        shared.look_around()
    assert shared._cpu == 0


def test_only_an_allowed_cpu_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3}, raising=False)
    monkeypatch.setattr(affinity, "_idle_seconds", lambda: dict.fromkeys(range(4), 0.0))
    assert {SharedCpu()._cpu for _ in range(50)} == {2, 3}


def test_it_looks_around_only_now_and_then(machine: Callable[[dict[int, float], float], None]) -> None:
    shared = SharedCpu()
    machine({0: 1.0, 1: 0.0, 2: 0.5}, 0.0)
    shared.look_around()
    assert shared._cpu == 0
    shared.look_around()  # no time has passed: nothing to divide by
    assert shared._cpu == 0


def test_the_first_steps_of_each_episode_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    raw = make_env("Pendulum-v1")
    env = TimedEnvironment(raw, lambda: calls.append("before"), lambda: calls.append("after"))
    pace = 0.001
    ticks = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) * pace)
    assert env.step_seconds is None
    for pace in (0.001, 0.004):
        env.reset(0)
        ticks = iter(range(10**6))
        for _ in range(30):
            env.step(np.zeros(1, np.float32))
        assert env.step_seconds == pytest.approx(pace)
        assert env.step == raw.step, "nothing more is timed"
    assert calls == ["before", "after"] * 2


class FakeShared:
    """Gives one CPU to those whose steps are cheap, and notes what it was asked."""

    all_cpus: set[int] = {0, 1}  # noqa: RUF012

    def __init__(self) -> None:
        self.asked: list[float | None] = []

    def keep(self, cpus: set[int], step_seconds: float | None) -> set[int]:
        self.asked.append(step_seconds)
        return {1} if step_seconds is not None and step_seconds <= CHEAP_STEP_SECONDS else {0, 1}


def test_a_worker_is_kept_from_its_reset_to_its_episodes_last_update() -> None:
    shared = FakeShared()
    net = NetCalls(1, list, np.asarray, lambda *rollout: None, lambda *rollout: {}, list)  # type: ignore[arg-type]
    sharing = CpuSharing(shared, Environment(ToyEnv(), "toy"), net)  # type: ignore[arg-type]
    sharing.env.step_seconds = CHEAP
    sharing.env.reset(0)
    sharing.net.update_global()
    sharing.net.update_global_and_report()
    assert shared.asked == [None, CHEAP, CHEAP, None], "let go for the reset, and between two episodes"


class Watched(ToyEnv):
    """Remembers which CPUs are allowed to whoever calls it."""

    seen: dict[str, set[int]] = {}  # noqa: RUF012  # of all workers together

    def reset(self, **settings: Any) -> Any:
        self.seen.setdefault("reset", set()).add(len(os.sched_getaffinity(0)))
        return super().reset(**settings)

    def step(self, action: np.ndarray) -> Any:
        self.seen.setdefault("step", set()).add(len(os.sched_getaffinity(0)))
        return super().step(action)


@SEVERAL
@pytest.mark.parametrize("workers", [1, 2])
def test_only_the_steps_of_several_workers_share_a_cpu(workers: int, tmp_path: Path) -> None:
    everywhere = len(os.sched_getaffinity(0))
    Watched.seen.clear()
    train(small_config(env=Watched, workers=workers, max_episodes=20, log_dir=str(tmp_path / "run")), show="none")
    assert Watched.seen["reset"] == {everywhere}
    assert Watched.seen["step"] == ({everywhere} if workers == 1 else {everywhere, 1})
    assert len(os.sched_getaffinity(0)) == everywhere
