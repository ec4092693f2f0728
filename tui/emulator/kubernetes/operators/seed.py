"""What a new cluster holds: the ready-made training runtimes, and a queue over its node pools."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable

import yaml

from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import carry_out
from tui.emulator.kubernetes.operators.metadata import Obj

PACKAGE = "tui.emulator.kubernetes.operators"


def ready_made_runtimes() -> list[Obj]:
    """The ClusterTrainingRuntimes that Kubeflow Trainer installs."""
    file = importlib.resources.files(PACKAGE).joinpath("trainjob", "runtimes.yaml")
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def create_missing(objects: Objects, found: Iterable[Obj]) -> None:
    """Create the objects whose names are free; what was changed or created before stays."""
    for obj in found:
        carry_out.create(objects, obj)
