"""The original's main program from this library's parts."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import a3c_tf
from a3c_tf.graph.tf1 import tf
from a3c_tf.records import Episode
from tests.conftest import ROOT, run_python, run_together

DEMO = ROOT / "demos" / "a3c_step_by_step.py"


def test_with_one_worker_and_a_seed_it_trains_as_train_does(tmp_path: Path) -> None:
    main = runpy.run_path(str(DEMO))["main"]
    step_by_step = main(n_workers=1, max_global_ep=6, seed=5, log_dir=str(tmp_path / "steps"))
    config = a3c_tf.Config.preset("classic", workers=1, max_episodes=6, seed=5, log_dir=str(tmp_path / "run"))
    np.testing.assert_array_equal(step_by_step, a3c_tf.train(config, show="none").running_returns)


def test_several_workers_run_exactly_the_episodes_and_leave_plot_and_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_python(DEMO, "--workers", "3", "--episodes", "5")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [int(line.split()[2]) for line in lines[:5]] == list(range(5))
    picture = Path(lines[5].removeprefix("picture: "))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(picture.parent.glob("events.out.tfevents.*"))


def test_rows_of_several_workers_are_whole_and_in_order(
    switch_threads_at: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    switch_threads_at(DEMO.name)
    counters = runpy.run_path(str(DEMO))["Global"](a3c_tf.Config(max_episodes=1000), tf.train.Coordinator())

    def finish_many(worker: int) -> None:
        for _ in range(25):
            counters.episode(Episode(f"W_{worker}", 0.0, 1), {})

    run_together(4, finish_many)
    rows = [re.fullmatch(r"W_[0-3] Ep: (\d+) \| Ep_r: 0", line) for line in capsys.readouterr().out.splitlines()]
    assert [row and int(row[1]) for row in rows] == list(range(100))


def test_what_it_cannot_do_is_one_line(tmp_path: Path) -> None:
    done = run_python(DEMO, "--workers", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: workers = 0: expected a whole number from 1 to 1024 or None\n"
