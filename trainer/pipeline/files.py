"""Output parameters and artifacts of a step, in the files named by Kubeflow Pipelines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainer.cloud_paths import local_path


def write(path: str, value: Any) -> None:
    """Write an output parameter: a string unchanged, any other value as JSON. Raises OSError."""
    file = local_path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if isinstance(value, str) else json.dumps(value))


def write_artifact(executor_input: str, name: str, uri: str, metadata: Mapping[str, Any]) -> None:
    """Write the output artifact `name`; `executor_input` is the value of `{{$}}`. Raises OSError."""
    outputs = json.loads(executor_input)["outputs"]
    (artifact,) = outputs["artifacts"][name]["artifacts"]
    output = {**artifact, "uri": uri, "metadata": dict(metadata)}
    write(outputs["outputFile"], {"artifacts": {name: {"artifacts": [output]}}})


def read_json(uri: str) -> Any:
    """Read a JSON file on this machine or in a mounted bucket. Raises OSError, ValueError."""
    return json.loads(local_path(uri).read_text())
