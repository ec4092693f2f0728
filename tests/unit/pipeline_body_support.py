"""What several tests share with test_pipeline_body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tui.domain.profile import Profile
from tui.store.profiles.library import read_profile

CONTAINER = {"image": "us-docker.pkg.dev/p/r/i:t", "command": ["true"]}
INPUTS = {
    "name": {"parameterType": "STRING"},
    "steps": {"parameterType": "NUMBER_INTEGER", "defaultValue": 5.0, "description": "How many."},
    "rate": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.1},
    "fast": {"parameterType": "BOOLEAN", "isOptional": True},
    "sizes": {"parameterType": "LIST", "defaultValue": [1, 2]},
    "more": {"parameterType": "STRUCT", "isOptional": True},
}


def spec(tasks: Any = None, inputs: Any = None, **more: Any) -> dict[str, Any]:
    """A pipeline of one task, or of these."""
    return {
        "pipelineInfo": {"name": "p"},
        "schemaVersion": "2.1.0",
        "root": {
            "dag": {"tasks": tasks or {"a": {"componentRef": {"name": "comp-a"}}}},
            "inputDefinitions": {"parameters": INPUTS if inputs is None else inputs},
        },
        "components": {"comp-a": {"executorLabel": "exec-a"}},
        "deploymentSpec": {"executors": {"exec-a": {"container": CONTAINER}}},
        **more,
    }


def profile(
    folder: Path, compiled: Any, values: str = "{name: x}", more: str = "", head: str = ""
) -> Profile:
    """The profile of a compiled pipeline, in a folder."""
    text = compiled if isinstance(compiled, str) else yaml.safe_dump(compiled)
    (folder / "dag.yaml").write_text(text)
    (folder / "p.yaml").write_text(
        f"displayName: x\n{head}pipelineJob:\n  templatePath: dag.yaml\n{more}  runtimeConfig:\n"
        f"    gcsOutputDirectory: gs://bucket/root\n    parameterValues: {values}\n"
    )
    return read_profile(folder / "p.yaml")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
