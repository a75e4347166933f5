"""The command line: help, refusals in one line, and what each command does, as a stranger would type it."""

from __future__ import annotations

import dataclasses
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from a3c_tf.commands import cli, exit_codes, train
from a3c_tf.config import Config
from a3c_tf.presets import PRESETS
from tests.conftest import ROOT, run_python

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def a3c(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in this process, in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    monkeypatch.setattr(exit_codes.signal, "signal", lambda *_: None)  # the tests keep their own Ctrl-C

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as leave:  # --help
            code = int(leave.code or 0)
        return code, *capfd.readouterr()

    return run


SMALL = ("--workers", "1", "--seed", "0", "--actor-hidden", "8", "--critic-hidden", "8", "--max-episode-steps", "20")


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three short episodes on Pendulum, made by the command line. Nobody changes it."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert cli.main(["train", "--episodes", "3", "--log-dir", str(folder), *SMALL]) == 0
    return folder


def test_help_is_there_without_tensorflow_or_tyro() -> None:
    program = (
        "import sys; from a3c_tf.commands import cli; cli.main(['--help']); "
        "print({'tensorflow', 'tyro', 'numpy'} & {*sys.modules})"
    )
    done = run_python("-c", program)
    assert done.stdout.endswith("set()\n")
    assert all(command in done.stdout for command in cli.COMMANDS)


def test_python_m_and_the_console_script_are_the_same_program() -> None:
    done = run_python("-m", "a3c_tf", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a3c-tf = a3c_tf.commands.cli:main" in (ROOT / "setup.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help(command: str, a3c: Run) -> None:
    code, out, err = a3c(command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: a3c-tf {command}")


def test_train_offers_every_setting_with_the_presets_defaults(a3c: Run) -> None:
    _, out, _ = a3c("train", "--preset", "tuned", "--env", "CartPole-v1", "--help")
    told = " ".join(out.replace("│", " ").split())
    for field in dataclasses.fields(Config):
        if field.name != "preset_name":
            assert f"--{field.name.replace('_', '-')} " in told.replace(",", " ").replace(f"{'|'}", " "), field.name
    assert "environment steps of all workers together (default: 250000)" in told
    assert all(preset in told for preset in PRESETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], r"a3c-tf trian: no such command; there are train, evaluate, plot, video, export, cluster"),
        (["train", "--worker", "2"], "a3c-tf train: --worker: no such option; did you mean --workers?"),
        (["train", "--bla=2"], "a3c-tf train: --bla=2: no such option; see a3c-tf train --help"),
        (["train", "--workers", "two"], "a3c-tf train: Error parsing --workers"),
        (["train", "--workers"], "a3c-tf train: Missing value for argument '--workers'"),
        (["train", "--workers", "0"], "workers = 0: expected a whole number from 1 to 1024"),
        (["train", "--preset", "nix"], "preset 'nix': no such preset; there are classic"),
        (["train", "--preset", "classic", "--env", "CartPole-v1"], "preset 'classic' has no settings for CartPole-v1"),
        (["train", "--env", "nix:make"], "there is no module 'nix' to import; expected an id, 'gym:ID'"),
        (["train", "--resume", "nix"], "run folder nix: expected the folder of a run, with a config.json"),
        (["evaluate"], "RUN"),
        (["evaluate", "nix"], "nix: expected the folder of a run"),
        (["evaluate", "nix", "--best", "--last"], "--best and --last: expected one of them"),
        (["plot"], "a3c-tf plot: expected at least one run folder"),
        (["plot", "nix"], "run folder nix: expected the folder of a run"),
        (["video", "nix"], "nix: expected the folder of a run"),
        (["export", "nix", "there"], "nix: expected the folder of a run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_in_one_line(arguments: list[str], message: str, a3c: Run, tmp_path: Path) -> None:
    code, out, err = a3c(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("unbuffered", [None, "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]], ids=" ".join)
def test_a_reader_that_leaves_is_no_error(arguments: list[str], unbuffered: str | None) -> None:
    """As in ``a3c-tf --help | head -1``: like any program it ends as by SIGPIPE, and says nothing."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= {"PYTHONUNBUFFERED": unbuffered} if unbuffered else {}
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "a3c_tf", *arguments],
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (exit_codes.UNREAD, b"")


def test_no_command_at_all_shows_the_help(a3c: Run) -> None:
    code, out, _ = a3c()
    assert code == 2
    assert out.startswith("usage: a3c-tf COMMAND")


def test_train_says_where_things_are_and_writes_what_was_asked_for(a3c: Run, pendulum: Path) -> None:
    config = Config.read(pendulum / "config.json")
    assert (config.workers, config.seed, config.max_episodes, config.actor_hidden) == (1, 0, 3, 8)
    assert {"metrics.csv", "learning_curve.png", "checkpoints"} <= {path.name for path in pendulum.iterdir()}


def test_resume_counts_only_what_was_given(a3c: Run) -> None:
    assert a3c("train", "--episodes", "2", "--log-dir", "run", *SMALL)[0] == 0
    code, out, _ = a3c("train", "--resume", "run", "--episodes", "3", "--workers", "1", "--verbose")
    assert code == 0
    assert "W_0 Ep: 2 |" in out
    assert "3 episodes, 60 steps" in out
    for option, value in (("--gamma", "0.5"), ("--episodes", "2"), ("--preset", "classic-adam")):
        code, _, err = a3c("train", "--resume", "run", option, value)
        assert code == 2
        assert "only the budget may differ, and grow" in err


def test_the_demo_and_the_command_line_share_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    got = []
    monkeypatch.setattr(train, "train", lambda *arguments: got.append(arguments) or 0)
    assert cli.main(["train", "--seed", "3", "--preset", "classic", "--verbose"]) == 0
    monkeypatch.setattr(sys, "argv", ["pendulum_a3c.py", "--seed", "3", "--preset", "classic", "--verbose"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(ROOT / "demos" / "pendulum_a3c.py"), run_name="__main__")
    assert got == [(Config(seed=3), True, False)] * 2


def test_evaluate_prints_mean_and_deviation(a3c: Run, pendulum: Path) -> None:
    code, out, _ = a3c("evaluate", pendulum, "--episodes", "3", "--seed", "7")
    assert code == 0
    assert out.startswith("mean return -")
    assert "± " in out
    assert "over 3 episodes (60 steps)" in out
    _, sampled, _ = a3c("evaluate", pendulum, "--episodes", "3", "--seed", "7", "--sample")
    assert sampled != out
    assert a3c("evaluate", pendulum, "--episodes", "3", "--seed", "7", "--last")[1] == out
    assert "no readable checkpoint" in a3c("evaluate", pendulum, "--best")[2]
    assert "episodes = 0: expected a whole number of at least 1" in a3c("evaluate", pendulum, "--episodes", "0")[2]


def test_a_missing_screen_is_told_in_one_line(a3c: Run, pendulum: Path, tmp_path: Path) -> None:
    none = {"DISPLAY": None, "WAYLAND_DISPLAY": None, "SDL_VIDEODRIVER": None}
    done = run_python("-m", "a3c_tf", "evaluate", pendulum, "--episodes", "1", "--render", **none)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: cannot be drawn: x11 not available; a3c-tf video films without a screen\n"
    done = run_python("-m", "a3c_tf", "evaluate", pendulum, "--episodes", "1", "--render", SDL_VIDEODRIVER="dummy")
    assert (done.returncode, done.stderr) == (0, "")
    picture = tmp_path / "curve.png"
    done = run_python("-m", "a3c_tf", "plot", pendulum, "--output", picture, "--show", **none, MPLBACKEND=None)
    assert (done.returncode, done.stdout) == (0, f"picture: {picture}\n")
    assert done.stderr.startswith("WARNING: no window can be opened: there is no screen")
    assert done.stderr.endswith(f"see {picture}\n")
    assert done.stderr.count("\n") == 1


def test_plot_draws_one_run_several_and_a_policy(a3c: Run, pendulum: Path, tmp_path: Path) -> None:
    assert a3c("plot", pendulum, "--output", "one.png") == (0, "picture: one.png\n", "")
    assert a3c("plot", pendulum, pendulum, "--output", "two.svg")[0] == 0
    assert a3c("plot", pendulum, "--policy", "--output", "policy.png")[0] == 0
    assert all(len((tmp_path / name).read_bytes()) > 5000 for name in ("one.png", "two.svg", "policy.png"))
    assert "expected a name that ends in .png" in a3c("plot", pendulum, "--output", "one.txt")[2]
    assert "cannot be written" in a3c("plot", pendulum, "--output", "nix/one.png")[2]
    assert "--policy: expected one run, got 2" in a3c("plot", pendulum, pendulum, "--policy")[2]


def test_plot_reads_only_csv(pendulum: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from a3c_tf.commands import cli\n"
        f"cli.main(['plot', {str(pendulum)!r}, '--output', {str(tmp_path / 'a.png')!r}])\n"
        "print({'tensorflow', 'gym', 'matplotlib.pyplot'} & {*sys.modules})"
    )
    assert run_python("-c", program, DISPLAY=None).stdout.endswith("set()\n")


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_processes_have_one_thread_each_unless_more_are_asked_for(
    workers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    got = []
    monkeypatch.setattr(train, "train", lambda *arguments: got.append(arguments) or 0)
    assert cli.main(["train", "--seed", "3", "--processes", "3", *workers]) == 0
    config = got[0][0]
    assert (config.processes, config.worker_count) == (3, 2 if workers else 1)
