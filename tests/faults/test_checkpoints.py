"""Damaged, foreign and malicious checkpoints: the newest good one, or a refusal; never a silent fresh start."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_tf.api import resume, train
from a3c_tf.commands.exit_codes import exit_code
from a3c_tf.config import Config
from a3c_tf.errors import RunError, UsageError
from a3c_tf.graph.tf1 import tf
from a3c_tf.playing.policy import load_policy
from a3c_tf.runs.checkpoint import find_checkpoints
from a3c_tf.training import trainer
from tests.faulty import ROOT, Env, learnt, newest, rows, settings, tensors


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "_draw", lambda run: None)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints at its steps 20, 40 and 60."""
    run = tmp_path_factory.mktemp("original") / "run"
    train(Config.for_env(**settings(run, max_episodes=2)), "none")
    for episodes in (4, 6):
        resume(run, "none", env=Env, max_episodes=episodes)
    assert [prefix.name for prefix in find_checkpoints(run / "checkpoints")] == [
        f"model.ckpt-{step}" for step in (60, 40, 20)
    ], "the oldest of four was pruned"
    return run


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def data(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.data-00000-of-00001")


def index(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.index")


def flip(file: Path, place: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= 4
    file.write_bytes(content)


def truncate(file: Path, part: float) -> None:
    os.truncate(file, int(file.stat().st_size * part))


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "truncated data": lambda prefix: truncate(data(prefix), 0.7),
    "empty data": lambda prefix: truncate(data(prefix), 0),
    "flipped bit in the data": lambda prefix: flip(data(prefix), 0.3),
    "flipped bit at the end": lambda prefix: flip(data(prefix), 1),
    "missing data": lambda prefix: data(prefix).unlink(),
    "truncated index": lambda prefix: truncate(index(prefix), 0.5),
    "empty index": lambda prefix: truncate(index(prefix), 0),
    "flipped bit in the index": lambda prefix: flip(index(prefix), 0.4),
    "missing index": lambda prefix: index(prefix).unlink(),
    "garbage": lambda prefix: index(prefix).write_bytes(b"garbage" * 100),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_newest_good_one_is_taken_and_the_damaged_one_put_aside(
    run: Path, original: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    DAMAGE[damage](newest(run))
    resume(run, "none", env=Env)
    assert [record.levelname for record in caplog.records if "model.ckpt-60" in record.getMessage()] == ["WARNING"]
    assert "passed over" in caplog.text
    assert rows(run) == rows(original), "two episodes are run again, from the checkpoint before"
    for name, value in learnt(newest(original)).items():
        np.testing.assert_array_equal(learnt(newest(run))[name], value, name)
    assert list((run / "checkpoints").glob("damaged-model.ckpt-60.*"))


@pytest.mark.parametrize("state", ["", "garbage \x00\x01", None, "elsewhere"])
def test_the_state_file_does_not_matter(run: Path, original: Path, state: str | None, tmp_path: Path) -> None:
    """TensorFlow follows it, and takes an unreadable one for a first start."""
    file = run / "checkpoints" / "checkpoint"
    if state is None:
        file.unlink()
    elif state == "elsewhere":
        shutil.copytree(run / "checkpoints", tmp_path / "elsewhere")
        file.write_text(f'model_checkpoint_path: "{tmp_path}/elsewhere/model.ckpt-20"\n')
    else:
        file.write_text(state)
    result = resume(run, "none", env=Env)
    assert result.steps == 60
    assert rows(run) == rows(original)


def test_without_a_good_one_it_is_refused_and_nothing_starts_afresh(run: Path, capsys: Any) -> None:
    for prefix in find_checkpoints(run / "checkpoints"):
        truncate(data(prefix), 0.5)
    before = (run / "metrics.csv").read_bytes()
    assert exit_code(lambda: resume(run, "none", env=Env) and 0) == 2
    assert "no readable checkpoint" in capsys.readouterr().err.splitlines()[-1]
    assert (run / "metrics.csv").read_bytes() == before


@pytest.mark.parametrize("also", [[], ["metrics.csv"]])
def test_removed_checkpoints_are_refused(run: Path, also: list[str]) -> None:
    """All but a damaged one, and even the rows: the run had begun."""
    for prefix in find_checkpoints(run / "checkpoints")[1:]:
        index(prefix).unlink()
        data(prefix).unlink()
    data(newest(run)).unlink()
    for name in also:
        (run / name).unlink()
    with pytest.raises(UsageError, match="no readable checkpoint"):
        resume(run, "none", env=Env)


# of another network


def test_another_network_is_refused_with_both_shapes(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "actor_hidden": 9}))
    with pytest.raises(UsageError, match=r"another network or .*: Global_Net/actor/.*: expected .* \[9\], got"):
        resume(run, "none", env=Env)
    with pytest.raises(UsageError, match=r"of another network: .*expected \(3, 9\), got \(3, 8\)"):
        load_policy(run)


def rewrite(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Put a valid checkpoint with other content in the place of the newest."""
    content = tensors(newest(run))
    change(content)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {name: tf.get_variable(f"v{i}", initializer=tf.constant(value)) for i, (name, value) in
                     enumerate(content.items())}  # fmt: skip
        session.run(tf.global_variables_initializer())
        tf.train.Saver(variables).save(session, str(newest(run)), write_meta_graph=False, write_state=False)


BIAS = "Global_Net/critic/v/bias"
FOREIGN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "other type": (lambda t: t.update({BIAS: t[BIAS].astype(np.float64)}), "expected float32 .*, got float64 "),
    "missing": (lambda t: t.pop(BIAS), f"{BIAS}: expected .*, got none"),
    "more": (lambda t: t.update(more=np.zeros(2)), r"more: expected none, got float64 \[2\]"),
    "no run state": (lambda t: t.pop("run_state"), "run_state: expected .*, got none"),
    "other version": (lambda t: t.update(run_state=b'{"mood": 1}'), "of another version: .*mood"),
    "garbage state": (lambda t: t.update(run_state=b"\x00"), "of another version"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_checkpoint_of_another_program_is_refused(run: Path, kind: str) -> None:
    change, told = FOREIGN[kind]
    rewrite(run, change)
    with pytest.raises(UsageError, match=told):
        resume(run, "none", env=Env)


# made by a stranger


def test_no_module_can_run_what_a_file_holds() -> None:
    """No pickle, no MetaGraph, no code from text, in any module of the package."""
    forbidden = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "yaml", "cloudpickle"}
    calls = {"eval", "exec", "compile", "import_meta_graph", "import_graph_def", "load_model", "latest_checkpoint"}
    for file in (ROOT / "a3c_tf").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not forbidden & {name.name.partition(".")[0] for name in node.names}, file
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in forbidden, file
            elif isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", None))
                owner = getattr(getattr(node.func, "value", None), "id", None)
                assert called not in calls or owner == "re", (file, called)
                assert (owner, called) not in {("np", "load"), ("np", "loadtxt")}, file


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_a_malicious_run_folder_runs_nothing(run: Path, tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    evil = pickle.dumps(Evil(mark))
    for name in ("model.ckpt-900.pkl", "model.ckpt-60.meta", "model.ckpt-900.index", "checkpoint"):
        (run / "checkpoints" / name).write_bytes(evil)
    (run / "best").mkdir()
    (run / "best" / "model.ckpt-900.index").write_bytes(evil)
    with pytest.raises(UsageError, match="no readable checkpoint"):
        load_policy(run, "best")
    load_policy(run, "last")(np.zeros(3))
    resume(run, "none", env=Env)
    for name in ("config.json", "spaces.json", "metrics.csv"):
        content = (run / name).read_bytes()
        (run / name).write_bytes(evil)
        with pytest.raises(UsageError):
            resume(run, "none", env=Env)
        (run / name).write_bytes(content)
    assert not mark.exists()
    pickle.loads(evil)
    assert mark.exists(), "had it been loaded, it would have run"


@pytest.mark.parametrize(
    "link", ["checkpoints", "checkpoints/model.ckpt-60.index", "checkpoints/model.ckpt-60.data-00000-of-00001",
             "metrics.csv", "config.json", "spaces.json"],
)  # fmt: skip
def test_links_are_refused_and_not_followed(run: Path, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / link).rename(elsewhere)
    (run / link).symlink_to(elsewhere)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(UsageError, match="is a link"):
        resume(run, "none", env=Env)
    if link.startswith("checkpoints"):
        with pytest.raises(UsageError, match="is a link"):
            load_policy(run)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_a_best_policy_that_was_never_finished_does_not_hide_the_last(run: Path) -> None:
    (run / "best").mkdir()
    (run / "best" / "model.ckpt-60.data-00000-of-00001").write_bytes(b"killed before its index")
    load_policy(run)(np.zeros(3))


# what is saved is worth keeping


class TooLarge(Env):
    """A reward that is finite, and whose square float32 cannot hold."""

    def fault(self, observation: Any, reward: float, *rest: Any) -> tuple[Any, ...]:
        return observation, 1e30, *rest


def test_slots_that_overflowed_are_not_saved(tmp_path: Path) -> None:
    run = tmp_path / "run"
    # found when it is saved, or if that comes later, by what the spoilt policy does
    told = (
        r"Global_Net/\S+ holds NaN or an infinity at step .*scale the .*rewards|expected finite numbers, got action nan"
    )
    with pytest.raises(RunError, match=told):
        train(Config.for_env(**settings(run, env=TooLarge, gamma=0.9)), "none")
    for prefix in find_checkpoints(run / "checkpoints"):
        assert all(np.isfinite(value).all() for value in learnt(prefix).values())
    assert newest(run).name == "model.ckpt-0"
