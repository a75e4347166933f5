"""Curves from metrics.csv, without a screen and without TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from a3c_tf.runs.plotting import learning_curve
from a3c_tf.runs.tables import read_columns
from tests.conftest import HEADER, run_python, run_together


def test_a_run_without_a_finished_episode(metrics_csv: Path) -> None:
    metrics_csv.write_text(HEADER, encoding="utf-8")
    learning_curve(read_columns(metrics_csv, "running_return"), "empty").savefig(metrics_csv.with_suffix(".png"))


def test_the_curve_shows_both_returns_over_the_steps(metrics_csv: Path) -> None:
    (axes,) = learning_curve(read_columns(metrics_csv, "running_return"), "a title").axes
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {"episode return", "running return"}
    np.testing.assert_array_equal(lines["running return"].get_xdata(), [200, 400])
    np.testing.assert_array_equal(lines["running return"].get_ydata(), [-1000.0, -950.05])
    np.testing.assert_array_equal(lines["episode return"].get_ydata(), [-1000.0, -500.5])
    assert axes.get_title() == "a title"
    assert "steps" in axes.get_xlabel()


def test_curves_are_drawn_from_any_thread(metrics_csv: Path, tmp_path: Path) -> None:
    metrics = read_columns(metrics_csv, "running_return")
    run_together(3, lambda i: learning_curve(metrics, "").savefig(tmp_path / f"{i}.png"))
    assert all((tmp_path / f"{i}.png").read_bytes().startswith(b"\x89PNG") for i in range(3))


def test_no_screen_no_window_and_no_tensorflow_is_needed(metrics_csv: Path, tmp_path: Path) -> None:
    program = f"""
import sys
from a3c_tf.runs.plotting import learning_curve
from a3c_tf.runs.tables import read_columns
loaded = 'matplotlib' in sys.modules
learning_curve(read_columns({str(metrics_csv)!r}, 'running_return'), '').savefig({str(tmp_path / "curve.png")!r})
print(loaded, 'matplotlib.pyplot' in sys.modules, 'tensorflow' in sys.modules)
"""
    done = run_python("-c", program, DISPLAY=None, WAYLAND_DISPLAY=None, MPLBACKEND=None)
    assert (done.stdout, done.stderr) == ("False False False\n", "")
    assert (tmp_path / "curve.png").stat().st_size > 1000
