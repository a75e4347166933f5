"""``a3c-tf cluster``: its file, whom it lets in, and two hosts with addresses of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a3c_tf.distributed import machines
from a3c_tf.distributed.cluster_file import ClusterFile
from a3c_tf.errors import UsageError
from tests.faulty import ROOT, newest, rows, settings, tensors

FOR_EVER = 10**6
pytestmark = pytest.mark.timeout(600)  # four programs import TensorFlow in each of the long ones


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


def write_spec(folder: Path, ps: str, run: str = "test", **changes: Any) -> Path:
    told = settings(folder / "run", env="tests.faulty:Slow", processes=2, preset="general", **changes)
    path = folder / "cluster.json"
    path.write_text(json.dumps({"run": run, "ps": ps, "settings": told}))
    return path


class Started:
    """A program of the cluster, ``ps`` or ``worker``, perhaps within a network namespace."""

    def __init__(self, spec: Path, *arguments: str, host: str | None = None) -> None:
        inside = ["ip", "netns", "exec", host] if host else []
        self.output = spec.with_name(f"{'-'.join(arguments).replace('--', '')}-{time.monotonic()}.log")
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [*inside, sys.executable, "-m", "a3c_tf", "cluster", *arguments, "--spec", str(spec)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self, within: float = 120) -> tuple[int, str]:
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended after {within} s:\n{self.output.read_text()}") from None
        return self.process.returncode, self.output.read_text()


Start = Callable[..., Started]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Started] = []

    def start(*arguments: Any, **host: Any) -> Started:
        started.append(Started(*arguments, **host))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()


def until_rows(run: Path, number: int, *programs: Started, worker: str = "W_") -> None:
    deadline = time.monotonic() + 120
    while not ((run / "metrics.csv").exists() and (run / "metrics.csv").read_text().count(worker) >= number):
        assert time.monotonic() < deadline, "\n".join(program.output.read_text() for program in programs)
        for program in programs:
            assert program.process.poll() is None, program.output.read_text()
        time.sleep(0.1)


# the file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ps": "10.0.0.1"}, "ps = '10.0.0.1': expected host:port"),
        ({"port": 1}, "expected the fields run, ps, settings, got run, ps, settings, port"),
        ({"settings": {"processes": 2}}, "settings lack seed, which all hosts must have alike"),
        ({"settings": {"seed": 1}}, "settings lack processes"),
        ({"settings": {"seed": 1, "processes": 2, "gama": 1}}, "gama: no such setting"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write_spec(tmp_path, "127.0.0.1:2222")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UsageError, match=message):
        ClusterFile.read(str(path))


def test_the_run_id_holds_everything(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [{}, {"seed": 6}, {"run": "other"}]
    ids = {ClusterFile.read(str(write_spec(tmp_path, "127.0.0.1:2222", **kind))).run_id for kind in kinds}
    ids.add(ClusterFile.read(str(write_spec(tmp_path, "127.0.0.1:2223"))).run_id)
    assert len(ids) == 4
    again = ClusterFile.read(str(write_spec(tmp_path, "127.0.0.1:2222"))).run_id
    assert again in ids
    assert again.startswith("test-")


# whom it lets in


def test_the_server_is_not_opened_unasked(tmp_path: Path) -> None:
    spec = ClusterFile.read(str(write_spec(tmp_path, f"127.0.0.1:{free_port()}")))
    with pytest.raises(UsageError, match="--allow-open-port") as raised:
        machines.serve(spec, allow_open_port=False)
    assert len(str(raised.value).splitlines()) == 2


def test_no_server_at_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "CONNECT_SECONDS", 2.0)
    port = free_port()
    spec = ClusterFile.read(str(write_spec(tmp_path, f"127.0.0.1:{port}")))
    before = time.monotonic()
    with pytest.raises(UsageError, match=f"parameter server 127.0.0.1:{port}: no run there after 2 s"):
        machines.work(spec, 1, False, "none")
    assert time.monotonic() - before < 60  # bounded; a busy machine has time


@pytest.mark.long
def test_a_run_from_its_start_to_the_chiefs_end_and_whom_it_refuses(start: Start, tmp_path: Path) -> None:
    """One server sees, in turn: a port in use, another run, a wrong and a double task, a second chief, a lost chief."""
    address = f"127.0.0.1:{free_port()}"
    path = write_spec(tmp_path, address, max_episodes=FOR_EVER)
    spec = ClusterFile.read(str(path))
    ps = start(path, "ps", "--allow-open-port")
    chief, other = start(path, "worker", "--task", "0"), start(path, "worker", "--task", "1")
    until_rows(tmp_path / "run", 3, ps, chief, other, worker="W_1")

    code, told = start(path, "ps", "--allow-open-port").end()
    assert (code, f"error: {address}: the server cannot start, is the port in use?" in told) == (2, True), told
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    with pytest.raises(UsageError, match=rf"parameter server {address}: belongs to {spec.run_id}, expected theirs-"):
        machines.work(ClusterFile.read(str(write_spec(stranger, address, run="theirs"))), 1, False, "none")
    with pytest.raises(UsageError, match="--task 2: expected 0 to 1"):
        machines.work(spec, 2, False, "none")
    with pytest.raises(UsageError, match="there is a worker 1 already"):
        machines.work(spec, 1, False, "none")
    with pytest.raises(UsageError, match="has a chief already, or had one"):
        machines.work(spec, 0, False, "none")

    os.killpg(chief.process.pid, signal.SIGKILL)
    for program in (other, ps):
        code, told = program.end(within=200)
        assert (code, "the chief has not been heard of for 15 s" in told) == (1, True), told
    assert newest(tmp_path / "run")


@pytest.mark.long
def test_the_server_is_lost(start: Start, tmp_path: Path) -> None:
    path = write_spec(tmp_path, f"127.0.0.1:{free_port()}", max_episodes=FOR_EVER)
    ps = start(path, "ps", "--allow-open-port")
    chief, other = start(path, "worker", "--task", "0"), start(path, "worker", "--task", "1")
    until_rows(tmp_path / "run", 3, ps, chief, other, worker="W_1")
    ps.process.kill()
    code, told = chief.end(within=200)
    assert (code, told.count("\nerror: "), "Traceback" in told) == (1, 1, False), told
    assert f"the parameter server at grpc://{path and ClusterFile.read(str(path)).ps} is lost" in told
    code, told = other.end(within=200)
    assert (code, "the parameter server at" in told) == (1, True), told
    again = json.loads(path.read_text())
    again["settings"]["max_episodes"] = FOR_EVER + 1
    path.write_text(json.dumps(again))
    episodes = len(rows(tmp_path / "run"))
    ps, chief = start(path, "ps", "--allow-open-port"), start(path, "worker", "--task", "0", "--resume")
    until_rows(tmp_path / "run", episodes + 3, ps, chief)
    code, told = send(chief, signal.SIGINT).end(within=60)
    assert (code, "the run is saved" in told) == (130, True), told
    assert ps.end(within=60)[0] == 0, "the server ends with the run"


def send(program: Started, number: signal.Signals) -> Started:
    program.process.send_signal(number)
    return program


# two hosts


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def two_hosts() -> Iterator[tuple[str, str]]:
    """Network namespaces with a cable between them: 10.77.0.1 and 10.77.0.2."""
    if not shutil.which("ip"):
        pytest.skip("needs iproute2")
    first, second = (f"a3c-{os.getpid()}-{side}" for side in ("a", "b"))
    try:
        for name in (first, second):
            ip("netns", "add", name)
        ip("link", "add", "cable", "netns", first, "type", "veth", "peer", "name", "cable", "netns", second)
        for name, address in ((first, "10.77.0.1/24"), (second, "10.77.0.2/24")):
            ip("-n", name, "address", "add", address, "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces are not permitted here: {error.stderr.strip()}")
    yield first, second
    for name in (first, second):
        ip("netns", "delete", name)


def test_two_hosts_train_together_and_one_is_lost(start: Start, tmp_path: Path, two_hosts: tuple[str, str]) -> None:
    here, there = two_hosts
    path = write_spec(tmp_path, "10.77.0.1:2222", max_episodes=1500)
    run = tmp_path / "run"
    ps, chief = start(path, "ps", "--allow-open-port", host=here), start(path, "worker", "--task", "0", host=here)
    other = start(path, "worker", "--task", "1", host=there)
    until_rows(run, 5, ps, chief, other, worker="W_1")
    ip("-n", there, "link", "set", "cable", "down")
    code, told = other.end(within=200)
    assert (code, "the parameter server at 10.77.0.1:2222 is lost" in told) == (1, True), told
    code, told = chief.end(within=180)
    assert code == 0, told
    assert "process 1 (W_1) has not been heard of for 15 s; the others go on" in told
    assert [int(row["episode"]) for row in rows(run)] == list(range(1500))
    state = json.loads(tensors(newest(run))["run_state"])
    assert state["episodes"] == 1500
    assert set(state["worker_episodes"]) == {"W_0", "W_1"}
    assert ps.end(within=60)[0] == 0
