"""Films of a trained policy, made without a screen from the environment's ``rgb_array``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from a3c_tf.environments.make import make_env
from a3c_tf.errors import UsageError
from a3c_tf.playing.evaluate import drawing, load_policy, play


def film(
    run: str | Path,
    target: str | Path,
    episodes: int = 1,
    seed: int = 0,
    sample: bool = False,
    which: str | None = None,
    env: str | Callable[[], Any] | None = None,
) -> list[float]:
    """Play ``episodes`` episodes of the policy of ``run`` into ``target``, an .mp4 or a .gif; returns their returns.

    The k-th episode starts from ``env.reset(seed=seed + k)``; ``sample`` plays samples in place of the mean
    action; ``which`` is as of ``load_policy``, ``env`` as of ``evaluate``. Raises ``UsageError`` for an
    environment that gives no pictures, a file of another kind or in no folder, and packages that are missing.
    """
    path = Path(target)
    if path.suffix not in (".mp4", ".gif"):
        raise UsageError(f"video {target}: expected a name that ends in .mp4 or .gif")
    if episodes < 1:
        raise UsageError(f"episodes = {episodes}: expected a whole number of at least 1")
    policy = load_policy(run, which)
    rng = np.random.default_rng(seed) if sample else None
    returns: list[float] = []
    made = make_env(env or policy.config.env, "rgb_array")
    try:
        with drawing():
            made.reset(seed)
            made.render()  # what cannot be filmed is told before a file is begun
        with _written(path, made.frames_per_second) as writer:

            def watch() -> None:
                writer.append_data(made.render())

            for each in range(seed, seed + episodes):
                played = play(lambda s: policy.act(s, rng), [made], [each], policy.config, watch=watch)
                returns.extend(played.returns)
    finally:
        made.close()
    return returns


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
