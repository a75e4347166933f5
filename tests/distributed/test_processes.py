"""Worker processes on one machine: the same run as with threads, faults, and what is left behind."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from a3c_tf.api import resume, train
from a3c_tf.config import Config
from a3c_tf.distributed import network_namespace
from a3c_tf.distributed import processes as module
from a3c_tf.errors import RunError, UsageError
from tests import faulty
from tests.faulty import Env, Program, Raises, Slow, learnt, newest, rows, settings, start, tensors

__all__ = ["start"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
PRIVATE = network_namespace.refusal() is None
here = functools.partial(settings, processes=1, allow_open_port=not PRIVATE)
"""Settings of a run with processes; in a private network where that is permitted, else in the open."""
FOR_EVER = 10**6
Start = Callable[..., Program]


def children(program: int) -> dict[str, list[int]]:
    """Processes that the program has started, by what they are; the server was the first."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            ours = parent == program and b"a3c_tf.distributed.process_main" in (folder / "cmdline").read_bytes()
        except (OSError, IndexError):  # it ended just now
            continue
        if ours:
            found.append(int(folder.name))
    found.sort(key=lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]))
    return {"ps": found[:1], "workers": found[1:]}


def gone(pids: list[int], within: float = 10) -> bool:
    deadline = time.monotonic() + within
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(faulty, "START_SECONDS", 180)  # four processes import TensorFlow, not one
    yield
    assert children(os.getpid()) == {"ps": [], "workers": []}


def begun(start: Start, run: Path, number: int = 3, **changes: object) -> tuple[Program, dict[str, list[int]]]:
    program = start(run, **{"allow_open_port": not PRIVATE, "processes": 2, **changes})
    program.until_rows(number)
    return program, children(program.process.pid)


# the same run


def test_one_process_is_the_same_to_the_last_bit_as_one_thread(tmp_path: Path) -> None:
    """And each goes on from what the other saved."""
    for name, processes in (("threads", 0), ("processes", 1)):
        config = Config.for_env(**settings(tmp_path / name, max_episodes=6, allow_open_port=not PRIVATE))
        train(config, "none", processes=processes)
    resume(tmp_path / "threads", "none", env=Env, max_episodes=12, processes=1)
    resume(tmp_path / "processes", "none", env=Env, max_episodes=12, processes=0)
    assert rows(tmp_path / "threads") == rows(tmp_path / "processes")
    assert len(rows(tmp_path / "threads")) == 12
    ours, theirs = (learnt(newest(tmp_path / name)) for name in ("threads", "processes"))
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_array_equal(values, theirs[name], name)


@pytest.mark.parametrize(
    "budget", [pytest.param({"max_episodes": 25}, marks=pytest.mark.long), {"max_episodes": None, "max_steps": 243}]
)
def test_the_budget_is_exact_with_several_processes_of_several_threads(
    tmp_path: Path, budget: dict[str, int | None]
) -> None:
    config = Config.for_env(**here(tmp_path / "run", processes=2, workers=2, evaluation_interval=100, **budget))
    result = train(config, "none")
    told = rows(tmp_path / "run")
    assert [int(row["episode"]) for row in told] == list(range(len(told)))
    assert {row["worker"] for row in told} <= {"W_0", "W_1", "W_2", "W_3"}
    if budget["max_episodes"]:
        assert (len(told), result.steps) == (25, 250)
    else:
        assert result.steps == 243
    state = json.loads(tensors(newest(tmp_path / "run"))["run_state"])
    assert (state["episodes"], state["steps"]) == (len(told), result.steps)
    assert sum(state["worker_episodes"].values()) == len(told)
    assert list((tmp_path / "run" / "best").glob("model.ckpt-*.index"))


def test_the_settings_say_how_many() -> None:
    assert Config(processes=2).worker_count == 1
    assert Config().replace(processes=3).worker_count == 1
    assert Config(processes=2, workers=4).replace(processes=3).worker_count == 4
    with pytest.raises(UsageError, match="processes = -1: expected a whole number from 0"):
        Config(processes=-1)


# faults


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_stops_in_good_order_and_it_goes_on(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    run = tmp_path / "run"
    program, processes = begun(start, run, env="Slow", max_episodes=FOR_EVER)
    code, output = program.send(number).end(within=20)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], output
    assert "Traceback" not in output
    assert f" train --resume {run}" in output
    assert gone(processes["ps"] + processes["workers"])
    saved = json.loads(tensors(newest(run))["run_state"])["episodes"]
    assert saved == len(rows(run)) >= 3


