"""The exported SavedModel, loaded by plain TensorFlow in a process that knows nothing of this package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from a3c_tf.api import train
from a3c_tf.errors import UsageError
from a3c_tf.playing.export import export
from a3c_tf.playing.policy import load_policy
from tests.conftest import ToyEnv, box, small_config

LOADER = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
play = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
outputs = play(observation=tf.constant(json.loads(sys.argv[2]), tf.float32))
assert "a3c_tf" not in sys.modules
print(json.dumps({name: output.numpy().tolist() for name, output in outputs.items()}))
"""


class Wide(ToyEnv):
    """Observations [2, 3], actions [2, 2] with bounds that are not symmetric."""

    def __init__(self) -> None:
        super().__init__(terminates_at=5, action_shape=(2, 2))
        self.observation_space, self.action_space = box((2, 3)), box((2, 2), -1.0, 3.0)

    def observation(self) -> np.ndarray:
        return np.full((2, 3), 0.1 * self.time, np.float32)


class Choosing(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(3, start=2)  # type: ignore[assignment]


@pytest.mark.parametrize("env", [Wide, Choosing])
def test_plain_tensorflow_plays_the_same_actions(env: Any, tmp_path: Path) -> None:
    config = small_config(env=env, normalize_observations=True, log_dir=str(tmp_path / "run"))
    policy = load_policy(train(config, show="none").run_folder)
    export(tmp_path / "run", tmp_path / "model")
    observations = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOADER, str(tmp_path / "model"), json.dumps(observations.tolist())],
        capture_output=True, text=True, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = {name: np.array(output) for name, output in json.loads(done.stdout).items()}
    expected = np.array([policy(observation) for observation in observations])
    np.testing.assert_allclose(outputs["action"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs["value"], policy.value(observations.reshape(4, 6)), rtol=1e-5, atol=1e-6)
    if env is Choosing:
        assert set(outputs) == {"action", "logits", "value"}
        assert (outputs["logits"].argmax(axis=1) + 2).tolist() == outputs["action"].tolist()
    else:
        assert set(outputs) == {"action", "mean", "sigma", "value"}
        assert outputs["sigma"].shape == (4, 2, 2)
        assert (outputs["sigma"] > 0).all()


def test_a_folder_that_holds_anything_is_left_alone(toy_run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    for target in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(UsageError, match="expected a new or an empty folder to export to"):
            export(toy_run.run_folder, target)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected the folder of a run"):
        export(tmp_path / "nix", tmp_path / "model")
    assert not (tmp_path / "model").exists()
