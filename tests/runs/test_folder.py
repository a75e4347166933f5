"""The run folder: what is refused, and that nothing of a user's is touched."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from a3c_tf.config import Config
from a3c_tf.errors import UsageError
from a3c_tf.runs.folder import RunFolder, existing_run, new_run
from tests.conftest import ToyEnv, everything_in, small_config


def create(path: Path | None, **settings: Any) -> RunFolder:
    """Make a run folder and let it go again; None: let it choose its place."""
    with new_run(small_config(log_dir=str(path) if path else None, **settings)) as run:
        return run


@pytest.mark.parametrize("where", ["new", "missing/parents/too", "a name with spaces"])
def test_a_new_folder_is_made_with_its_settings(tmp_path: Path, where: str) -> None:
    run = create(tmp_path / where)
    assert run.path == tmp_path / where
    assert Config.read(run.config) == small_config(log_dir=str(tmp_path / where))


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert create(tmp_path).config.exists()


def test_the_files_have_the_names_that_the_design_gives_them(tmp_path: Path) -> None:
    run = create(tmp_path)
    names = [run.config.name, run.metrics.name, run.checkpoints.name, run.learning_curve.name]
    assert names == ["config.json", "metrics.csv", "checkpoints", "learning_curve.png"]
    assert {path.parent for path in (run.config, run.metrics, run.checkpoints, run.learning_curve)} == {tmp_path}


def test_a_run_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    create(tmp_path)
    before = everything_in(tmp_path)
    with pytest.raises(UsageError, match=r"holds a run already; .*another folder.* train --resume "):
        create(tmp_path)
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize(
    "kind", ["file", "hidden file", "folder", "link to a file", "link to nowhere", "link to a folder"]
)
def test_a_users_folder_is_refused_and_stays_as_it_was(tmp_path: Path, kind: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "thesis.tex").write_text("years of work")
    folder.mkdir()
    {
        "file": lambda: (folder / "notes.txt").write_text("mine"),
        "hidden file": lambda: (folder / ".hidden").write_text("mine"),
        "folder": lambda: (folder / "checkpoints").mkdir(),
        "link to a file": lambda: (folder / "metrics.csv").symlink_to(outside / "thesis.tex"),
        "link to nowhere": lambda: (folder / "metrics.csv").symlink_to(outside / "missing"),
        "link to a folder": lambda: (folder / "checkpoints").symlink_to(outside),
    }[kind]()
    before = everything_in(tmp_path)
    with pytest.raises(
        UsageError, match=f"{re.escape(str(folder))}.*holds files that are not a run's.*new or an empty"
    ):
        create(folder)
    assert everything_in(tmp_path) == before


def test_a_config_json_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(UsageError):
        create(folder)
    assert not (tmp_path / "elsewhere.json").exists()


@pytest.mark.parametrize("path", ["file.txt", "file.txt/run", "file.txt/deep/run", "x" * 300])
def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path, path: str) -> None:
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"run folder .*cannot be written: \w+") as refused:
        create(tmp_path / path)
    assert "\n" not in str(refused.value)
    assert (tmp_path / "file.txt").read_text() == "mine"


def test_without_a_folder_given_it_is_named_after_environment_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [create(None).path for _ in range(3)]
    assert len(set(paths)) == 3, "runs of one second have folders of their own"
    assert all(re.fullmatch(r"Pendulum-v1-\d{8}-\d{6}(-\d)?", path.name) for path in paths)
    assert {path.parent for path in paths} == {Path("runs")}


@pytest.mark.parametrize("env", ["gymnasium:Pendulum-v1", "../../etc/Evil-v0", ToyEnv, lambda: ToyEnv()])
def test_a_name_made_of_an_environment_stays_below_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: object
) -> None:
    monkeypatch.chdir(tmp_path)
    path = create(None, env=env).path
    assert path.resolve().parent == tmp_path.resolve() / "runs"
    assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (".holder", "file"),
        (".holder", "link"),
        (".lock", "file"),
        (".lock", "link"),
        (".config.json.new", "link"),
    ],
)
def test_a_users_file_with_the_name_of_one_of_ours_stays_as_it_was(tmp_path: Path, name: str, kind: str) -> None:
    outside, folder = tmp_path / "thesis.tex", tmp_path / "folder"
    outside.write_text("years of work")
    folder.mkdir()
    if kind == "file":
        (folder / name).write_text("mine")
    else:
        (folder / name).symlink_to(outside)
    with pytest.raises(UsageError):
        create(folder)
    assert outside.read_text() == "years of work"
    assert (folder / name).read_text() == ("mine" if kind == "file" else "years of work")


def test_a_run_in_use_is_refused_with_who_holds_it_and_free_again_afterwards(tmp_path: Path) -> None:
    with new_run(small_config(log_dir=str(tmp_path / "run"))) as run:
        with (
            pytest.raises(UsageError, match=rf"in use by process {os.getpid()} on .*another folder"),
            existing_run(run.path),
        ):
            pass
        with pytest.raises(UsageError, match="run folder"):
            create(run.path)
    with existing_run(run.path) as again:
        assert again == run


def test_what_is_no_run_cannot_be_resumed(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError, match=r"expected the folder of a run"), existing_run(path):
            pass
    assert everything_in(tmp_path) == {}


@pytest.mark.parametrize(
    ("env", "end"),
    [
        ("Pendulum-v1", "train --resume 'my runs/a'"),
        ("thermostat:Thermostat", "train --resume 'my runs/a' --env thermostat:Thermostat"),
        ("__main__:Thermostat", "a3c_tf.resume('my runs/a', env=Thermostat)"),
        ("program:<lambda>", "a3c_tf.resume('my runs/a', env=…)"),
    ],
)
def test_the_command_that_goes_on_can_be_pasted(env: str, end: str) -> None:
    command = RunFolder(Path("my runs/a")).resume_command(env)
    assert command.endswith(end)
    assert command.startswith("a3c_tf.resume") or shutil.which(shlex.split(command)[0])


def test_the_console_script_is_named_if_it_is_this_python_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("python", "a3c-tf"):
        (tmp_path / program).touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    run = RunFolder(Path("run"))
    assert run.resume_command("Pendulum-v1") == f"{tmp_path}/python -m a3c_tf train --resume run"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run.resume_command("Pendulum-v1") == "a3c-tf train --resume run"
