"""Environments whose steps cost time, each in another way; an episode ends only by the time limit of the settings."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np


class Costly:
    """``cost`` is called in each step."""

    def __init__(self) -> None:
        self.observation_space = SimpleNamespace(shape=(3,), low=np.full(3, -1.0), high=np.full(3, 1.0))
        self.action_space = SimpleNamespace(shape=(1,), low=np.full(1, -1.0), high=np.full(1, 1.0))

    def cost(self) -> None:
        raise NotImplementedError

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(3, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.cost()
        return np.zeros(3, np.float32), 0.0, False, False, {}


class Sleeping(Costly):
    """Two milliseconds of waiting."""

    def cost(self) -> None:
        time.sleep(0.002)


class SleepingLonger(Costly):
    """Ten milliseconds of waiting, as for a robot or another program."""

    def cost(self) -> None:
        time.sleep(0.010)


class Computing(Costly):
    """A millisecond or so with large arrays, in which NumPy gives Python's lock away."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = np.random.default_rng(0).standard_normal(60_000)
        self.out = np.empty_like(self.numbers)

    def cost(self) -> None:
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            np.exp(self.numbers, out=self.out)


class ComputingInPython(Costly):
    """Five milliseconds of pure Python: one thread at a time can have them."""

    def cost(self) -> None:
        end = time.thread_time() + 0.005
        while time.thread_time() < end:
            pass
