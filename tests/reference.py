"""What the original programs computed (tests/data), and how near is near enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"


class Reference:
    """One file of reference numbers; ``batch(i)`` strips the batch's prefix from its keys."""

    def __init__(self, name: str) -> None:
        with np.load(DATA / name) as archive:
            self.arrays = {key: archive[key] for key in archive.files}

    def under(self, prefix: str) -> dict[str, np.ndarray]:
        return {key.removeprefix(prefix): value for key, value in self.arrays.items() if key.startswith(prefix)}

    def batch(self, i: int) -> dict[str, np.ndarray]:
        return self.under(f"batch{i}/")


def assert_near(name: str, ours: np.ndarray, reference: np.ndarray, tolerance: float = 1e-5) -> None:
    """Per tensor: max|ours - reference| ≤ tolerance · max|reference|."""
    assert ours.shape == reference.shape, f"{name}: shape {ours.shape}, reference {reference.shape}"
    error, scale = np.max(np.abs(ours - reference)), np.max(np.abs(reference))
    assert error <= tolerance * scale, f"{name}: off by {error:.3g} at a scale of {scale:.3g}"


def assert_same_change(name: str, before: np.ndarray, ours: np.ndarray, reference: np.ndarray) -> None:
    """A changed weight tensor: near the reference, and its change within 1e-3 of the reference's change."""
    assert_near(name, ours, reference)
    assert_near(f"change of {name}", ours - before, reference - before, 1e-3)
