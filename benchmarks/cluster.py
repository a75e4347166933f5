"""What processes cost and what they gain: ``python benchmarks/cluster.py``; ``--help`` for the parts.

The round trip: one packed push-and-pull of ``classic-adam`` on Pendulum, against a no-op by plain ``Session.run`` on
the same server, in turns, medians. The gain: steps per second of environments that cost time, from the moment at
which every worker has ended an episode, and so has pushed: starting the processes does not count. Tables are Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from costly import ComputingInPython, Costly, SleepingLonger

from a3c_tf.api import train
from a3c_tf.config import Config
from a3c_tf.distributed.local_networks import LocalNetworks
from a3c_tf.distributed.parameter_server import GlobalNetwork
from a3c_tf.environments.spaces import ActionSpec, ObservationSpec
from a3c_tf.runs.tables import read_columns

PENDULUM = ObservationSpec((3,)), ActionSpec((1,), (-2.0,), (2.0,))
N_CALLS = 4000
EPISODE = 50
"""steps of an episode"""
SERVER = """
import sys
from a3c_tf.distributed import parameter_server
print(parameter_server.serve("localhost:0"), flush=True)
sys.stdin.read()
"""


def microseconds(*calls: Callable[[], Any]) -> list[float]:
    """Median time of each of the calls, made in turns."""
    for call in calls:
        for _ in range(200):
            call()
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(N_CALLS):
        for call, times in zip(calls, taken, strict=True):
            begin = time.perf_counter()
            call()
            times.append(1e6 * (time.perf_counter() - begin))
    return [statistics.median(times) for times in taken]


def round_trip() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout
        config = Config.preset("classic-adam", processes=1, seed=0)
        network = GlobalNetwork(server.stdout.readline().strip(), config, *PENDULUM, timeout=60)
        local = LocalNetworks(config, *PENDULUM, [0])
        network.write(np.zeros(network.learnt_size, np.float32))
        calls = local.calls(0, network.pusher(0), network.pull, lambda *told: None)
        push = network.pusher(0)
        packet = np.zeros(network.packet_size, np.float32)
        rollout = [np.ones((5, n), np.float32) for n in (3, 1, 1)]
        no_op = network.session.raw.graph.get_operation_by_name("no_op")
        bare, trip, update = microseconds(
            lambda: network.session.run(no_op), lambda: push(packet), lambda: calls.update_global(*rollout)
        )
        network.session.close()
        server.kill()
    print("| call | median | times the no-op |\n|---|---:|---:|")
    for name, time_taken in (
        ("no-op, `Session.run`", bare),
        ("push and pull, one packet each way", trip),
        ("a worker's whole update: gradients, push and pull, assignment", update),
    ):
        print(f"| {name} | {time_taken:.0f} µs | {time_taken / bare:.2f} |")


def speed(env: type[Costly], processes: int, workers: int, episodes: int) -> float:
    """Steps per second from the moment at which every worker has finished an episode."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        settings = {"max_episodes": episodes, "max_episode_steps": EPISODE, "seed": 0, "log_dir": str(run)}
        train(Config.preset("general", env, processes=processes, workers=workers, **settings), "none")
        told = read_columns(run / "metrics.csv", "global_step")
    firsts = [int(np.argmax(told["worker"] == name)) for name in np.unique(told["worker"])]
    first, last = max(firsts), int(np.argmax(told["global_step"] == told["global_step"].max()))
    last = min(last, len(told["episode"]) - 1 - processes * workers)  # until the first of them has nothing left
    steps = told["global_step"][last] - told["global_step"][first]
    return float(steps / (told["wall_time"][last] - told["wall_time"][first]))


def gain(env: type[Costly], kinds: list[tuple[int, int]], seconds: float) -> None:
    """A row for each of ``kinds``, (processes, workers), with about ``seconds`` of training each."""
    print(f"| {env.__name__} | steps / s | times one process |\n|---|---:|---:|")
    base, alone = None, 0.010 if env is SleepingLonger else 0.005
    for processes, workers in kinds:
        at_once = max(processes, 1) * workers if env is SleepingLonger else max(processes, 1)
        found = speed(env, processes, workers, int(seconds * at_once / (EPISODE * alone)))
        base = base or found
        what = f"{processes} processes" if processes else f"{workers} threads"
        print(f"| {what} | {found:.0f} | {found / base:.2f} |", flush=True)


PARTS: dict[str, Callable[[], None]] = {
    "round-trip": round_trip,
    "computes": lambda: gain(ComputingInPython, [(1, 1), (2, 1), (0, 2)], seconds=15),
    "sleeps": lambda: gain(SleepingLonger, [(1, 1), (16, 1), (0, 16)], seconds=15),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)} (default: all)")
    for part in parser.parse_args().parts or PARTS:
        PARTS[part]()
        print()


if __name__ == "__main__":
    main()
