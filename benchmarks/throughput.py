"""Steps per second, beside what the environment alone allows and beside plain ``Session.run``.

python benchmarks/throughput.py            a quarter of an hour
python benchmarks/throughput.py --quick    about a minute: fewer repeats, shorter runs, 1, 2 and 8 workers

Everything is measured by turns in one run, so that a slow moment of the machine touches all alike, and each
ratio is the median of the ratios within one turn. The recipe is ``classic`` on Pendulum-v1; training is
``train`` with all that it writes.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import gym
import numpy as np
from costly import Computing, Costly, Sleeping

from a3c_tf.algorithms.a3c import A3CLearner, WorkerACNet
from a3c_tf.algorithms.build import build_graph
from a3c_tf.algorithms.calls import NetCalls, worker_calls
from a3c_tf.api import train
from a3c_tf.config import Config
from a3c_tf.environments.make import make_env
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import Episode
from a3c_tf.training import crew, trainer
from a3c_tf.training.counters import Counters
from a3c_tf.training.worker import Worker

ENV = "Pendulum-v1"
EPISODE = 200
"""steps of an episode"""


class StartClock(Costly):
    """Tells when its first step comes, and ends the program."""

    def cost(self) -> None:
        print(time.time(), flush=True)
        os._exit(0)


class PlainSession:
    """A session with TensorFlow's own settings, as the original opens it."""

    def __init__(self, graph: Any) -> None:
        self.raw = tf.Session(graph=graph)
        self.run, self.close, self.graph = self.raw.run, self.raw.close, graph

    def call(self, fetches: Any, feeds: Any = (), targets: Any = ()) -> Callable[..., list[Any]]:
        wanted = [list(fetches), list(targets)]
        return lambda *arrays: self.raw.run(wanted, dict(zip(feeds, arrays, strict=True)))[0]


