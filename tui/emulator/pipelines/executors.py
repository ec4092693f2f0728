"""Custom job of one executor: its command with all placeholders filled, and its outputs.

Files are below the pipeline's root in the emulator's bucket. A process receives their paths as
`/gcs/BUCKET/…`, and so does the `uri` of an artifact; since nothing mounts /gcs here, the emulator replaces
each by this machine's path. Results contain gs:// again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from tui.config.regular_file import read_regular
from tui.domain.document.decoding import decode_json
from tui.domain.pipeline.machines import NoMachine, NotKnown, machine_spec
from tui.emulator.interfaces import CustomJobPb
from tui.emulator.messages import Pb
from tui.emulator.paths import StateDir
from tui.emulator.pipelines.placeholders import BadPlaceholder, fill, fill_all, fill_within
from tui.emulator.pipelines.planner import BadInput, PlanNode, Values, typed_output
from tui.emulator.storage.names import InvalidObjectName, file_at, uri_problem

OUTPUT_FILE = "executor_output.json"
_LARGEST = 10_000_000
"""Maximum size of a file of outputs in bytes."""


class TaskCannotStart(Exception):
    """The task's job can't be created. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Folder of one task's files. `uri` is below the pipeline's root, without a trailing slash."""

    uri: str
    state: StateDir

    def gcs(self, name: str = "") -> str:
        """Return the path as a process on Vertex sees it: `/gcs/BUCKET/…`. Raises TaskCannotStart."""
        return f"/gcs/{self.local(name).relative_to(self.state.buckets)}"

    def local(self, name: str = "") -> Path:
        """Return the path on this machine. Raises TaskCannotStart."""
        try:
            return file_at(self.state.buckets, self.uri + (f"/{name}" if name else ""))
        except InvalidObjectName as error:
            raise TaskCannotStart(str(error)) from error


def executor_input(node: PlanNode, place: TaskPlace) -> dict[str, Any]:
    """Return the `ExecutorInput` of a component: its inputs and outputs."""
    leaf = node.leaf
    assert leaf is not None
    inputs = {
        name: {"artifacts": [_mounted(artifact) for artifact in artifacts]}
        for name, artifacts in node.inputs.artifacts.items()
    }
    outputs = {
        name: {"artifacts": [{"name": name, "type": dict(kind), "uri": place.gcs(name), "metadata": {}}]}
        for name, kind in leaf.component.artifacts.items()
    }
    return {
        "inputs": {"parameterValues": dict(node.inputs.parameters), "artifacts": inputs},
        "outputs": {
            "parameters": {name: {"outputFile": place.gcs(name)} for name in leaf.component.outputs},
            "artifacts": outputs,
            "outputFile": place.gcs(OUTPUT_FILE),
        },
    }


def arguments(node: PlanNode, place: TaskPlace, facts: Mapping[str, str]) -> list[str]:
    """Return the arguments of a leaf's container. Raises TaskCannotStart for an unknown placeholder."""
    leaf = node.leaf
    assert leaf is not None and leaf.executor.container is not None
    try:
        return fill_all(list(leaf.executor.container.get("args") or []), executor_input(node, place), facts)
    except BadPlaceholder as error:
        raise TaskCannotStart(f"{error}.") from error


def custom_job(node: PlanNode, place: TaskPlace, name: str, facts: Mapping[str, str]) -> Pb:
    """Return the request of the custom job that runs a leaf.

    Raises TaskCannotStart for an unknown placeholder or accelerator.
    """
    leaf = node.leaf
    assert leaf is not None and leaf.executor.container is not None
    container, inputs = leaf.executor.container, executor_input(node, place)
    args = arguments(node, place, facts)
    try:
        command = fill_all(list(container.get("command") or []), inputs, facts)
        env = {
            str(e["name"]): fill(str(e.get("value", "")), inputs, facts) for e in container.get("env") or []
        }
    except BadPlaceholder as error:
        raise TaskCannotStart(f"{error}.") from error
    job = CustomJobPb(display_name=name[:128])
    pool = job.job_spec.worker_pool_specs.add(replica_count=1)
    _machine(pool.machine_spec, container.get("resources") or {})
    pool.container_spec.image_uri = str(container["image"])
    pool.container_spec.command.extend(command)
    pool.container_spec.args.extend(args)
    for key, value in env.items():
        pool.container_spec.env.add(name=key, value=value)
    return job


