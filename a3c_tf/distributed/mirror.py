"""A copy of the parameter server's state in the graph of the chief, which saves and evaluates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from a3c_tf.config import Config
from a3c_tf.distributed.numbering import number_of_workers
from a3c_tf.distributed.packets import Packet, pack, packet_of, unpack
from a3c_tf.graph.session import Session
from a3c_tf.graph.sync import assign_all
from a3c_tf.graph.tf1 import tf


class Mirror:
    """The parameter server's state as variables of the chief's graph.

    Adds ops to the graph, so it is made before that is finalized.
    """

    def __init__(self, variables: Sequence[Any], session: Session, config: Config) -> None:
        with variables[0].graph.as_default(), tf.device("/cpu:0"), tf.name_scope("mirror"):
            like = [*variables, tf.zeros([number_of_workers(config)], tf.int64)]
            packet = packet_of(like)
            *values, steps = unpack(packet, like)
            assigns = assign_all(variables, values)
            learnt = pack([variable.read_value() for variable in variables])
        self._take = session.call([steps], [packet], assigns)
        self._give = session.call([learnt])

    def take(self, state: Packet) -> np.ndarray:
        """Set the variables to a state as ``GlobalNetwork.read`` has it; returns the steps of each worker [N]."""
        return self._take(state)[0]

    def learnt(self) -> Packet:
        """What is learnt, for ``GlobalNetwork.write``."""
        return self._give()[0]
