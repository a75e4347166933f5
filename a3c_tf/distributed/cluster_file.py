"""``cluster.json``: what all machines of a cluster must know alike."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from a3c_tf.config import Config
from a3c_tf.errors import UsageError

_FIELDS = ("run", "ps", "settings")


@dataclasses.dataclass(frozen=True)
class ClusterFile:
    """What ``cluster.json`` says: ``run``, a name; ``ps``, host:port; the settings."""

    run: str
    ps: str
    config: Config

    @property
    def run_id(self) -> str:
        """The name with a hash of all the rest: who has another file does not get in."""
        content = json.dumps([self.ps, self.config.to_json()])
        return f"{self.run}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    @classmethod
    def read(cls, path: str) -> ClusterFile:
        """Raises ``UsageError`` for a file that is none."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if sorted(content) != sorted(_FIELDS):
                raise ValueError(f"expected the fields {', '.join(_FIELDS)}, got {', '.join(content)}")
            settings = dict(content["settings"])
            preset = settings.pop("preset", None)
            host, _, port = str(content["ps"]).rpartition(":")
            if not (host and port.isdigit() and 0 < int(port) < 65536):
                raise ValueError(f"ps = {content['ps']!r}: expected host:port")
            config = Config.preset(preset, **settings) if preset else Config.for_env(**settings)
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: {error}") from None
        for field, needed in (("processes", config.processes), ("seed", config.seed is not None)):
            if not needed:
                raise UsageError(f"{path}: settings lack {field}, which all hosts must have alike")
        return cls(str(content["run"]), str(content["ps"]), config)