def plain_calls(net: WorkerACNet, session: PlainSession) -> NetCalls:
    """A local network's calls as the original makes them: the push in one ``Session.run``, the pull in another."""
    pushes, pull = [net.update_a_op, net.update_c_op], session.call([], [], net.pull_op)
    push = session.call([], net.rollout, pushes)
    push_and_report = session.call(list(net.report.values()), net.rollout, pushes)
    value = session.call([net.v], [net.s])

    def then_pull(call: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        return lambda *arrays: (call(*arrays), pull())[0]

    return NetCalls(
        noise_size=int(net.noise.shape[1]),
        choose_action=session.call([net.A], [net.s, net.noise]),
        value=lambda observations: value(observations)[0],
        update_global=then_pull(push),
        update_global_and_report=lambda *rollout: dict(
            zip(net.report, then_pull(push_and_report)(*rollout), strict=True)
        ),
        pull_global=pull,
    )


@contextlib.contextmanager
def plain_session_run() -> Iterator[None]:
    with mock.patch.object(trainer, "Session", PlainSession), mock.patch.object(crew, "worker_calls", plain_calls):
        yield


def environment_alone(episodes: int) -> float:
    """Steps per second of a bare loop, without any of ours around it."""
    env = gym.make(ENV, disable_env_checker=True).unwrapped
    action = np.zeros(1, np.float32)
    begun = time.perf_counter()
    for episode in range(episodes):
        env.reset(seed=episode)
        for _ in range(EPISODE):
            env.step(action)
    return episodes * EPISODE / (time.perf_counter() - begun)


def training(workers: int, steps: int, env: Any = ENV) -> float:
    """Steps per second of ``train``, building and saving not included."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"env": env, "workers": workers, "seed": 0, "log_dir": f"{folder}/run", "max_episode_steps": EPISODE}
        result = train(Config(**settings, max_episodes=None, max_steps=steps), show="none")
    return result.steps / result.seconds


def plain_training(workers: int, steps: int) -> float:
    with plain_session_run():
        return training(workers, steps)


@contextlib.contextmanager
def one_network(config: Config) -> Iterator[NetCalls]:
    """The calls of one worker's network, outside of a training."""
    env = make_env(ENV)
    built = build_graph(config, env.observation_spec, env.action_spec)
    with built.graph.as_default():
        initializer = tf.global_variables_initializer()
    session = Session(built.graph)
    session.run(initializer)
    yield worker_calls(built.worker_nets[0], session)
    session.close()


class OneEpisode(Counters):
    """A ledger with room for one episode, of which nothing is recorded."""

    def __init__(self) -> None:
        super().__init__(max_episodes=1, max_steps=None, running_return_decay=0.9)
        self.worker_episodes: dict[str, int] = {}

    def should_stop(self) -> bool:
        return False

    def episode(self, episode: Episode, report: dict[str, float]) -> None:
        pass


def where_a_step_goes(episodes: int) -> dict[str, float]:
    """Microseconds that each part adds to a step of one worker: medians over episodes, in turns."""
    config, env = Config(workers=1, seed=0), make_env(ENV)
    with one_network(config) as calls:
        python = NetCalls(
            noise_size=1,
            choose_action=lambda observation, noise: [noise],
            value=lambda observations: observations,
            update_global=lambda *rollout: None,
            update_global_and_report=lambda *rollout: {},
            pull_global=list,
        )
        acting = dataclasses.replace(python, choose_action=calls.choose_action)
        judging = dataclasses.replace(acting, value=calls.value)
        nets: dict[str, Any] = {"its Python": python, "choose_action": acting, "value": judging, "update_global": calls}
        times = defaultdict(list)
        for _ in range(episodes):
            times["the environment alone"].append(EPISODE / environment_alone(1))
            for name, net in nets.items():
                worker = Worker(0, config, env, net, A3CLearner(config, net, lambda: 0), OneEpisode())
                begun = time.perf_counter()
                worker.work()
                times[name].append(time.perf_counter() - begun)
    sums = [1e6 / EPISODE * statistics.median(seconds) for seconds in times.values()]
    return {name: more - less for name, less, more in zip(times, [0.0, *sums], sums, strict=False)}


def door_calls(repeats: int) -> dict[str, float]:
    """Microseconds of each call between two steps of the environment, as in training: the median."""
    env = make_env(ENV)
    states, column = np.zeros((10, 3), np.float32), np.zeros((10, 1), np.float32)
    env.reset(0)
    times = defaultdict(list)
    with one_network(Config(workers=1, seed=0)) as calls:
        measured: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
            "choose_action": (calls.choose_action, (states[:1], column[:1])),
            "value": (calls.value, (states[:1],)),
            "update_global, 10 steps": (calls.update_global, (states, column, column)),
            "pull_global": (calls.pull_global, ()),
        }
        for _ in range(repeats):
            for name, (call, arrays) in measured.items():
                env.step(column[0])
                begun = time.perf_counter()
                call(*arrays)
                times[name].append(time.perf_counter() - begun)
    return {name: 1e6 * statistics.median(seconds) for name, seconds in times.items()}


