"""How the profile form looks: three sizes, dark, light and sixteen colours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from tests.ui.app_snapshots_support import LARGE, PROFILE, SIZES_AND_THEMES, SMALL, USUAL
from tests.ui.double import MemoryBackend, console
from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp
from tui.config.settings import Settings
from tui.domain.vertex.cost import Estimate, estimate
from tui.domain.vertex.prices import Range
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.profile_form.screen import FormScreen
from tui.store.profiles.draft import Draft

BROKEN = (
    PROFILE.replace("acceleratorCount: 8", "acceleratorCount: 3", 1)
    .replace("timeout: 172800s", "timeout: soon")
    .replace("      replicaCount: 3", "      replicaCuont: 3")
)


SHARED = """\
displayName: sweep
region: us-central1
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: &task
        imageUri: us-docker.pkg.dev/p/r/sweep:1
        # What each node runs.
        args:
          - --preset=small
          - --steps=120
        env:
          - {name: NCCL_DEBUG, value: WARN}
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 2
      containerSpec: *task
    - {}
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: *task
"""
"""Three pools of one task."""

PRICE = Estimate(Range(28, 68), Range(1360, 3260), 172_800, "2026-08-22", "a table of the test's")


@pytest.fixture
def look(tmp_path: Path, snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Compare the form of a profile after `keys` with its picture; prices are not those of today's table."""
    monkeypatch.setattr("tui.screens.profile_form.estimates.estimate", lambda *_: PRICE)

    def compare(
        size: tuple[int, int], theme: str, *keys: str, text: str = PROFILE, shown: type[Any] = Screen
    ) -> None:
        app = console(MemoryBackend(), tmp_path, settings=Settings(theme=theme))
        ready = partial(_ready, app=app, keys=keys, text=text, drafts=tmp_path, shown=shown)
        assert snap_compare(app, terminal_size=size, run_before=ready)

    return compare


async def _ready(
    pilot: Pilot[Any], *, app: VxtuiApp, keys: tuple[str, ...], text: str, drafts: Path, shown: type[Any]
) -> None:
    await until(pilot, lambda: app.live, "an answer")
    screen = FormScreen(Draft(Path("/home/ana/profiles/arr-coc.yaml"), text, drafts / "drafts"))
    await app.push_screen(screen)
    await until(
        pilot, lambda: (screen.analysis.text == text and screen.analysis.problems) or screen.view.rows, "rows"
    )
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    await until(pilot, lambda: screen.analysis.text == screen.draft.text, "a look at the last change")
    await until(pilot, lambda: isinstance(app.screen, shown), shown.__name__)
    await pilot.pause()


@SIZES_AND_THEMES
def test_form(look: Callable[..., None], size: tuple[int, int], theme: str) -> None:
    look(size, theme, "right_square_bracket", "right_square_bracket", "j", "j", "j")


@pytest.mark.parametrize(
    ("size", "theme"), [(SMALL, "vxtui-light"), (LARGE, "vxtui-light")], ids=["80", "200"]
)
def test_problems(look: Callable[..., None], size: tuple[int, int], theme: str) -> None:
    look(size, theme, "n", "n", text=BROKEN)


def test_a_value_being_typed(look: Callable[..., None]) -> None:
    look(SMALL, "vxtui-dark", "j", "j", "enter", *"!!")


def test_the_choices_of_a_machine(look: Callable[..., None]) -> None:
    look(USUAL, "vxtui-dark", *["right_square_bracket"] * 2, "j", "j", "j", "enter")


def test_the_question_before_leaving(look: Callable[..., None]) -> None:
    look(SMALL, "vxtui-dark", "a", "down", "enter", "escape")


@pytest.mark.parametrize("theme", ["vxtui-dark", "vxtui-light"])
@pytest.mark.parametrize("size", [SMALL, USUAL, LARGE], ids=["80", "120", "200"])
def test_the_question_about_a_shared_value(
    look: Callable[..., None], size: tuple[int, int], theme: str
) -> None:
    keys = ["slash", *"environment", "enter", "a", *"NCCL_ALGO=Ring", "enter"]
    look(size, theme, *keys, text=SHARED, shown=ChoiceScreen)


MANIFEST = """\
displayName: bert-{n}
manifest:
  apiVersion: kubeflow.org/v1
  kind: PyTorchJob
  spec:
    elasticPolicy: {minReplicas: 1, maxReplicas: 4}
    pytorchReplicaSpecs:
      Worker:
        replicas: 6
        restartPolicy: ExitCode
        template:
          spec:
            nodeSelector:
              cloud.google.com/gke-accelerator: nvidia-l4
              cloud.google.com/gke-spot: "true"
            containers:
              - name: pytorch
                image: us-docker.pkg.dev/p/r/bert:v1
                args: [--output=gs://b/bert]
                resources: {limits: {nvidia.com/gpu: 8}, requests: {memory: 64Gi}}
"""


@pytest.mark.parametrize(
    ("size", "theme"),
    [(SMALL, "vxtui-dark"), (USUAL, "vxtui-light"), (LARGE, "vxtui-dark")],
    ids=["80", "120", "200"],
)
def test_the_form_of_a_manifest(
    look: Callable[..., None], size: tuple[int, int], theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its price is not known, and each problem is at its field."""
    monkeypatch.setattr("tui.screens.profile_form.estimates.estimate", estimate)
    look(size, theme, "n", text=MANIFEST)


def test_the_diff(look: Callable[..., None]) -> None:
    look(USUAL, "vxtui-light", "a", "enter", "d")


def test_no_yaml(look: Callable[..., None]) -> None:
    look(SMALL, "vxtui-light", text="jobSpec: [")