def test_a_killed_worker_is_started_again_and_the_total_is_exact(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program, processes = begun(start, run, env="Slow", max_episodes=400)
    os.kill(processes["workers"][0], signal.SIGKILL)
    code, output = program.end()
    assert code == 0, output
    assert "process 0 (W_0) was killed by signal 9 (SIGKILL); it is started again" in output
    assert [int(row["episode"]) for row in rows(run)] == list(range(400))
    assert json.loads(tensors(newest(run))["run_state"])["episodes"] == 400


@pytest.mark.long
def test_it_is_started_again_a_given_number_of_times(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program, processes = begun(start, run, env="Slow", max_episodes=FOR_EVER, restarts=0)
    os.kill(processes["workers"][1], signal.SIGKILL)
    code, output = program.end(within=30)
    assert code == 1
    assert "process 1 (W_1) was killed by signal 9 (SIGKILL), and restarts = 0 are used up" in output.splitlines()[-1]
    assert "Traceback" not in output
    assert gone(processes["ps"] + processes["workers"])


def test_the_server_killed_ends_the_run_which_goes_on_from_its_checkpoint(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program, processes = begun(start, run, env="Slow", max_episodes=FOR_EVER)
    os.kill(processes["ps"][0], signal.SIGKILL)
    code, output = program.end(within=20)  # 10 s, and the same again for a busy machine
    assert code == 1
    told = [line for line in output.splitlines() if "parameter server" in line]
    assert len([line for line in told if line.startswith("error: ")]) == 1, output
    assert f"the parameter server (process {processes['ps'][0]}) was killed by signal 9 (SIGKILL)" in told[-1]
    assert "Traceback" not in output
    assert gone(processes["workers"])
    before = len(rows(run))
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "max_episodes": before + 3}))
    assert len(resume(run, "none", env=Slow).returns) == before + 3


def test_the_launcher_killed_leaves_no_orphan(start: Start, tmp_path: Path) -> None:
    program, processes = begun(start, tmp_path / "run", env="Slow", max_episodes=FOR_EVER)
    program.process.kill()
    program.process.wait()
    assert gone(processes["ps"] + processes["workers"])
    program.process.communicate()


@pytest.mark.long
def test_a_hanging_environment_is_killed_and_its_place_shown(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program, processes = begun(start, run, number=2, env="Hangs", max_episodes=FOR_EVER, processes=1)
    time.sleep(0.5)  # into the third episode
    code, output = program.send(signal.SIGINT).end(within=25)
    assert code == 1
    assert "process 0 (W_0) hangs; where, stands above" in output
    assert re.search(r"faulty\.py.*in fault", output)
    assert gone(processes["ps"] + processes["workers"])


def test_an_environments_failure_comes_out_with_its_worker_and_traceback(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="ZeroDivisionError: in the physics") as raised:
        train(Config.for_env(**here(tmp_path / "run", env=Raises)), "none")
    assert raised.value.__notes__ == ["in worker W_0, its episode 2, step 4"]
    assert "in fault" in str(raised.value.__cause__)
    assert len(rows(tmp_path / "run")) == 2


def test_what_cannot_be_pickled_is_refused_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Child", None)
    with pytest.raises(UsageError, match=r"env = .*<lambda>: cannot be pickled for the worker processes"):
        train(Config.for_env(**here(tmp_path / "run", env=lambda: Env())), "none")
    assert not (tmp_path / "run").exists()


# the private network


def test_without_a_private_network_it_is_refused_in_two_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_namespace, "refusal", lambda: "unshare: Operation not permitted")
    with pytest.raises(UsageError) as raised:
        train(Config.for_env(**here(tmp_path / "run", allow_open_port=False)), "none")
    assert len(str(raised.value).splitlines()) == 2
    assert "--allow-open-port" in str(raised.value)
    assert not (tmp_path / "run").exists()


def listening(process: str) -> set[int]:
    """Ports that are listened on in the network of a process."""
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()
    ]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A"}


@pytest.mark.skipif(not PRIVATE, reason="no private network namespaces here")
def test_nothing_can_be_reached_from_outside(start: Start, tmp_path: Path) -> None:
    before = listening("self")
    program, processes = begun(start, tmp_path / "run", env="Slow", max_episodes=FOR_EVER)
    inside = listening(str(processes["ps"][0]))
    assert inside, "the server listens"
    assert not inside & (listening("self") - before)
    networks = {Path(f"/proc/{pid}/ns/net").readlink() for pid in processes["ps"] + processes["workers"]}
    assert len(networks) == 1
    assert networks != {Path("/proc/self/ns/net").readlink()}
    devices = Path(f"/proc/{processes['ps'][0]}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    program.kill()


@pytest.mark.skipif(not PRIVATE or os.geteuid() != 0, reason="needs an administrator who becomes another user")
def test_a_user_without_rights_has_a_private_network_too() -> None:
    """As long as the system permits user namespaces; a second process joins it."""
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, **nobody)
    except (PermissionError, subprocess.CalledProcessError) as error:
        pytest.skip(f"another user cannot run this Python: {error}")
    if subprocess.run(["unshare", "--user", "--net", "true"], capture_output=True, **nobody).returncode:
        pytest.skip("the system permits no user namespaces")
    program = """
import os, subprocess, sys
from a3c_tf.distributed import network_namespace
network_namespace.enter_new()
other = "import os, sys; from a3c_tf.distributed import network_namespace; network_namespace.join(int(sys.argv[1]))"
other += "; print(os.readlink('/proc/self/ns/net'))"
done = subprocess.run([sys.executable, "-c", other, str(os.getpid())], capture_output=True, text=True)
print(os.geteuid(), done.stdout.strip() == os.readlink('/proc/self/ns/net'), done.stderr[-300:])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, **nobody)
    assert done.stdout.split() == ["65534", "True"], done.stderr
