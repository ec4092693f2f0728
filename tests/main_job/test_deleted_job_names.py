"""A profile whose job was deleted launches the next one under another name, in a folder of its own."""

from __future__ import annotations

import pytest

from tests.shell import Home, home

CUSTOM_JOB = """\
displayName: "{profile}-{n}"
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: {imageUri: "python:3.11", command: [python, -c, pass]}
"""
PYTORCH_JOB = """\
displayName: "{profile}-{n}"
manifest:
  apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  spec:
    pytorchReplicaSpecs:
      Master:
        replicas: 1
        template: {spec: {containers: [{name: pytorch, image: "python:3.11", command: [python, -c, pass]}]}}
"""


def launched(place: Home, *where: str) -> str:
    """The name of a job that is launched and ends."""
    return str(place.json(*where, "launch", "own", "--yes", "--wait")["display_name"])


@pytest.mark.parametrize(
    ("where", "profile"),
    [((), CUSTOM_JOB), (("--context", "local-k8s"), PYTORCH_JOB)],
    ids=["vertex", "kubernetes"],
)
def test_the_name_of_a_deleted_job_is_not_used_again(where: tuple[str, ...], profile: str) -> None:
    with home() as place:
        folder = place.root / "c" / "vxtui" / "profiles"
        folder.mkdir(parents=True)
        (folder / "own.yaml").write_text(profile)
        assert launched(place, *where) == "own-1"
        place.json(*where, "delete", "own-1", "--yes")
        assert place.json(*where, "jobs")["jobs"] == []
        assert launched(place, *where) == "own-2"
