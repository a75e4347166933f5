"""Films: made without a screen, of the right length, and never half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a3c_tf.api import train
from a3c_tf.environments.make import make_env
from a3c_tf.errors import UsageError
from a3c_tf.playing.policy import load_policy
from a3c_tf.playing.video import film
from tests.conftest import ToyEnv, small_config

imageio = pytest.importorskip("imageio.v2")
pytest.importorskip("pygame")


class Filmed(ToyEnv):
    """Five steps, drawn as squares that grow lighter; fails after ``fails_at`` pictures."""

    metadata = {"render_fps": 10}  # noqa: RUF012
    fails_at = 1000

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(terminates_at=5)
        self.render_mode, self.pictures = render_mode, 0

    def render(self) -> np.ndarray:
        assert self.render_mode == "rgb_array"
        self.pictures += 1
        if self.pictures > self.fails_at:
            raise RuntimeError("the camera broke")
        return np.full((32, 48, 3), 40 * self.time, np.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("film") / "run"
    return train(small_config(env=Filmed, log_dir=str(folder)), show="none").run_folder


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_a_film_has_a_picture_for_each_state(run: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / f"film.{kind}"
    assert film(load_policy(run), target, episodes=2).returns.tolist() == [15.0, 15.0]
    pictures = imageio.mimread(target)
    assert len(pictures) == 12  # the first state and five steps, twice
    assert pictures[0].shape[:2] == (32, 48)
    assert np.mean(pictures[5][..., :3]) > np.mean(pictures[0][..., :3]) + 100
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_pendulum_is_filmed_without_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.delenv("DISPLAY", raising=False)
    for env_id in ("Pendulum-v1", "gymnasium:Pendulum-v1"):
        env = make_env(env_id, "rgb_array")
        env.reset(0)
        env.step(np.array([1.5], np.float32))
        assert env.render().shape == (500, 500, 3)
        env.close()


def test_a_film_that_fails_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Filmed, "fails_at", 3)
    with pytest.raises(RuntimeError, match="the camera broke"):
        film(load_policy(run), tmp_path / "film.gif")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_filmed_is_told(run: Path, toy_run: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"film.avi: expected a name that ends in .mp4 or .gif"):
        film(load_policy(run), tmp_path / "film.avi")
    with pytest.raises(UsageError, match="episodes = 0: expected a whole number of at least 1"):
        film(load_policy(run), tmp_path / "film.gif", episodes=0)
    with pytest.raises(UsageError, match="cannot be written"):
        film(load_policy(run), tmp_path / "nix" / "film.gif")
    with pytest.raises(UsageError, match="cannot be filmed: expected render"):
        film(load_policy(toy_run.run_folder), tmp_path / "film.gif")  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pygame", None)
        with pytest.raises(
            UsageError, match=r"cannot be drawn: pygame is not installed.*pip install 'a3c-tf\[render\]'"
        ):
            film(load_policy(run), tmp_path / "film.gif", env="Pendulum-v1")
    monkeypatch.setitem(sys.modules, "imageio.v2", None)
    monkeypatch.setitem(sys.modules, "imageio", None)
    with pytest.raises(UsageError, match=r"not installed.*pip install 'a3c-tf\[render\]'"):
        film(load_policy(run), tmp_path / "film.gif")
