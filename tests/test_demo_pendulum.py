"""The main demo, as a person runs it."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, everything_in, read_rows, run_python

DEMO = ROOT / "demos" / "pendulum_a3c.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file that is in the way, and a user's folder."""
    (tmp_path / "file.txt").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    return tmp_path


def test_a_short_run_tells_where_everything_is(tmp_path: Path) -> None:
    run = tmp_path / "new" / "run"
    done = run_python(DEMO, "--episodes", "6", "--workers", "2", "--seed", "0", "--log-dir", run)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    episodes = [line for line in lines if re.fullmatch(r"W_[01] Ep: \d+ \| Ep_r: -?\d+", line)]
    assert [int(line.split()[2]) for line in episodes] == list(range(6)), "not a terminal: a line an episode"
    end = "\n".join(lines[6:])
    assert "6 episodes" in end
    assert "1,200 steps" in end
    assert f"tensorboard --logdir {run}" in end
    for name in ("learning_curve.png", "metrics.csv", "checkpoints"):
        assert str(run / name) in end
        assert (run / name).exists()
    assert len(read_rows(run)) == 6


# what is wrong, and what the one line must say of it and of what is allowed
WRONG = {
    "no workers": (["--workers", "0"], r"workers = 0.*at least 1|workers = 0.*from 1"),
    "negative episodes": (["--episodes", "-1"], r"max_episodes = -1.*at least 1"),
    "unknown environment": (["--env", "NoSuchThing-v0"], r"NoSuchThing"),
    "version gone": (["--env", "Pendulum-v0"], r"Pendulum-v0.*v1"),
    "unknown preset": (["--preset", "best"], r"'best'.*there are.*classic.*general"),
    "preset of another environment": (["--preset", "classic", "--env", "Other-v0"], r"classic.*Other-v0.*Pendulum-v1"),
    "unwritable folder": (["--log-dir", "file.txt/run"], r"run folder file\.txt/run: cannot be written"),
    "unknown option": (["--colour", "red"], r"--colour: no such option; there are --env, --preset,.* --show$"),
    "no number": (["--seed", "x"], r"--seed: expected a whole number, got 'x'"),
    "no value": (["--seed"], r"--seed: expected one argument"),
    "folder of a user's": (
        ["--log-dir", "mine"],
        r"run folder mine: holds files that are not a run's.*new or an empty",
    ),
}
SMALL = ["--workers", "1", "--episodes", "1"]


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_and_exit_2(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments, told = WRONG[case]
    before = everything_in(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(DEMO), *SMALL, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(DEMO), run_name="__main__")
    out, err = capfd.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    assert re.search(told, err), err
    assert everything_in(folder) == before, "nothing is made and nothing changed"


@pytest.mark.parametrize("case", ["no workers", "version gone", "folder of a user's"])
def test_in_a_process_of_its_own_nothing_else_is_said(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that libraries say when they are loaded."""
    arguments, told = WRONG[case]
    monkeypatch.chdir(folder)
    done = run_python(DEMO, *SMALL, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert re.search(told, done.stderr)


LOADED = """
import runpy, sys
sys.argv = [{demo!r}, *{arguments!r}]
try:
    runpy.run_path({demo!r}, run_name="__main__")
except SystemExit as ended:
    print("exit", ended.code, sorted({{"tensorflow", "gym", "matplotlib"}} & set(sys.modules)))
"""


def test_help_names_every_option_without_loading_tensorflow() -> None:
    done = run_python("-c", LOADED.format(demo=str(DEMO), arguments=["--help"]))
    assert done.stdout.splitlines()[-1] == "exit 0 []"
    assert done.stderr == ""
    for option in (
        "--env",
        "--preset",
        "--episodes",
        "--workers",
        "--seed",
        "--log-dir",
        "--resume",
        "--verbose",
        "--show",
    ):
        assert option in done.stdout


def test_wrong_settings_are_told_before_tensorflow_is_loaded() -> None:
    done = run_python("-c", LOADED.format(demo=str(DEMO), arguments=["--workers", "0"]))
    assert done.stdout == "exit 2 []\n"