def _machine(spec: Pb, resources: Mapping[str, Any]) -> None:
    """Set the machine that a component requests. Raises TaskCannotStart if there is none."""
    try:
        json_format.ParseDict(machine_spec(resources), spec)
    except (NoMachine, NotKnown) as error:
        raise TaskCannotStart(f"{error}.") from error


def prepare(node: PlanNode, place: TaskPlace) -> None:
    """Create the folders of the outputs, without files of an earlier attempt. Raises OSError."""
    leaf = node.leaf
    assert leaf is not None
    shutil.rmtree(place.local(), ignore_errors=True)
    place.local().mkdir(parents=True, exist_ok=True)


def outputs_of(node: PlanNode, place: TaskPlace) -> Values:
    """Read the outputs of a leaf from the executor's file, or from one file per parameter.

    Raises BadInput for a missing output, or an output of another type.
    """
    leaf = node.leaf
    assert leaf is not None
    written = _written(place.local(OUTPUT_FILE))
    parameters: dict[str, Any] = {}
    for name, kind in leaf.component.outputs.items():
        if name in (written.get("parameterValues") or {}):
            parameters[name] = typed_output(written["parameterValues"][name], kind, name)
            continue
        try:
            parameters[name] = typed_output(read_regular(place.local(name), _LARGEST).decode(), kind, name)
        except FileNotFoundError:
            raise BadInput(f"the output {name} was not written") from None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"the output {name} can't be read: {error}") from error
    artifacts: dict[str, Any] = {}
    for name, schema in leaf.component.artifacts.items():
        reported = ((written.get("artifacts") or {}).get(name) or {}).get("artifacts")
        expected = [{"name": name, "type": dict(schema), "uri": f"{place.uri}/{name}", "metadata": {}}]
        artifacts[name] = (
            [_named(artifact, place.state, schema) for artifact in reported] if reported else expected
        )
    return Values(parameters, artifacts)


def imported(node: PlanNode, facts: Mapping[str, str]) -> Values:
    """Return the artifact of an importer. Raises TaskCannotStart."""
    leaf = node.leaf
    assert leaf is not None and leaf.executor.importer is not None
    importer = leaf.executor.importer
    inputs = {"inputs": {"parameterValues": dict(node.inputs.parameters)}}
    source = importer.get("artifactUri") or {}
    uri = source.get("constant")
    if uri is None:
        uri = node.inputs.parameters.get(str(source.get("runtimeParameter", "")))
    # The value passed to the task takes precedence over the compiled value.
    uri = node.inputs.parameters.get("uri", uri)
    if not isinstance(uri, str) or not uri:
        raise TaskCannotStart("the importer must have a URI.")
    if uri.startswith("gs://") and (problem := uri_problem(uri)):
        raise TaskCannotStart(problem)
    try:
        metadata = {
            fill(str(key), inputs, facts): fill_within(value, inputs, facts)
            for key, value in (importer.get("metadata") or {}).items()
        }
    except BadPlaceholder as error:
        raise TaskCannotStart(f"{error}.") from error
    name = next(iter(leaf.component.artifacts), "artifact")
    kind = dict(leaf.component.artifacts.get(name) or importer.get("typeSchema") or {})
    return Values({}, {name: [{"name": name, "type": kind, "uri": uri, "metadata": metadata}]})


def _written(file: Path) -> Mapping[str, Any]:
    try:
        output = decode_json(read_regular(file, _LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"{OUTPUT_FILE} can't be read: {error}") from error
    return output if isinstance(output, Mapping) else {}


def _mounted(artifact: Mapping[str, Any]) -> dict[str, Any]:
    """Return the artifact with its bucket's path below /gcs, for a process. Raises TaskCannotStart."""
    uri = str(artifact.get("uri", ""))
    if uri.startswith("gs://") and (problem := uri_problem(uri)):
        raise TaskCannotStart(problem)
    return {**artifact, "uri": "/gcs/" + uri.removeprefix("gs://") if uri.startswith("gs://") else uri}


def _named(artifact: Mapping[str, Any], state: StateDir, kind: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an artifact written by a process: gs:// replaces this machine's path."""
    uri, here = str(artifact.get("uri", "")), f"{state.buckets}/"
    for before in (here, "/gcs/"):
        if uri.startswith(before):
            uri = "gs://" + uri.removeprefix(before)
    return {"type": dict(kind), **artifact, "uri": uri, "metadata": artifact.get("metadata") or {}}
