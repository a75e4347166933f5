"""The threading demo in the process, and its program as a person starts and stops it."""

from __future__ import annotations

import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from a3c_tf import threading_demo
from a3c_tf.threading_demo import PPO, Episodes, Result, Worker, run

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = ROOT / "demos" / "threading_events.py"
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
REPORT = re.compile(
    r"====update====\n"
    r"GLOBAL_EP (?P<episodes>\d+)\n"
    r"GLOBAL_UPDATE_COUNTER: (?P<counter>\d+)\n"
    r"update_old_pi\n"
    r"Queuesize: (?P<size>\d+)\n"
    r"\[(?P<ids>\d+(, \d+)*)\]\n"
    r"update Critic\n"
    r"update Actor\n"
    r"=====END======"
)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(threading_demo, "STEP_SECONDS", 0.0001)
    monkeypatch.setattr(threading_demo, "UPDATE_SECONDS", 0.0002)


def ignore(text: str) -> None:
    pass


@pytest.mark.parametrize(
    ("n_workers", "ep_max", "ep_len", "min_batch_size"),
    [(4, 10, 20, 10), (1, 3, 7, 4), (64, 80, 3, 10), (64, 2, 5, 1), (3, 5, 1, 1), (2, 3, 1, 10), (4, 4, 5, 10**6)],
)
def test_all_episodes_are_run_and_every_item_arrives(n_workers, ep_max, ep_len, min_batch_size):
    result = run(n_workers, ep_max, ep_len, min_batch_size, ignore)
    assert result.ppo.episodes.n_finished == ep_max
    assert sum(worker.n_put for worker in result.workers) == ep_max * ep_len
    assert {worker.wid: worker.n_put for worker in result.workers if worker.n_put} == dict(result.ppo.n_taken)
    assert all(worker.n_put % ep_len == 0 for worker in result.workers)
    sizes = result.ppo.batch_sizes
    assert sum(sizes) == ep_max * ep_len
    assert all(min_batch_size <= size < min_batch_size + n_workers for size in sizes[:-1])
    assert 1 <= sizes[-1] < min_batch_size + n_workers


def test_the_report_of_an_update_is_in_the_originals_order():
    texts = []
    result = run(2, 4, 10, 5, texts.append)
    reports = [REPORT.fullmatch(text) for text in texts]
    assert all(reports)
    ids = [[int(wid) for wid in report["ids"].split(", ")] for report in reports]
    assert [int(report["counter"]) for report in reports] == result.ppo.batch_sizes
    assert [int(report["size"]) for report in reports] == [len(batch) for batch in ids] == result.ppo.batch_sizes
    assert sum(map(Counter, ids), Counter()) == result.ppo.n_taken
    episodes = [int(report["episodes"]) for report in reports]
    assert episodes == sorted(episodes)
    assert episodes[-1] <= 4


def test_episodes_are_given_out_once_each():
    episodes = Episodes(3)
    assert [episodes.begin() for _ in range(5)] == [True, True, True, False, False]
    assert [episodes.finish() for _ in range(3)] == [False, False, True]


def test_each_thread_works_for_its_own_worker(monkeypatch):
    seen = set()
    step = Worker.step
    monkeypatch.setattr(
        Worker, "step", lambda self: (seen.add((threading.current_thread().name, self.wid)), step(self))[1]
    )
    run(8, 200, 1, 10, ignore)
    assert all(name == f"W_{wid}" for name, wid in seen)


@pytest.mark.parametrize("name", ["n_workers", "ep_max", "ep_len", "min_batch_size"])
def test_a_setting_below_one_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        run(**{name: 0})


@pytest.mark.parametrize(("owner", "method", "name"), [(Worker, "step", "W_"), (PPO, "update", "PPO")])
def test_what_a_thread_raises_comes_out_with_its_name_in_the_log(owner, method, name, monkeypatch, caplog):
    calls = []
    original = getattr(owner, method)

    def fails_later(self, *args):
        calls.append(self)
        if len(calls) == 5:
            raise OSError("no luck")
        return original(self, *args)

    monkeypatch.setattr(owner, method, fails_later)
    with pytest.raises(OSError, match="no luck"):
        run(4, 10, 20, 10, ignore)
    assert re.search(rf"{name}\d* failed: OSError\('no luck'\)", caplog.text)
    assert no_thread_left()


def test_what_the_last_update_raises_after_the_stop_comes_out_too():
    def report(text: str) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(2, 2, 3, 1000, report)


def test_an_out_of_range_error_is_not_taken_for_a_clean_stop():
    from a3c_tf.graph.tf1 import tf

    def report(text: str) -> None:
        raise tf.errors.OutOfRangeError(None, None, "too far")

    with pytest.raises(tf.errors.OutOfRangeError):
        run(2, 10, 20, 5, report)


def test_ctrl_c_stops_all_threads(monkeypatch):
    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(4, 10**9, 20, 10, ignore)
    assert time.monotonic() - begun < 5
    assert no_thread_left()


def no_thread_left() -> bool:
    return not [t for t in threading.enumerate() if re.fullmatch(r"W_\d+|PPO", t.name)]


def test_lanes_hold_what_each_thread_did():
    result = run(3, 6, 10, 10, ignore, record=True)
    updates = result.ppo.lane.bars
    assert len(updates) == len(result.ppo.batch_sizes)
    for worker in result.workers:
        assert len(worker.lane.bars) == worker.n_put
        assert worker.lane.seconds_worked == pytest.approx(sum(end - begin for begin, end in worker.lane.bars))
        assert 0 <= worker.lane.seconds_waited <= worker.lane.died - worker.lane.born
        for begin, _ in worker.lane.bars:
            assert not any(start < begin < stop for start, stop in updates)


