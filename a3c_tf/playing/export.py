"""Take a policy away: a SavedModel that plain TensorFlow 2 loads, without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a3c_tf.algorithms.build import Networks
from a3c_tf.environments.spaces import AnyActionSpec, DiscreteSpec
from a3c_tf.errors import UsageError
from a3c_tf.graph.policies import CategoricalPolicy, NormalPolicy
from a3c_tf.graph.session import Session
from a3c_tf.graph.tf1 import quiet_deprecations, tf
from a3c_tf.playing.policy import saved_policy
from a3c_tf.runs import checkpoint


def export(run: str | Path, directory: str | Path, which: str | None = None) -> None:
    """Write the policy of ``run`` (its best, else its last, or ``which``) into the new folder ``directory``.

    The signature ``serving_default`` takes ``observation`` [B, …] float32, in the space's shape, and gives

    ============  ==============  ==============================================================
    output        shape           meaning
    ============  ==============  ==============================================================
    action        [B, …] or [B]   the mean action, float32; of discrete ones the most likely, int64
    mean, sigma   [B, …]          a Box's Normal distribution, before samples are clipped
    logits        [B, n]          instead of them, for discrete actions
    value         [B]             the critic's value, in rewards as the learner sees them
    ============  ==============  ==============================================================

    Raises ``UsageError`` if the run has no such policy, or if ``directory`` holds anything.
    """
    target = Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{directory}: expected a new or an empty folder to export to")
    saved = saved_policy(run, which)
    graph = tf.Graph()
    with graph.as_default(), graph.device("/cpu:0"), quiet_deprecations():
        observation = tf.placeholder(tf.float32, [None, *saved.observations.shape], "observation")
        net = Networks(saved.config, saved.observations, saved.actions).acting_net(s=observation)
        outputs = {**_outputs(net.policy, saved.actions), "value": net.v[:, 0]}
        session = Session(graph)
        try:
            checkpoint.load_weights(saved.folder, net.params, session)
            tf.saved_model.simple_save(session.raw, str(target), {"observation": observation}, outputs)
        except OSError as error:
            raise UsageError(f"{directory}: cannot be written: {error.strerror or error}") from None
        finally:
            session.close()


def _outputs(policy: NormalPolicy | CategoricalPolicy, space: AnyActionSpec) -> dict[str, Any]:
    if isinstance(policy, CategoricalPolicy):
        assert isinstance(space, DiscreteSpec)
        number = tf.cast(policy.mode[:, 0], tf.int64) + space.start
        return {"action": number, "logits": policy.logits}
    shape = [-1, *space.shape]
    mean = tf.reshape(policy.mu, shape)
    return {"action": mean, "mean": mean, "sigma": tf.reshape(policy.sigma, shape)}
