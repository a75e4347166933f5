"""Programs that are interrupted, killed or left without a disk: how they end, and what goes on afterwards."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a3c_tf.api import resume, train
from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from a3c_tf.graph.tf1 import tf
from a3c_tf.runs.checkpoint import find_checkpoints
from a3c_tf.runs.folder import new_run
from a3c_tf.training import trainer
from tests.faulty import ROOT, Env, Program, Slow, learnt, newest, rows, settings, start, tensors

__all__ = ["start"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups and signals of POSIX")
FOR_EVER = 10**6
Start = Callable[..., Program]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "_draw", lambda run: None)


def saved_episodes(run: Path) -> int:
    return json.loads(tensors(newest(run))["run_state"])["episodes"]


def whole_rows(run: Path) -> list[dict[str, str]]:
    """Rows as a run leaves them that was killed: the last one may be half."""
    return [row for row in rows(run) if None not in row.values()]


def runs_on_as_if_never_stopped(run: Path, tmp_path: Path, env: type[Env] = Slow) -> None:
    """Resume it here for a few episodes, and compare with a run that never stopped."""
    episodes = saved_episodes(run) + 3
    if episodes > Config.read(run / "config.json").max_episodes:
        resume(run, "none", env=env, max_episodes=episodes)
    else:
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, "max_episodes": episodes}))
        resume(run, "none", env=env)
    train(Config.for_env(**settings(tmp_path / "whole", env=env, max_episodes=episodes)), "none")
    assert rows(run) == rows(tmp_path / "whole")
    ours, theirs = learnt(newest(run)), learnt(newest(tmp_path / "whole"))
    assert all((ours[name] == theirs[name]).all() for name in theirs)


# signals


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_stops_in_good_order(
    start: Start, tmp_path: Path, number: signal.Signals, code: int, word: str
) -> None:
    run = tmp_path / "run"
    program = start(run, env="Slow", max_episodes=FOR_EVER, workers=2).until_rows(5).send(number)
    ended, output = program.end(within=10)  # 5 s, and the same again for a busy machine
    assert ended == code
    assert output.splitlines()[-1] == word
    assert "Traceback" not in output
    assert re.search(rf"to go on: .* train --resume {re.escape(str(run))} --env tests.faulty:Slow\n", output)
    assert saved_episodes(run) == len(rows(run)) == len(whole_rows(run)) >= 5
    assert (run / "learning_curve.png").read_bytes().endswith(b"IEND\xaeB`\x82")


def test_ctrl_c_before_the_first_step(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = start(run, env="Slow").until((run / "config.json").exists).send(signal.SIGINT)
    ended, output = program.end(within=15)
    assert (ended, output.splitlines()[-1]) == (130, "interrupted")
    assert len(resume(run, "none", env=Slow).returns) == 8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_hanging_environment_is_named_after_the_stop(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    run = tmp_path / "run"
    program = start(run, env="Hangs", max_episodes=FOR_EVER).until_rows(2)
    time.sleep(0.5)  # into the third episode
    ended, output = program.send(number).end(within=15)  # 10 s, and more for a busy machine
    assert ended == 1
    assert re.search(r"(?m)^error: 5 s after the stop was asked for, worker W_0 hangs in:$", output)
    assert output.rstrip().splitlines()[-1].strip() == "time.sleep(1000)", "where it hangs stands last"
    assert "Traceback" not in output
    assert saved_episodes(run) == 2


def test_a_second_ctrl_c_leaves_at_once(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = start(run, env="Hangs", max_episodes=FOR_EVER).until_rows(2).send(signal.SIGINT)
    time.sleep(1)
    assert program.process.poll() is None, "it waits for the worker that hangs"
    ended, _ = program.send(signal.SIGINT).end(within=3)
    assert ended == 130
    factory = type("Hangs", (Env,), {"__module__": Env.__module__})
    runs_on_as_if_never_stopped(run, tmp_path, factory)


def test_the_demo_stops_and_goes_on(start: Start, tmp_path: Path) -> None:
    """As a person does it: Ctrl-C, and the line that it says."""
    run = tmp_path / "run"
    demo = str(ROOT / "demos" / "pendulum_a3c.py")
    program = start(run, demo, "--workers", "1", "--seed", "3", "--log-dir", str(run), "--verbose")
    ended, output = program.until_rows(3).send(signal.SIGINT).end(within=10)
    assert ended == 130
    assert "Traceback" not in output
    assert f"--resume {run}" in output
    done = len(rows(run))
    program = start(run, demo, "--resume", str(run), "--episodes", "2001", "--verbose")
    ended, output = program.until_rows(done + 3).send(signal.SIGINT).end(within=10)
    assert ended == 130
    assert [int(row["episode"]) for row in rows(run)] == list(range(len(rows(run))))
    assert output.splitlines()[0].startswith(f"W_0 Ep: {done} |")


# kill -9


def kills(start: Start, run: Path, number: int, rng: random.Random) -> None:
    """Kill a run ``number`` times, each time resuming it; the first comes before its first checkpoint.

    It saves all the time, so that many a kill comes in the middle of a save.
    """
    for i in range(number):
        begun = (run / "config.json").exists()
        changes = {"resume": True} if begun else {"max_episodes": FOR_EVER, "checkpoint_episodes": 5}
        program = start(run, env="Slow", **changes)
        if i == 0:
            program.until((run / "config.json").exists)
        else:
            holder = run / ".holder"
            program.until(lambda: holder.exists() and f" {program.process.pid} " in holder.read_text())  # noqa: B023
            if i % 3:
                before = program.number_of_rows()
                program.until(lambda: program.number_of_rows() != before)  # noqa: B023
        time.sleep(rng.uniform(0, 2))
        program.kill()
        if (run / "metrics.csv").exists() and find_checkpoints(run / "checkpoints"):
            lost = len(whole_rows(run)) - saved_episodes(run)
            assert lost <= 5 + 60, "one save interval, and what is run until the save is made"


def kill_and_compare(start: Start, tmp_path: Path, number: int) -> None:
    run = tmp_path / "run"
    kills(start, run, number, random.Random(7))
    runs_on_as_if_never_stopped(run, tmp_path)
    assert not [file for file in (run / "checkpoints").iterdir() if "tempstate" in file.name or ".tmp" in file.name]


def test_a_run_that_is_killed_loses_nothing(start: Start, tmp_path: Path) -> None:
    kill_and_compare(start, tmp_path, 3)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_thirty_kills(start: Start, tmp_path: Path) -> None:
    kill_and_compare(start, tmp_path, 30)


def test_one_run_at_a_time_and_what_a_kill_leaves(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = start(run, env="Slow", max_episodes=FOR_EVER, checkpoint_episodes=5).until_rows(10)
    for second in (
        lambda: resume(run, "none", env=Slow),
        lambda: train(Config.for_env(**settings(run, env=Slow)), "none"),
    ):
        with pytest.raises(UsageError, match=rf"run folder {run}: in use by process {program.process.pid} on \S+;"):
            second()
    program.kill()

    (events,) = run.glob("events*")
    graph = tf.GraphDef()
    for event in tf.train.summary_iterator(str(events)):
        if event.graph_def:
            graph.ParseFromString(event.graph_def)
    assert any(node.name.startswith("Global_Net/actor/la") for node in graph.node)

    runs_on_as_if_never_stopped(run, tmp_path)


def test_a_start_that_was_killed_before_its_settings_were_written_does_not_bar_the_next(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").touch()
    (run / ".holder").write_text("process 123 on here")
    (run / ".config.json.new").write_text('{"env')
    train(Config.for_env(**settings(run)), "none")
    assert not (run / ".config.json.new").exists()


# no space left


@pytest.mark.parametrize(
    ("kind", "size", "told"),
    [
        (
            "metrics.csv",
            180,
            r"in worker W_0, its episode \d+, step 10: .*csv: cannot be written: File too large",
        ),
        # the events are flushed just before, and are as large
        ("checkpoint", 1200, r".*(checkpoints|run): cannot be written: File too large"),
        ("events", 100_000, r".*run: cannot be written: File too large"),
    ],
)
def test_a_full_disk_ends_the_run_and_spoils_nothing(
    start: Start, tmp_path: Path, kind: str, size: int, told: str
) -> None:
    run = tmp_path / "run"
    episodes = 8 if kind == "events" else FOR_EVER  # events are held back, so there it shows at the end
    saves = FOR_EVER if kind == "metrics.csv" else 1
    program = start(run, env="Slow", max_episodes=episodes, checkpoint_episodes=saves, fill={"file_size": size})
    ended, output = program.end()
    assert ended == 1, output
    assert re.fullmatch(f"error: {told}", output.splitlines()[-1]), output
    for prefix in find_checkpoints(run / "checkpoints"):
        assert learnt(prefix)
    runs_on_as_if_never_stopped(run, tmp_path)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small file system with the given options; skips where that is not permitted."""
    place = tmp_path / "mounted"
    place.mkdir()

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
        if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting is not permitted here")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True)