def test_without_recording_nothing_piles_up():
    result = run(2, 4, 10, 10, ignore)
    assert result.ppo.lane.bars == result.workers[0].lane.bars == []
    assert result.ppo.lane.seconds_waited > 0


def test_the_summary_adds_up():
    result = run(3, 7, 11, 10, ignore)
    rows = [line.split() for line in result.summary().splitlines()]
    assert rows[0][:4] == ["episodes", "7,", "updates", f"{len(result.ppo.batch_sizes)},"]
    assert f"smallest {min(result.ppo.batch_sizes)}, largest {max(result.ppo.batch_sizes)}" in result.summary()
    put, taken = zip(*[map(int, row[1:3]) for row in rows if row[0].startswith("W_")], strict=True)
    assert put == taken == tuple(worker.n_put for worker in result.workers)
    assert ["workers", "77", "77"] in [row[:3] for row in rows]
    assert rows[-1][0] == "PPO"
    assert rows[-1][-2:] == ["for", "UPDATE"]
    assert isinstance(result, Result)


# The program


def program(*args: str, tensorflow: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run the demo; without TensorFlow an attempt to import it fails."""
    hide = f"import sys, runpy; sys.modules['tensorflow'] = None; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    start = [str(PROGRAM)] if tensorflow else ["-c", hide]
    return subprocess.run([sys.executable, *start, *args], env=ENV, capture_output=True, text=True, timeout=timeout)


def test_the_defaults_end_by_themselves_in_time(tmp_path):
    picture = tmp_path / "turns.png"
    done = program("--timeline", str(picture))
    assert done.returncode == 0, done.stderr
    reports = list(REPORT.finditer(done.stdout))
    assert sum(int(report["size"]) for report in reports) == 2000
    assert int(re.search(r"updates (\d+)", done.stdout)[1]) == len(reports)
    assert float(re.search(r"seconds ([\d.]+)", done.stdout)[1]) < 3
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000


def test_quiet_prints_the_summary_only(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [PROGRAM.name, "--quiet", "--workers", "64", "--episodes", "3"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the signals here are pytest's
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("episodes 3, updates ")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--workers", "0"], "--workers: a whole number of at least 1 is needed, got '0'"),
        (["--workers", "1001"], "--workers: at most 1000, got 1001"),
        (["--episodes", "-1"], "--episodes: a whole number of at least 1 is needed, got '-1'"),
        (["--episode-length", "2.5"], "--episode-length: a whole number of at least 1 is needed, got '2.5'"),
        (["--min-batch-size", "ten"], "--min-batch-size: a whole number of at least 1 is needed, got 'ten'"),
        (["--timeline", "turns.pdf"], "--timeline: a name ending in .png is needed, got 'turns.pdf'"),
        (["--timeline", "/no/such/folder/turns.png"], "cannot write '/no/such/folder/turns.png': No such file"),
        (["--timeline", "{folder}"], "is not a file"),
        (["--timeline"], "--timeline: expected one argument"),
        (["--faster"], "unrecognized arguments: --faster"),
    ],
)
def test_bad_values_get_one_line_before_tensorflow_is_imported(args, says, tmp_path):
    (tmp_path / "folder.png").mkdir()
    done = program(*[arg.format(folder=tmp_path / "folder.png") for arg in args], tensorflow=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_checking_the_timelines_name_leaves_no_file_behind(tmp_path):
    there, not_there = tmp_path / "there.png", tmp_path / "not_there.png"
    there.write_bytes(b"mine")
    for path in (there, not_there):
        assert program("--timeline", str(path), "--workers", "1001", tensorflow=False).returncode == 2
    assert there.read_bytes() == b"mine"
    assert not not_there.exists()


def test_help_needs_no_tensorflow():
    done = program("--help", tensorflow=False)
    assert done.returncode == 0, done.stderr
    assert all(f"({value})" in done.stdout for value in (4, 10, 200))


@pytest.mark.skipif(sys.platform == "win32", reason="process groups and SIGINT of POSIX")
class TestCtrlC:
    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(PROGRAM), *args],
            env={**ENV, "PYTHONUNBUFFERED": "1", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def interrupt(self, process: subprocess.Popen[str]) -> tuple[float, str]:
        begun = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        try:
            _, stderr = process.communicate(timeout=20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return time.monotonic() - begun, stderr

    def test_it_ends_the_run_in_under_a_second(self):
        for _ in range(3):  # a busy machine may need another try
            process = self.start("--workers", "64", "--episodes", "1000000")
            process.stdout.readline()
            seconds, stderr = self.interrupt(process)
            assert process.returncode == 130
            assert "Traceback" not in stderr
            assert stderr.endswith("stopped by Ctrl-C\n")
            if seconds < 1:
                return
        pytest.fail(f"took {seconds:.2f} s")

    def test_while_tensorflow_is_imported_it_leaves_without_a_traceback(self, tmp_path):
        (tmp_path / "tensorflow.py").write_text("import time\nprint('importing')\ntime.sleep(60)")
        process = self.start(PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
        assert process.stdout.readline() == "importing\n"
        _, stderr = self.interrupt(process)
        assert process.returncode == 130
        assert stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGPIPE")
def test_a_reader_that_leaves_ends_it_quietly():
    command = f"{sys.executable} {PROGRAM} --episodes 1000000 | head -n 1"
    done = subprocess.run(command, shell=True, env=ENV, capture_output=True, text=True, timeout=60)
    assert done.stdout == "====update====\n"
    assert "Traceback" not in done.stderr
