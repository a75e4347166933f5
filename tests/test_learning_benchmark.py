"""The learning benchmark: rows, ablations, its table, and runs that are not run twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import learning
import learning_figures

DATA = ROOT / "tests" / "data"


def arguments(monkeypatch: pytest.MonkeyPatch, *given: str):
    monkeypatch.setattr(sys, "argv", ["learning.py", *given, "--out", "somewhere"])
    return learning.parse_arguments()


@pytest.mark.parametrize(("text", "expected"), [("0-3", [0, 1, 2, 3]), ("7", [7]), ("0,3,5", [0, 3, 5])])
def test_seeds(text: str, expected: list[int]) -> None:
    assert learning.seeds(text) == expected


def test_a_row_for_each_number_of_workers_with_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("--preset", "tuned", "--seeds", "0-2", "--workers", "1", "4", "--steps", "1000", "--set", "gamma=0.9")
    one, four = learning.make_rows(arguments(monkeypatch, *given))
    assert (one.label, four.label) == ("tuned, 1 worker", "tuned, 4 workers")
    for row, workers in ((one, 1), (four, 4)):
        expected = [Config.preset("tuned", workers=workers, seed=seed, max_steps=1000, gamma=0.9) for seed in range(3)]
        assert row.configs == expected


def test_a_row_of_processes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = learning.make_rows(arguments(monkeypatch, "--preset", "classic-adam", "--set", "processes=2"))
    assert row.label == "classic-adam, 2 processes"
    assert all((config.processes, config.workers) == (2, 1) for config in row.configs)


def test_an_ablation_puts_one_setting_back_to_the_originals() -> None:
    ours, original = Config.preset("tuned", workers=1), Config(workers=1)
    variants = learning.ablations("tuned", "Pendulum-v1", {})
    assert {"gamma", "rollout_steps", "learning_rate_decay"} <= {name for _, change in variants for name in change}
    for label, change in variants:
        ((name, value),) = change.items()
        assert value == getattr(original, name) != getattr(ours, name)
        assert name in label
        assert name not in ("max_steps", "max_episodes", "env", "preset_name")


def test_every_configuration_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = learning.make_rows(arguments(monkeypatch, "--ablate", "--seeds", "0-1", "--workers", "1", "2"))
    names = [learning.folder_name(config) for row in rows for config in row.configs]
    assert len(set(names)) == len(names)


def test_a_folder_with_other_settings_is_refused(tmp_path: Path) -> None:
    config = Config(workers=1, seed=0)
    folder = tmp_path / learning.folder_name(config)
    folder.mkdir()
    (folder / "config.json").write_text(config.replace(gamma=0.5).to_json())
    with pytest.raises(UsageError, match="other settings"):
        learning.run_one(config, tmp_path, plays=1)


def test_the_table_tells_mean_deviation_and_worst_seed() -> None:
    results = [{"mean": m, "steps": 1000, "evaluation_steps": 10, "seconds": 2.0} for m in (-150.0, -160.0, -155.0)]
    row = learning.table([learning.Row("ours", [], results)]).splitlines()[-1]
    assert row == "| ours | 3 | -155.0 | 5.0 | -160.0 | 1,000 | 10 | 2 |"


def test_a_report_replaces_its_own_section_alone(tmp_path: Path) -> None:
    document = tmp_path / "results.md"
    document.write_text("a\n<!-- ours -->\nold\n<!-- end of ours -->\nz\n<!-- other -->\nkept\n<!-- end of other -->\n")
    for _ in range(2):
        learning.put_into(document, "ours", "new\n")
    expected = "a\n<!-- ours -->\n\nnew\n\n<!-- end of ours -->\nz\n<!-- other -->\nkept\n<!-- end of other -->\n"
    assert document.read_text() == expected
    with pytest.raises(UsageError, match="expected the lines <!-- third -->"):
        learning.put_into(document, "third", "new\n")


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("original_curves.csv", {"original, 2 workers": 4, "original, 8 workers": 2}),
        ("original_adam_curves.csv", {"original, 2 processes": 3}),
    ],
)
def test_the_originals_curves_are_read_run_by_run(name: str, runs: dict[str, int]) -> None:
    curves = learning_figures.read_original(DATA / name)
    assert {label: len(of_label) for label, of_label in curves.items()} == runs
    assert {len(curve) for of_label in curves.values() for curve in of_label} <= {2000, 3000}


def test_pictures_are_drawn(tmp_path: Path) -> None:
    runs = [
        {"global_step": np.arange(200.0, 4001, 200), "running_return": np.linspace(-1500, end, 20)} for end in (-300, 0)
    ]
    original = learning_figures.read_original(DATA / "original_curves.csv")
    learning_figures.over_original({"classic, 2 workers": runs}, original).savefig(tmp_path / "over.png")
    learning_figures.learning({"tuned, 1 worker": runs}, {"tuned, 1 worker": [-150, -152]}, "Pendulum-v1").savefig(
        tmp_path / "learning.png"
    )
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())


def test_end_to_end_and_no_run_is_run_twice(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "learning.py"), "--preset", "classic", "--seeds", "0"]
    command += ["--episodes", "2", "--set", "max_episode_steps=20", "--plays", "3", "--out", str(tmp_path / "out")]

    def run() -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = run()
    folders = sorted(path for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert len(folders) == 1, "nothing unfinished is left"
    written = (folders[0] / "result.json").stat().st_mtime_ns
    assert json.loads((folders[0] / "result.json").read_text())["steps"] == 40
    assert run() == first
    assert (folders[0] / "result.json").stat().st_mtime_ns == written
    assert "--set max_episode_steps=20" in (tmp_path / "out" / "table.md").read_text(), "the command is told"
    assert (tmp_path / "out" / "figure.png").is_file()