def test_a_full_file_system(start: Start, tmp_path: Path, mounted: Callable[[str], Path]) -> None:
    disk = mounted("size=2m")
    run, filler = disk / "run", disk / "filler"
    program = start(run, env="Slow", max_episodes=FOR_EVER, checkpoint_episodes=1, fill={"path": str(filler)})
    ended, output = program.end()
    assert ended == 1, output
    assert re.fullmatch(r"error: .*cannot be written: No space left on device", output.splitlines()[-1]), output
    filler.unlink()
    runs_on_as_if_never_stopped(run, tmp_path)


def test_a_read_only_file_system_is_refused(tmp_path: Path, mounted: Callable[[str], Path]) -> None:
    disk = mounted("size=2m")
    train(Config.for_env(**settings(disk / "run")), "none")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for refused in (
        lambda: train(Config.for_env(**settings(disk / "new")), "none"),
        lambda: resume(disk / "run", "none", env=Env, max_episodes=9),
    ):
        with pytest.raises(UsageError, match=r"run folder \S+: cannot be written: Read-only file system"):
            refused()


# the run folder


def test_a_run_folder_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match=r"run folder .*file/run: cannot be written: Not a directory"):
        train(Config.for_env(**settings(tmp_path / "file" / "run")), "none")
    assert (tmp_path / "file").read_text() == "mine"


def held(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("name", ["thesis.txt", "events.out.tfevents.1", ".lock", ".holder", ".config.json.new/x"])
@pytest.mark.parametrize("as_link", [False, True])
def test_a_users_files_and_links_are_not_touched(tmp_path: Path, name: str, as_link: bool) -> None:
    folder = tmp_path / "folder"
    file = folder / name
    file.parent.mkdir(parents=True)
    if as_link:
        (tmp_path / "elsewhere").write_text("a user's")
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.write_text("a user's")
    before = held(tmp_path)
    with pytest.raises(UsageError, match="holds files that are not a run's"), new_run(Config(log_dir=str(folder))):
        pass
    assert held(tmp_path) == before


def test_a_table_that_is_taken_away_is_a_failure_and_no_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 says that nothing was trained."""
    from a3c_tf.commands.exit_codes import exit_code

    run = tmp_path / "run"

    class Removes(Env):
        def fault(self, *answer: Any) -> tuple[Any, ...]:
            (run / "metrics.csv").unlink()
            return answer

    assert exit_code(lambda: train(Config.for_env(**settings(run, env=Removes)), "none") and 0) == 1
    assert "metrics.csv: expected a run's table" in capsys.readouterr().err.splitlines()[-1]
