"""What several tests share with test_survival."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import Home, home


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def profile(place: Home, code: str, replicas: int = 2, name: str = "count") -> Path:
    """A profile whose replicas run `code` with the plain interpreter."""
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "containerSpec": {"imageUri": "python:3.11", "command": ["python3", "-c", code]},
    }
    pools = [{**pool, "replicaCount": 1}]
    if replicas > 1:
        pools.append({**pool, "replicaCount": replicas - 1})
    path = place.root / f"{name}.yaml"
    path.write_text(json.dumps({"displayName": name, "jobSpec": {"workerPoolSpecs": pools}}))
    return path
