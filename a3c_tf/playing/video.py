"""Films of a trained policy, made without a screen from the environment's ``rgb_array``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.environments.make import make_env
from a3c_tf.errors import UsageError
from a3c_tf.playing.evaluate import Evaluation, drawing, play
from a3c_tf.playing.policy import Policy


def film(
    policy: Policy,
    target: str | Path,
    env: str | Callable[[], Any] | None = None,
    episodes: int = 1,
    seed: int = 0,
    sample: bool = False,
) -> Evaluation:
    """Play ``episodes`` episodes of ``policy`` into ``target``, an .mp4 or a .gif.

    ``env``, ``seed`` and ``sample`` are as of ``evaluate``. Raises ``UsageError`` for an environment that gives
    no pictures, a file of another kind or in no folder, and packages that are missing.
    """
    path = Path(target)
    if path.suffix not in (".mp4", ".gif"):
        raise UsageError(f"video {target}: expected a name that ends in .mp4 or .gif")
    if episodes < 1:
        raise UsageError(f"episodes = {episodes}: expected a whole number of at least 1")
    rng = np.random.default_rng(seed) if sample else None
    made = make_env(env or policy.config.env, "rgb_array")
    try:
        with drawing():
            made.reset(seed)
            made.render()  # what cannot be filmed is refused before a file is begun
        with _written(path, made.frames_per_second) as writer:

            def watch() -> None:
                writer.append_data(made.render())

            seeds = range(seed, seed + episodes)
            played = [play(lambda s: policy.act(s, rng), [made], [s], policy.config, watch=watch) for s in seeds]
    finally:
        made.close()
    return Evaluation(np.concatenate([each.returns for each in played]), sum(each.steps for each in played))


@contextlib.contextmanager
def _written(path: Path, frames_per_second: float) -> Iterator[Any]:
    """A writer of frames whose film bears its name when it is complete, and is gone if it fails."""
    part = path.with_name(f".{path.name}")
    try:
        with _writer(part, frames_per_second) as writer:
            yield writer
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _writer(path: Path, frames_per_second: float) -> Any:
    try:
        import imageio.v2 as imageio

        if path.suffix == ".gif":
            return imageio.get_writer(path, duration=1000 / frames_per_second, loop=0, subrectangles=True)
        return imageio.get_writer(path, fps=frames_per_second, macro_block_size=2)  # 16 would change the size
    except ImportError as error:
        raise UsageError(
            f"video: needs a package that is not installed ({error}): pip install 'a3c-tf[render]'"
        ) from None
    except OSError as error:
        raise UsageError(f"video {path}: cannot be written: {error.strerror or error}") from None