def in_process_of_its_own(code: str) -> str:
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import throughput; {code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()[
        -1
    ]


def seconds_to_first_step() -> float:
    begun = time.time()
    return float(in_process_of_its_own("throughput.training(1, 10, throughput.StartClock)")) - begun


def resident(workers: int) -> float:
    """MB that a process holds after some training."""
    code = f"throughput.training({workers}, {1000 * workers}); print(throughput.resident_now())"
    return float(in_process_of_its_own(code))


def growth(steps: int) -> float:
    """MB that a process grows by over ``steps`` steps of one training, its first tenth not counted."""
    code = f"print(throughput.growth_here({steps}))"
    return float(in_process_of_its_own(code))


def growth_here(steps: int) -> float:
    seen = []

    class Watched(type(make_env(ENV)._raw)):  # type: ignore[misc]
        def reset(self, **settings: Any) -> Any:
            seen.append(resident_now())
            return super().reset(**settings)

    training(1, steps, Watched)
    return seen[-1] - seen[len(seen) // 10]


def resident_now() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(quick: bool) -> dict[str, Any]:
    workers = (1, 2, 8) if quick else (1, 2, 4, 8, 16)
    repeats, steps = (2, 6_000) if quick else (5, 40_000)
    jobs: dict[str, Callable[[], float]] = {"environment alone": partial(environment_alone, steps // EPISODE)}
    for n in workers:
        jobs[f"training, {_workers(n)}"] = partial(training, n, steps)
        jobs[f"plain Session.run, {_workers(n)}"] = partial(plain_training, n, steps // 4)
    for n in (1, 16):
        jobs[f"environment that sleeps 2 ms, {_workers(n)}"] = partial(training, n, n * steps // 16, Sleeping)
    for n in (1, 2):
        jobs[f"environment that computes 1 ms, {_workers(n)}"] = partial(training, n, n * steps // 16, Computing)
    grown = 100_000 if quick else 1_000_000
    found: dict[str, Any] = {
        "door call, microseconds": door_calls(300 if quick else 3000),
        "a step of one worker, microseconds": where_a_step_goes(30 if quick else 200),
        "seconds from process start to first step": [seconds_to_first_step() for _ in range(repeats)],
        "resident MB, by workers": {n: [resident(n) for _ in range(1 if quick else 3)] for n in (1, 16)},
        "growth": {"steps": grown, "MB": growth(grown)},
    }
    turns: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            turns[name].append(job())
            print(f"{name}: {turns[name][-1]:,.0f} steps / s", file=sys.stderr)
    return {"steps per second": turns, **found}


def _workers(number: int) -> str:
    return "1 worker" if number == 1 else f"{number} workers"


def table(found: dict[str, Any]) -> str:
    turns = found["steps per second"]

    def ratio(name: str, base: str) -> str:
        if base not in turns or name == base:
            return ""
        return f"{statistics.median(a / b for a, b in zip(turns[name], turns[base], strict=True)):.3g}"

    lines = [
        "|  | steps / s | × environment alone | × plain Session.run | × one worker |",
        "| --- " + "| ---: " * 4 + "|",
    ]
    for name, figures in turns.items():
        what, _, workers = name.partition(", ")
        known = what in ("training", "plain Session.run")
        cells = [
            f"{statistics.median(figures):,.0f}",
            ratio(name, "environment alone") if known else "",
            ratio(name, f"plain Session.run, {workers}") if what == "training" else "",
            ratio(name, f"{what}, 1 worker"),
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    step = found["a step of one worker, microseconds"]
    lines += ["", f"| of a worker's {sum(step.values()):.0f} µs a step |  |", "| --- | ---: |"]
    lines += [f"| {name} | {value:.1f} µs |" for name, value in step.items()]
    lines += ["", "| also |  |", "| --- | ---: |"]
    lines += [f"| `{name}` | {value:.0f} µs |" for name, value in found["door call, microseconds"].items()]
    start = statistics.median(found["seconds from process start to first step"])
    one, sixteen = (statistics.median(found["resident MB, by workers"][n]) for n in (1, 16))
    lines += [
        f"| from process start to the first step | {start:.1f} s |",
        f"| memory with 1 worker | {one:.0f} MB |",
        f"| memory of each further worker, of 16 | {(sixteen - one) / 15:.1f} MB |",
        f"| growth over {found['growth']['steps']:,} steps | {found['growth']['MB']:.1f} MB |",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute instead of fifteen")
    parser.add_argument("--json", type=Path, help="file for every figure of every turn")
    given = parser.parse_args()
    found = measure(given.quick)
    print(f"Python {platform.python_version()}, TensorFlow {tf.__version__}, {os.cpu_count()} CPUs\n\n{table(found)}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
